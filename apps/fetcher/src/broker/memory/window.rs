//! What one consumer has in its hands.

use std::collections::BTreeMap;

use super::super::message::Message;

/// A consumer's unsettled messages, at most its prefetch, by their tags: these grow, so that what goes back
/// goes back in order.
#[derive(Debug)]
pub(super) struct Window {
    prefetch: usize,
    unacked: BTreeMap<u64, Message>,
}

impl Window {
    pub(super) fn new(prefetch: usize) -> Self {
        Self {
            prefetch,
            unacked: BTreeMap::new(),
        }
    }

    pub(super) fn room(&self) -> usize {
        self.prefetch.saturating_sub(self.unacked.len())
    }

    /// There is no room any more.
    pub(super) fn close(&mut self) {
        self.prefetch = 0;
    }

    pub(super) fn is_open(&self) -> bool {
        self.prefetch > 0
    }

    pub(super) fn insert(&mut self, tag: u64, message: Message) {
        self.unacked.insert(tag, message);
    }

    pub(super) fn remove(&mut self, tag: u64) -> Option<Message> {
        self.unacked.remove(&tag)
    }

    pub(super) fn into_messages(self) -> impl DoubleEndedIterator<Item = Message> {
        self.unacked.into_values()
    }
}
