//! The broker in memory: four bounded queues in this process.
//!
//! ```text
//!   publish ──▶ ready ──take, at most prefetch──▶ unacked, by consumer ──ack──▶ removed
//!                 ▲ ▲                                │      │
//!                 │ └──── its consumer was dropped ──┘      ├─ retry ──▶ waiting, by due time ──┐
//!                 └─────────────────────────────────────────┼─────────────────────────────────┘
//!                                                           └─ dead letter ──▶ the other queue
//! ```
//!
//! A consumer is a thread that offers its deliveries to its inbox.

mod messages;

use std::{
    collections::VecDeque,
    num::NonZeroU16,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use freeboard::{
    meter::clock,
    platform::{
        sync::{Condvar, Mutex, MutexGuard},
        thread,
    },
};

use super::{
    Broker, ConsumeError, Consumer, Inbox, Ledger, OnOutcome, PublishError, Queue,
    consumer::{ConsumerControl, pause},
    delivery::{DEAD_LETTER_REFUSED_DELAY, Delivery, Message, Settle, Settlement},
};
use messages::QueuedMessages;

/// The longest delay of a message.
const DELAY_MAX: Duration = Duration::from_secs(60 * 60);

/// A broker in memory. It confirms accepted messages at once.
#[derive(Debug)]
pub struct MemoryBroker {
    queues: [Arc<MemoryQueue>; Queue::ALL.len()],
}

/// One queue. Its consumers wait on one condition for messages, for capacity in their prefetch, and for the end.
#[derive(Debug)]
struct MemoryQueue {
    messages: Mutex<QueuedMessages>,
    changed: Condvar,
}

/// One consumer of a queue. It settles its deliveries.
#[derive(Debug)]
struct MemoryConsumer {
    queue: Arc<MemoryQueue>,
    dead_letters: Arc<MemoryQueue>,
    consumer: u64,
}

impl MemoryBroker {
    /// A broker with empty queues. `queue_bound` limits the messages of each: ready, waiting and unacknowledged.
    #[must_use]
    pub fn new(queue_bound: usize) -> Self {
        let queue = |_| MemoryQueue {
            messages: Mutex::new(QueuedMessages::new(queue_bound)),
            changed: Condvar::new(),
        };
        Self {
            queues: Queue::ALL.map(queue).map(Arc::new),
        }
    }

    /// The messages of a queue that no consumer holds: ready and waiting. For a queue that is only published to,
    /// confirmed = queued + unacked + acked + dead-lettered at rest.
    #[must_use]
    pub fn queued(&self, queue: Queue) -> usize {
        self.queue(queue).lock().queued()
    }

    /// The memory of a queue's messages: ready, waiting and unacknowledged.
    #[must_use]
    pub fn held_bytes(&self, queue: Queue) -> u64 {
        self.queue(queue).lock().held_bytes()
    }

    /// All consumers of a queue have ended, as when their process is killed. What they held is delivered again.
    pub fn disconnect(&self, queue: Queue) {
        let queue = self.queue(queue);
        queue.lock().leave_all();
        queue.changed.notify_all();
    }

    fn queue(&self, queue: Queue) -> &Arc<MemoryQueue> {
        &self.queues[queue.index()]
    }
}

impl Default for MemoryBroker {
    /// With queues of 1,000,000 messages.
    fn default() -> Self {
        Self::new(1_000_000)
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
        let consumer = own.lock().enter(prefetch.get().into());
        let consumer = Arc::new(MemoryConsumer {
            queue: own,
            dead_letters: self.queue(Queue::DeadLetters).clone(),
            consumer,
        });
        let held = Consumer::new(consumer.clone());
        thread::Builder::new()
            .name(format!("broker {}", queue.name()))
            .spawn(move || consumer.run(inbox))?;
        Ok(held)
    }

    fn publish_with(
        &self,
        queue: Queue,
        body: Bytes,
        on_outcome: OnOutcome,
    ) -> Result<(), PublishError> {
        let accepted = self.queue(queue).accept(Message::now(body), |ledger| {
            ledger.publish();
            ledger.conclude(Ok(()));
        });
        accepted.map_err(|refused| PublishError::Full(refused.body))?;
        on_outcome(Ok(()));
        Ok(())
    }

    fn ledger(&self, queue: Queue) -> Ledger {
        self.queue(queue).lock().ledger
    }
}

impl MemoryQueue {
    fn lock(&self) -> MutexGuard<'_, QueuedMessages> {
        // No code under the lock leaves it half changed when it panics.
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change, at most until this time.
    fn wait<'a>(
        &self,
        messages: MutexGuard<'a, QueuedMessages>,
        until: Option<Instant>,
    ) -> MutexGuard<'a, QueuedMessages> {
        match until {
            Some(until) => {
                let left = until.saturating_duration_since(clock::now());
                let waited = self.changed.wait_timeout(messages, left);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => {
                let waited = self.changed.wait(messages);
                waited.unwrap_or_else(PoisonError::into_inner)
            }
        }
    }

    /// Adds a message and counts it; the message itself if the queue is full.
    fn accept(&self, message: Message, count: impl FnOnce(&mut Ledger)) -> Result<(), Message> {
        let mut messages = self.lock();
        let was_empty = messages.accept(message)?;
        count(&mut messages.ledger);
        drop(messages);
        if was_empty {
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Waits for messages for the consumer. `None` once it has left.
    fn take(&self, consumer: u64, taken: &mut VecDeque<(u64, Message)>) -> Option<()> {
        let mut messages = self.lock();
        loop {
            messages.take(consumer, clock::now(), taken)?;
            if !taken.is_empty() {
                return Some(());
            }
            let due = messages.next_due();
            messages = self.wait(messages, due);
        }
    }

    /// Waits so long, unless the consumer pauses or leaves first.
    fn pause(&self, consumer: u64, pause: Duration) {
        let until = clock::now() + pause;
        let mut messages = self.lock();
        while messages.is_open(consumer) && clock::now() < until {
            messages = self.wait(messages, Some(until));
        }
    }
}

impl MemoryConsumer {
    /// Takes messages and offers them to the inbox until the consumer pauses or leaves.
    fn run(self: Arc<Self>, mut inbox: Inbox) {
        let (queue, consumer) = (&self.queue, self.consumer);
        let delivery = |(tag, message)| Delivery::new(message, tag, self.clone());
        let mut taken = VecDeque::new();
        while queue.take(consumer, &mut taken).is_some() {
            while let Some(next) = taken.pop_front() {
                let mut next = delivery(next);
                let mut refusals = 0;
                loop {
                    if !queue.lock().is_open(consumer) {
                        // The last first, which restores their order.
                        taken
                            .drain(..)
                            .rev()
                            .map(delivery)
                            .for_each(Delivery::give_back);
                        return next.give_back();
                    }
                    match inbox(next) {
                        Ok(()) => break,
                        Err(refused) => next = refused,
                    }
                    queue.pause(consumer, pause(refusals));
                    refusals = refusals.saturating_add(1);
                }
            }
        }
    }
}

impl ConsumerControl for Arc<MemoryConsumer> {
    fn pause(&self) {
        self.queue.lock().pause(self.consumer);
        self.queue.changed.notify_all();
    }

    fn stop(&self) {
        self.queue.lock().leave(self.consumer);
        self.queue.changed.notify_all();
    }
}

impl Settle for MemoryConsumer {
    fn settle(&self, tag: u64, settlement: Settlement) {
        let mut messages = self.queue.lock();
        let Some((message, was_full)) = messages.release(self.consumer, tag) else {
            return;
        };
        let due = |delay| clock::now() + delay;
        // Consumers may wait for a message, for capacity in their prefetch, or for the message that is due first.
        let wakes = match settlement {
            Settlement::Ack => {
                messages.acked();
                was_full
            }
            Settlement::Retry(delay) => {
                let delay = delay.min(DELAY_MAX);
                messages.put_off(message.retried(delay), due(delay)) || was_full
            }
            Settlement::Defer(delay) => {
                let delay = delay.min(DELAY_MAX);
                messages.put_off(message.deferred(delay), due(delay)) || was_full
            }
            Settlement::GiveBack => {
                messages.give_back(message);
                true
            }
            Settlement::DeadLetter(reason) => {
                // Between the two locks it counts as unacknowledged here.
                drop(messages);
                let dead = message.clone().dead(reason);
                let accepted = self.dead_letters.accept(dead, |_| {});
                messages = self.queue.lock();
                if accepted.is_ok() {
                    messages.dead_lettered();
                    was_full
                } else {
                    messages.ledger.moves_failed += 1;
                    let delay = DEAD_LETTER_REFUSED_DELAY;
                    messages.put_off(message.deferred(delay), due(delay)) || was_full
                }
            }
        };
        drop(messages);
        if wakes {
            self.queue.changed.notify_all();
        }
    }
}
