//! The state of one client, and its share of the common state.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
};

use bytes::Bytes;

use crate::{
    options::UNCOUNTED_BYTES,
    store::Common,
    subscribers::{Inbox, Subscribers},
};

/// Memory of a channel in addition to its name.
const CHANNEL_BYTES: usize = 160;
/// Limit of the channels of one connection.
const CHANNELS_BYTES_MAX: usize = 1 << 20;

/// One client's state, and its share of the common state: its slot, its channels, its unfinished bytes. Dropping it
/// releases them.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) is_logged_in: bool,
    /// Nothing more is read.
    pub(crate) is_closing: bool,
    /// The client does not send arrays, and may speak HTTP: pending replies are dropped.
    pub(crate) is_dropped: bool,
    common: Arc<Common>,
    inbox: Option<Arc<Inbox>>,
    channels: BTreeSet<Bytes>,
    channels_bytes: usize,
    /// Its share of the unfinished bytes.
    unfinished_bytes: usize,
}

impl Session {
    /// `None` if the limit of connections is reached.
    pub(crate) fn join(id: u64, common: &Arc<Common>) -> Option<Self> {
        let mut store = common.store.lock();
        if store.connections >= common.options.connections_max {
            return None;
        }
        store.connections += 1;
        Some(Self {
            id,
            is_logged_in: common.password.is_none(),
            is_closing: false,
            is_dropped: false,
            common: common.clone(),
            inbox: None,
            channels: BTreeSet::new(),
            channels_bytes: 0,
            unfinished_bytes: 0,
        })
    }

    pub(crate) fn common(&self) -> &Arc<Common> {
        &self.common
    }

    /// Sets the waker for the first message.
    pub(crate) fn listen_with(&mut self, waker: impl Fn() + Send + Sync + 'static) {
        let bytes_max = self.common.options.output_bytes_max;
        self.inbox = Some(Arc::new(Inbox::new(bytes_max, waker)));
    }

    /// Sets the bytes of its unfinished requests. `false` if all connections together exceed the limit.
    pub(crate) fn hold(&mut self, bytes: usize) -> bool {
        let bytes = bytes.saturating_sub(UNCOUNTED_BYTES);
        let before = std::mem::replace(&mut self.unfinished_bytes, bytes);
        let total = &self.common.unfinished_bytes;
        // Ordering: Relaxed, a sum that orders nothing else.
        if bytes <= before {
            if bytes < before {
                total.fetch_sub(before - bytes, Ordering::Relaxed);
            }
            return true;
        }
        // Ordering: Relaxed, as above.
        let all = total.fetch_add(bytes - before, Ordering::Relaxed) + bytes - before;
        all <= self.common.options.unfinished_bytes_max
    }

    pub(crate) fn inbox(&self) -> Option<&Arc<Inbox>> {
        self.inbox.as_ref()
    }

    /// Its channels, in order of their names.
    pub(crate) fn channels(&self) -> impl Iterator<Item = &Bytes> {
        self.channels.iter()
    }

    pub(crate) fn channel_count(&self) -> usize {
        self.channels.len()
    }

    /// `false` if the limit of channels is reached.
    pub(crate) fn subscribe(&mut self, channel: &[u8], among: &mut Subscribers) -> bool {
        let Some(inbox) = &self.inbox else {
            return false;
        };
        if self.channels.contains(channel) {
            return true;
        }
        let bytes = self.channels_bytes + channel.len() + CHANNEL_BYTES;
        if bytes > CHANNELS_BYTES_MAX {
            return false;
        }
        self.channels_bytes = bytes;
        let channel = Bytes::copy_from_slice(channel);
        among.add(channel.clone(), inbox);
        self.channels.insert(channel)
    }

    pub(crate) fn unsubscribe(&mut self, channel: &[u8], among: &mut Subscribers) {
        if let Some(inbox) = &self.inbox
            && self.channels.remove(channel)
        {
            self.channels_bytes -= channel.len() + CHANNEL_BYTES;
            among.remove(channel, inbox);
        }
    }

    pub(crate) fn unsubscribe_all(&mut self, among: &mut Subscribers) {
        self.channels_bytes = 0;
        for channel in std::mem::take(&mut self.channels) {
            if let Some(inbox) = &self.inbox {
                among.remove(&channel, inbox);
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.hold(0);
        let common = self.common.clone();
        let mut store = common.store.lock();
        store.connections -= 1;
        self.unsubscribe_all(&mut store.subscribers);
    }
}
