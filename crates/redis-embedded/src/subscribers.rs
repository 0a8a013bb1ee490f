//! Channels, and the messages on their way to subscribers.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::Arc,
};

use bytes::Bytes;
use parking_lot::Mutex;

/// The channels that have subscribers.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    channels: HashMap<Bytes, Vec<Arc<Inbox>>>,
    /// Inboxes to wake after the lock is released.
    woken: Vec<Arc<Inbox>>,
}

impl Subscribers {
    /// Adds a subscriber to a channel, at most once.
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

    /// The number of subscribers.
    pub(crate) fn count(&self, channel: &[u8]) -> usize {
        self.channels.get(channel).map_or(0, Vec::len)
    }

    /// Sends a message to all subscribers. Returns their number.
    pub(crate) fn publish(&mut self, channel: &[u8], text: &[u8]) -> usize {
        let Some((channel, inboxes)) = self.channels.get_key_value(channel) else {
            return 0;
        };
        let message = Message {
            channel: channel.clone(),
            text: Bytes::copy_from_slice(text),
        };
        for inbox in inboxes {
            if inbox.push(message.clone()) {
                self.woken.push(inbox.clone());
            }
        }
        inboxes.len()
    }

    /// Takes the inboxes to wake after the lock is released.
    pub(crate) fn take_woken(&mut self) -> Vec<Arc<Inbox>> {
        std::mem::take(&mut self.woken)
    }
}

/// Memory of a message in addition to its text.
const MESSAGE_BYTES: usize = 96;

/// A published message.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) channel: Bytes,
    pub(crate) text: Bytes,
}

impl Message {
    fn bytes(&self) -> usize {
        self.channel.len() + self.text.len() + MESSAGE_BYTES
    }
}

/// Messages for one connection.
pub(crate) struct Inbox {
    state: Mutex<State>,
    bytes_max: usize,
    /// Wakes the connection.
    waker: Box<dyn Fn() + Send + Sync>,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<Message>,
    bytes: usize,
    is_over: bool,
}

impl Inbox {
    pub(crate) fn new(bytes_max: usize, waker: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            state: Mutex::default(),
            bytes_max,
            waker: Box::new(waker),
        }
    }

    /// Adds a message. Returns whether the subscriber must be woken. Beyond the limit, the inbox drops all messages,
    /// and the connection must be closed.
    fn push(&self, message: Message) -> bool {
        let mut state = self.state.lock();
        if state.is_over {
            return false;
        }
        let bytes = state.bytes + message.bytes();
        if bytes > self.bytes_max {
            *state = State {
                is_over: true,
                ..State::default()
            };
            return true;
        }
        state.bytes = bytes;
        state.messages.push_back(message);
        state.messages.len() == 1
    }

    pub(crate) fn take(&self) -> Option<Message> {
        let mut state = self.state.lock();
        let message = state.messages.pop_front()?;
        state.bytes -= message.bytes();
        Some(message)
    }

    /// Whether messages were lost.
    pub(crate) fn is_over(&self) -> bool {
        self.state.lock().is_over
    }

    pub(crate) fn wake(&self) {
        (self.waker)();
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Inbox")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
