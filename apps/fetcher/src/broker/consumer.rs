//! A consumer of a queue, and the inbox that gets its deliveries.

use std::time::Duration;

use freeboard::{Recipient, TellError, flow::Backoff};

use super::delivery::Delivery;

/// Takes from a queue until it is dropped. From then on nothing more is offered, but for what is being
/// offered at that moment, and what was not settled comes again to others.
#[must_use = "dropping it control it"]
pub struct Consumer {
    control: Box<dyn ConsumerControl>,
}

/// The two ways in which a consumer control. Neither blocks.
pub(super) trait ConsumerControl: Send + Sync {
    /// Takes nothing more; what is in its hands can still be settled.
    fn pause(&self);
    /// ConsumerControl.
    fn stop(&self);
}

impl Consumer {
    pub(super) fn new(control: impl ConsumerControl + 'static) -> Self {
        Self {
            control: Box::new(control),
        }
    }

    /// Takes nothing more from now on, but what was taken can still be settled: the first half of an orderly
    /// end. What is being offered at this moment may still come. What the inbox has no room for goes back to
    /// the queue, and so does what cannot be put off or dead-lettered at the moment.
    pub fn pause(&self) {
        self.control.pause();
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.control.stop();
    }
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Consumer")
    }
}

/// Takes deliveries, or gives them back while there is no room: they are then offered again, in order, after
/// a pause that grows, until the consumer pauses. Bounds of a mailbox that are no smaller than the prefetches never come to that.
pub struct Inbox {
    offer: Box<dyn FnMut(Delivery) -> Result<(), Delivery> + Send>,
}

impl Inbox {
    /// Takes them by a call, which must not block.
    #[must_use]
    pub fn call(offer: impl FnMut(Delivery) -> Result<(), Delivery> + Send + 'static) -> Self {
        Self {
            offer: Box::new(offer),
        }
    }

    /// Puts them into an actor's mailbox.
    #[must_use]
    pub fn actor(recipient: Recipient<Delivery>) -> Self {
        Self::call(move |delivery| recipient.try_tell(delivery).map_err(TellError::into_inner))
    }

    pub(super) fn offer(&mut self, delivery: Delivery) -> Result<(), Delivery> {
        (self.offer)(delivery)
    }
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Inbox")
    }
}

/// From half a millisecond to 20 ms: a mailbox without room is looked at often enough to stay busy.
const PAUSES: Backoff = Backoff {
    min_ns: 500_000,
    max_ns: 20_000_000,
    factor: 2,
};

/// After so many refusals in a row.
pub(super) const fn pause(refusals: u32) -> Duration {
    Duration::from_nanos(PAUSES.delay_ns(refusals))
}
