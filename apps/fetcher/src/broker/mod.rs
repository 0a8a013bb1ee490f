//! Message brokers: in memory, that of another process, and RabbitMQ.
//!
//! A broker has four queues. A [`Consumer`] holds at most `prefetch` deliveries of one queue until it settles them:
//! acknowledged, retried, deferred or dead-lettered. Deliveries that are unsettled when the consumer or its
//! connection goes are delivered again: at least once, never lost. The rules follow AMQP 0-9-1 and RabbitMQ's
//! publisher confirms.
//!
//! A dead letter that its queue refuses is deferred for a second. A delivery that cannot be deferred either stays
//! unsettled, within the prefetch, and is tried again with back-off. Neither counts as an attempt.

mod consumer;
mod delivery;
mod ledger;
mod memory;
mod pipe;
#[cfg(feature = "rabbitmq")]
mod rabbit;

use std::{io, num::NonZeroU16};

use bytes::Bytes;

use crate::report::{self, Lost};
pub(crate) use consumer::consume_notifications;
pub use consumer::{Consumer, Inbox};
pub use delivery::{Delivery, REASON_BYTES_MAX};
pub use ledger::Ledger;
pub use memory::MemoryBroker;
pub use pipe::{FarBroker, NearEnd, Notes};
#[cfg(feature = "rabbitmq")]
pub use rabbit::{RabbitBroker, RabbitOptions};

/// The contract of both brokers.
pub trait Broker: Send + Sync {
    /// Starts consuming a queue, with at most `prefetch` unsettled deliveries. Several consumers share a queue.
    /// Never blocks.
    ///
    /// # Errors
    /// [`ConsumeError`].
    fn consume(
        &self,
        queue: Queue,
        prefetch: NonZeroU16,
        inbox: Inbox,
    ) -> Result<Consumer, ConsumeError>;

    /// Publishes a message. `on_outcome` is called once, on any thread, when the broker has confirmed or refused
    /// it, or when its fate stays unknown. Never blocks.
    ///
    /// # Errors
    /// [`PublishError`], with the body; `on_outcome` is then not called.
    fn publish_with(
        &self,
        queue: Queue,
        body: Bytes,
        on_outcome: OnOutcome,
    ) -> Result<(), PublishError>;

    /// The ledger of a queue, for this process, consistent in itself.
    fn ledger(&self, queue: Queue) -> Ledger;
}

/// A queue of a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Queue {
    /// Urgent notifications.
    Priority0,
    /// The other notifications.
    Priority1,
    /// Replies.
    Replies,
    /// Messages that could not be handled, with the reason.
    DeadLetters,
}

impl Queue {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Priority0,
        Self::Priority1,
        Self::Replies,
        Self::DeadLetters,
    ];

    /// The queues of notifications, by priority.
    pub const NOTIFICATIONS: [Self; 2] = [Self::Priority0, Self::Priority1];

    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// Its name, without the prefix at RabbitMQ.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Priority0 => "priority0",
            Self::Priority1 => "priority1",
            Self::Replies => "replies",
            Self::DeadLetters => "dead",
        }
    }
}

/// A callback for the outcome of a publish, called once, on any thread. It must not block.
pub type OnOutcome = report::OnOutcome<(), Unconfirmed>;

/// Calls the callback exactly once; if dropped unused, with [`Unconfirmed::Unknown`].
#[cfg(feature = "rabbitmq")]
pub(super) type Report = report::Report<(), Unconfirmed>;

impl Lost for Unconfirmed {
    fn lost() -> Self {
        Self::Unknown
    }
}

/// Publishing failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The queue or the limit of unconfirmed messages is full.
    #[error("the broker is full")]
    Full(Bytes),
    /// There is no connection; the broker is reconnecting.
    #[error("there is no connection to the broker")]
    Disconnected(Bytes),
}

impl PublishError {
    /// The body of the message.
    #[must_use]
    pub fn into_body(self) -> Bytes {
        match self {
            Self::Full(body) | Self::Disconnected(body) => body,
        }
    }
}

/// A published message was not confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unconfirmed {
    /// The broker refused it.
    #[error("the broker refused the message")]
    Refused,
    /// The connection was lost first, so the broker may have it or not.
    #[error("the connection was lost before the broker confirmed the message")]
    Unknown,
}

/// Starting a consumer failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConsumeError {
    /// The operating system cannot create a thread.
    #[error("a consumer's thread cannot be started: {0}")]
    Thread(#[from] io::Error),
}
