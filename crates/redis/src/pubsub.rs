//! What subscribers get, and how they end it.

use std::sync::Arc;

use bytes::Bytes;

use crate::{pool::Pool, protocol::ServerError, reply::Name};

/// What a subscription brings.
///
/// It is told without waiting: what the mailbox refuses is lost, and counted in
/// [`crate::ConnectionSnapshot::pushes_shed`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PubSub {
    /// All messages come from here on. It is told again after the connection was lost: what was
    /// published between was missed.
    Subscribed {
        /// The channel or pattern.
        name: Bytes,
    },
    /// Something was published.
    Message {
        /// On this channel.
        channel: Bytes,
        /// The pattern that it matched, for a subscription to one.
        pattern: Option<Bytes>,
        /// What.
        payload: Bytes,
    },
    /// The server refused the subscription. It is asked for again after the next connect.
    Refused {
        /// The channel or pattern.
        name: Bytes,
        /// Why.
        error: ServerError,
    },
}

/// A subscription, which ends when this is dropped. It keeps its client's connections, as a handle does.
#[must_use = "the subscription ends when it is dropped"]
pub struct Subscription {
    pub(crate) name: Name,
    pub(crate) id: u64,
    pub(crate) pool: Arc<Pool>,
    /// Of the connection.
    pub(crate) index: usize,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.pool.unsubscribe(self.index, &self.name, self.id);
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Subscription({:?})", self.name)
    }
}
