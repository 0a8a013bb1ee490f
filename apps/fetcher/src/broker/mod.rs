//! Where messages come from and go to.
//!
//! A broker has four queues. What a [`Consumer`] takes from one is its own, at most `prefetch` at once,
//! until it is settled: acknowledged, put off, or dead-lettered. What is not settled when the consumer or
//! its connection goes is delivered again: at least once, never lost. The rules follow AMQP 0-9-1 and
//! RabbitMQ's publisher confirms.
//!
//! A dead letter that its queue refuses is put off for a second. A delivery that cannot be put off either stays
//! unsettled, within the prefetch, and is tried again with back-off. Neither counts as an attempt.

mod confirm;
mod consumer;
mod delivery;
mod error;
mod inbox;
mod ledger;
mod memory;
mod message;
mod offer;
mod queue;
mod rabbit;
mod report;

use std::num::NonZeroU16;

use bytes::Bytes;

pub use confirm::Confirm;
pub use consumer::Consumer;
pub use delivery::{Delivery, REASON_BYTES_MAX};
pub use error::{ConsumeError, PublishError, Unconfirmed};
pub use inbox::Inbox;
pub use ledger::Ledger;
pub use memory::{MemoryBroker, MemoryOptions};
pub use queue::Queue;
pub use rabbit::{ConnectError, RabbitBroker, RabbitOptions};
pub use report::OnOutcome;

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
