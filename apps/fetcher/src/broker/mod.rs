//! Where messages come from and go to.
//!
//! A broker has four queues. What a [`Consumer`] takes from one is its own, at most `prefetch` at once,
//! until it is settled: acknowledged, put off, or dead-lettered. What is not settled when the consumer or
//! its connection goes is delivered again: at least once, never lost. The rules follow AMQP 0-9-1 and
//! RabbitMQ's publisher confirms.
//!
//! A dead letter that its queue refuses is put off for a second. A delivery that cannot be put off either stays
//! unsettled, within the prefetch, and is tried again with back-off. Neither counts as an attempt.

mod consumer;
mod delivery;
mod ledger;
mod memory;
mod rabbit;

use std::{
    io,
    num::NonZeroU16,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_channel::oneshot;

use crate::report::{self, Lost};
pub use consumer::{Consumer, Inbox};
pub use delivery::{Delivery, REASON_BYTES_MAX};
pub use ledger::Ledger;
pub use memory::{MemoryBroker, MemoryOptions};
pub use rabbit::{ConnectError, RabbitBroker, RabbitOptions};

/// The contract of both brokers.
pub trait Broker: Send + Sync {
    /// Begins to take from a queue, at most `prefetch` unsettled at once. Several consumers of one queue
    /// share it. Never blocks.
    ///
    /// # Errors
    /// [`ConsumeError`].
    fn consume(
        &self,
        queue: Queue,
        prefetch: NonZeroU16,
        inbox: Inbox,
    ) -> Result<Consumer, ConsumeError>;

    /// Puts a message into a queue; `on_outcome` is called once, on any thread, when the broker has taken
    /// charge of it or it is known that this will not be heard of. Never blocks.
    ///
    /// # Errors
    /// [`PublishError`], with the body; `on_outcome` is then not called.
    fn publish_with(
        &self,
        queue: Queue,
        body: Bytes,
        on_outcome: OnOutcome,
    ) -> Result<(), PublishError>;

    /// As [`Broker::publish_with`], with a future in place of the call.
    ///
    /// # Errors
    /// As there.
    fn publish(&self, queue: Queue, body: Bytes) -> Result<Confirm, PublishError> {
        let (sender, confirm) = Confirm::channel();
        self.publish_with(
            queue,
            body,
            Box::new(move |outcome| {
                // Who asked may have gone.
                let _ = sender.send(outcome);
            }),
        )?;
        Ok(confirm)
    }

    /// What this process has had to do with a queue, consistent in itself.
    fn ledger(&self, queue: Queue) -> Ledger;
}

/// One of a broker's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Queue {
    /// Notifications that go first.
    Priority0,
    /// The other notifications.
    Priority1,
    /// Replies.
    Replies,
    /// What could not be done, with the reason.
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

    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// Its name, without what it begins with at RabbitMQ.
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

/// Called once with the outcome of a publish, on any thread. It must not block.
pub type OnOutcome = report::OnOutcome<(), Unconfirmed>;

/// Tells the outcome exactly once: as unknown if it is dropped before.
pub(super) type Report = report::Report<(), Unconfirmed>;

impl Lost for Unconfirmed {
    fn lost() -> Self {
        Self::Unknown
    }
}

type Outcome = Result<(), Unconfirmed>;

/// Resolves when the broker has taken charge of a message, or when that will not be heard of any more.
#[derive(Debug)]
#[must_use = "a message is not published before it is confirmed"]
pub struct Confirm {
    receiver: oneshot::Receiver<Outcome>,
}

impl Confirm {
    pub(super) fn channel() -> (oneshot::Sender<Outcome>, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self { receiver })
    }
}

impl Future for Confirm {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        Pin::new(&mut self.receiver)
            .poll(context)
            .map(|outcome| outcome.unwrap_or(Err(Unconfirmed::Unknown)))
    }
}

/// Why a message was not published.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The queue, or what may be unconfirmed at once, is at its bound.
    #[error("the broker takes no more at the moment")]
    Full(Bytes),
    /// There is no connection; it is being made again.
    #[error("there is no connection to the broker")]
    Disconnected(Bytes),
}

impl PublishError {
    /// The body that was not published.
    #[must_use]
    pub fn into_body(self) -> Bytes {
        match self {
            Self::Full(body) | Self::Disconnected(body) => body,
        }
    }
}

/// Why a message was published without a confirm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unconfirmed {
    /// The broker did not take it.
    #[error("the broker refused the message")]
    Refused,
    /// The connection was lost first: the broker may have it or not.
    #[error("the connection was lost before the broker confirmed the message")]
    Unknown,
}

/// Why a consumer could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConsumeError {
    /// The system gives no thread.
    #[error("a consumer's thread cannot be started: {0}")]
    Thread(#[from] io::Error),
}
