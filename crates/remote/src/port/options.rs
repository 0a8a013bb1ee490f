//! The options of a published actor: its lane, its window, and how many senders it takes.

use freeboard_actor::{Actor, ActorRef};
use freeboard_flow::BOUND_MAX;

use crate::{error::NodeError, node::CONTROL_BOUND};

/// Far from where sums of bytes overflow.
const WINDOW_BYTES_MAX: u64 = 1 << 48;

/// How a port takes messages.
#[derive(Debug, Clone)]
#[must_use]
pub struct PublishOptions {
    pub(crate) lane: usize,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) sessions_max: usize,
}

impl Default for PublishOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl PublishOptions {
    /// Lane 0, at most 1,024 messages and 8 MiB of all senders together, 1,024 senders.
    pub fn new() -> Self {
        Self {
            lane: 0,
            messages: 1_024,
            bytes: 8 * 1_024 * 1_024,
            sessions_max: 1_024,
        }
    }

    /// The actor's lane.
    pub fn lane(mut self, lane: usize) -> Self {
        self.lane = lane;
        self
    }

    /// The window: messages and bytes of all senders together that are granted, queued, or asks without a reply. At least 1,
    /// and if it has more messages than the bound of the lane, it is reduced to that. More than 2^48 bytes count as 2^48. A
    /// larger message than `bytes` is refused.
    pub fn window(mut self, messages: u64, bytes: u64) -> Self {
        (self.messages, self.bytes) = (messages.max(1), bytes.clamp(1, WINDOW_BYTES_MAX));
        self
    }

    /// The window is at most the bound of the lane.
    pub(crate) fn within<A: Actor>(mut self, actor: &ActorRef<A>) -> Result<Self, NodeError> {
        let snapshot = actor.snapshot();
        let Some(lane) = snapshot.lanes.get(self.lane) else {
            let (lane, lanes) = (self.lane, snapshot.lanes.len());
            return Err(NodeError::Option(format!(
                "there is no lane {lane}: the actor has {lanes}"
            )));
        };
        self.messages = self.messages.min(lane.bound);
        Ok(self)
    }

    /// The bound of the port's own lane. Frames that senders repeat may fill half of it, see `Port::started`. The other half
    /// has a slot for each message that is granted, and for the last frame of each session.
    pub(crate) fn control_bound(&self) -> usize {
        let messages = usize::try_from(self.messages).unwrap_or(usize::MAX);
        let half = messages.saturating_add(self.sessions_max);
        half.clamp(CONTROL_BOUND / 2, BOUND_MAX as usize / 2) * 2
    }

    /// Senders at the same time; others are refused. One that connects again counts once.
    pub fn sessions_max(mut self, sessions: usize) -> Self {
        self.sessions_max = sessions.max(1);
        self
    }
}
