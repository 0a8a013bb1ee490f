//! Messages on their way to one subscriber.

use std::{collections::VecDeque, fmt};

use bytes::Bytes;
use parking_lot::Mutex;

/// What a message takes beside its text, in bytes.
const MESSAGE_BYTES: usize = 96;

/// A message that was published.
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

/// Where publishers leave messages for a connection.
pub(crate) struct Inbox {
    state: Mutex<State>,
    bytes_max: usize,
    /// Has the connection run.
    call: Box<dyn Fn() + Send + Sync>,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<Message>,
    bytes: usize,
    is_over: bool,
}

impl Inbox {
    pub(crate) fn new(bytes_max: usize, call: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            state: Mutex::default(),
            bytes_max,
            call: Box::new(call),
        }
    }

    /// Leaves a message. Whether the subscriber is to be woken for it. One that is too slow for its bound gets no
    /// more, and is to be closed.
    pub(crate) fn leave(&self, message: Message) -> bool {
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
        (self.call)();
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
