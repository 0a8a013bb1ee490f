//! The broker in memory: four bounded queues in this process.
//!
//! ```text
//!   publish ──▶ ready ──take, at most prefetch──▶ unacked, by consumer ──ack──▶ gone
//!                 ▲ ▲                                │      │
//!                 │ └──── its consumer has gone ─────┘      ├─ retry ──▶ waiting, by due time ──┐
//!                 └─────────────────────────────────────────┼─────────────────────────────────┘
//!                                                           └─ dead letter ──▶ the other queue
//! ```
//!
//! A consumer is a thread that offers its deliveries to its inbox.

mod messages;
mod queue;

use std::{collections::VecDeque, num::NonZeroU16, sync::Arc, thread};

use bytes::Bytes;

use super::{
    Broker, ConsumeError, Consumer, Inbox, Ledger, OnOutcome, PublishError, Queue,
    consumer::{ConsumerControl, pause},
    delivery::{Delivery, Message, Settle, Settlement},
};
use queue::MemoryQueue;

/// The bounds of a [`MemoryBroker`].
#[derive(Clone, Copy, Debug)]
pub struct MemoryOptions {
    /// The bound of a queue, in messages: ready, waiting and unacknowledged together; 1,000,000 unless set.
    pub queue_bound: usize,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self {
            queue_bound: 1_000_000,
        }
    }
}

/// A broker in memory. It confirms accepted messages at once.
#[derive(Debug)]
pub struct MemoryBroker {
    queues: [Arc<MemoryQueue>; Queue::ALL.len()],
}

impl MemoryBroker {
    /// A broker with empty queues.
    #[must_use]
    pub fn new(options: MemoryOptions) -> Self {
        Self {
            queues: Queue::ALL.map(|_| Arc::new(MemoryQueue::new(options.queue_bound))),
        }
    }

    /// The messages of a queue that no consumer holds: ready and waiting. For a queue that is only published to,
    /// confirmed = queued + unacked + acked + dead-lettered at rest.
    #[must_use]
    pub fn queued(&self, queue: Queue) -> usize {
        self.queue(queue).queued()
    }

    fn queue(&self, queue: Queue) -> &Arc<MemoryQueue> {
        &self.queues[queue.index()]
    }
}

/// The control of a consumer.
struct MemoryConsumer {
    queue: Arc<MemoryQueue>,
    consumer: u64,
}

impl ConsumerControl for MemoryConsumer {
    fn pause(&self) {
        self.queue.pause_consumer(self.consumer);
    }

    fn stop(&self) {
        self.queue.leave(self.consumer);
    }
}

impl Default for MemoryBroker {
    fn default() -> Self {
        Self::new(MemoryOptions::default())
    }
}

impl Broker for MemoryBroker {
    fn consume(
        &self,
        queue: Queue,
        prefetch: NonZeroU16,
        inbox: Inbox,
    ) -> Result<Consumer, ConsumeError> {
        let own = self.queue(queue).clone();
        let consumer = own.enter(prefetch.get().into());
        let consumer_thread = ConsumerThread::new(
            own.clone(),
            self.queue(Queue::DeadLetters).clone(),
            consumer,
        );
        let held = Consumer::new(MemoryConsumer {
            queue: own,
            consumer,
        });
        thread::Builder::new()
            .name(format!("broker {}", queue.name()))
            .spawn(move || consumer_thread.run(inbox))?;
        Ok(held)
    }

    fn publish_with(
        &self,
        queue: Queue,
        body: Bytes,
        on_outcome: OnOutcome,
    ) -> Result<(), PublishError> {
        self.queue(queue)
            .publish(Message::now(body))
            .map_err(|refused| PublishError::Full(refused.body))?;
        on_outcome(Ok(()));
        Ok(())
    }

    fn ledger(&self, queue: Queue) -> Ledger {
        self.queue(queue).ledger()
    }
}

/// Takes messages for one consumer and offers them to its inbox until it pauses or leaves.
#[derive(Debug)]
struct ConsumerThread {
    slot: Arc<ConsumerSlot>,
}

/// Settles the deliveries of one consumer.
#[derive(Debug)]
struct ConsumerSlot {
    queue: Arc<MemoryQueue>,
    dead_letters: Arc<MemoryQueue>,
    consumer: u64,
}

impl ConsumerThread {
    fn new(queue: Arc<MemoryQueue>, dead_letters: Arc<MemoryQueue>, consumer: u64) -> Self {
        Self {
            slot: Arc::new(ConsumerSlot {
                queue,
                dead_letters,
                consumer,
            }),
        }
    }

    fn run(self, mut inbox: Inbox) {
        let ConsumerSlot {
            queue, consumer, ..
        } = &*self.slot;
        let mut taken = VecDeque::new();
        while queue.take(*consumer, &mut taken).is_some() {
            while let Some((tag, message)) = taken.pop_front() {
                let mut delivery = Delivery::new(message, tag, self.slot.clone());
                let mut refusals = 0;
                loop {
                    if !queue.is_open(*consumer) {
                        // The last first, which restores their order.
                        for (tag, message) in taken.drain(..).rev() {
                            Delivery::new(message, tag, self.slot.clone()).give_back();
                        }
                        return delivery.give_back();
                    }
                    match inbox.offer(delivery) {
                        Ok(()) => break,
                        Err(refused) => delivery = refused,
                    }
                    queue.pause(*consumer, pause(refusals));
                    refusals = refusals.saturating_add(1);
                }
            }
        }
    }
}

impl Settle for ConsumerSlot {
    fn settle(&self, tag: u64, settlement: Settlement) {
        self.queue
            .settle(self.consumer, tag, settlement, &self.dead_letters);
    }
}
