//! A consumer of a queue, and the inbox that gets its deliveries.

use std::{num::NonZeroU16, time::Duration};

use freeboard::flow::Backoff;

use super::{Broker, ConsumeError, Queue, delivery::Delivery};

/// Consumes a queue until it is dropped. Then nothing more is offered, except a delivery that is being offered at
/// that moment, and unsettled deliveries go to other consumers.
#[must_use = "dropping it stops it"]
pub struct Consumer {
    control: Box<dyn ConsumerControl>,
}

/// Controls a consumer. Neither function blocks.
pub(super) trait ConsumerControl: Send + Sync {
    /// Stops consuming; unsettled deliveries can still be settled.
    fn pause(&self);
    /// Stops the consumer.
    fn stop(&self);
}

impl Consumer {
    pub(super) fn new(control: impl ConsumerControl + 'static) -> Self {
        Self {
            control: Box::new(control),
        }
    }

    /// Stops consuming, while deliveries can still be settled: the first half of a graceful stop. A delivery that
    /// is being offered may still arrive. Deliveries that the inbox has no capacity for go back to the queue, and
    /// so do those that cannot be deferred or dead-lettered now.
    pub fn pause(&self) {
        self.control.pause();
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.control.stop();
    }
}

/// Accepts deliveries, or returns them when it is full: they are then offered again, in order, after a growing
/// delay, until the consumer pauses. A mailbox with a bound of at least the prefetch is never full. It must not block.
pub type Inbox = Box<dyn FnMut(Delivery) -> Result<(), Delivery> + Send>;

/// Consumes the notifications of both priorities. `offer` gets the priority and returns what has no capacity.
pub(crate) fn consume_notifications(
    broker: &dyn Broker,
    prefetch: [NonZeroU16; 2],
    offer: impl Fn(usize, Delivery) -> Result<(), Delivery> + Clone + Send + 'static,
) -> Result<Vec<Consumer>, ConsumeError> {
    let queues = Queue::NOTIFICATIONS.into_iter().zip(prefetch).enumerate();
    let consumers = queues.map(|(priority, (queue, prefetch))| {
        let offer = offer.clone();
        let inbox = Box::new(move |delivery| offer(priority, delivery));
        broker.consume(queue, prefetch, inbox)
    });
    consumers.collect()
}

/// From half a millisecond to 20 ms: a full mailbox is retried often enough to stay busy.
const PAUSES: Backoff = Backoff {
    min_ns: 500_000,
    max_ns: 20_000_000,
    factor: 2,
};

/// The delay after so many refusals in a row.
pub(super) const fn pause(refusals: u32) -> Duration {
    Duration::from_nanos(PAUSES.delay_ns(refusals))
}
