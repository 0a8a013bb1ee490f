//! Who listens to which channel.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;

use crate::inbox::{Inbox, Message};

/// The channels that somebody listens to.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    channels: HashMap<Bytes, Vec<Arc<Inbox>>>,
    /// Those who have got a message since they were last woken; under a lock nobody is.
    woken: Vec<Arc<Inbox>>,
}

impl Subscribers {
    /// Adds one that does not listen to this channel yet.
    pub(crate) fn add(&mut self, channel: Bytes, inbox: &Arc<Inbox>) {
        self.channels
            .entry(channel)
            .or_default()
            .push(inbox.clone());
    }

    pub(crate) fn remove(&mut self, channel: &[u8], inbox: &Arc<Inbox>) {
        let Some(inboxes) = self.channels.get_mut(channel) else {
            return;
        };
        inboxes.retain(|other| !Arc::ptr_eq(other, inbox));
        if inboxes.is_empty() {
            self.channels.remove(channel);
        }
    }

    /// How many listen.
    pub(crate) fn count(&self, channel: &[u8]) -> usize {
        self.channels.get(channel).map_or(0, Vec::len)
    }

    /// Leaves a message for all who listen. How many those are.
    pub(crate) fn publish(&mut self, channel: &[u8], text: &[u8]) -> usize {
        let Some((channel, inboxes)) = self.channels.get_key_value(channel) else {
            return 0;
        };
        let message = Message {
            channel: channel.clone(),
            text: Bytes::copy_from_slice(text),
        };
        for inbox in inboxes {
            if inbox.leave(message.clone()) {
                self.woken.push(inbox.clone());
            }
        }
        inboxes.len()
    }

    /// Those who are to be woken once the lock is given up.
    pub(crate) fn take_woken(&mut self) -> Vec<Arc<Inbox>> {
        std::mem::take(&mut self.woken)
    }
}
