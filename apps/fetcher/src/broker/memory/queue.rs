//! A queue shared by threads.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use super::super::{
    delivery::{DEAD_LETTER_REFUSED_DELAY, Message, Settlement},
    ledger::Ledger,
};
use super::messages::QueuedMessages;

/// The longest delay of a message.
const DELAY_MAX: Duration = Duration::from_secs(60 * 60);

/// One queue. Its consumers wait on one condition for messages, for capacity in their prefetch, and for the end.
#[derive(Debug)]
pub(super) struct MemoryQueue {
    messages: Mutex<QueuedMessages>,
    changed: Condvar,
}

impl MemoryQueue {
    pub(super) fn new(bound: usize) -> Self {
        Self {
            messages: Mutex::new(QueuedMessages::new(bound)),
            changed: Condvar::new(),
        }
    }

    pub(super) fn ledger(&self) -> Ledger {
        self.messages.lock().ledger
    }

    pub(super) fn queued(&self) -> usize {
        self.messages.lock().queued()
    }

    pub(super) fn publish(&self, message: Message) -> Result<(), Message> {
        let wake = {
            let mut messages = self.messages.lock();
            let wake = messages.accept(message)?;
            messages.ledger.publish();
            messages.ledger.conclude(Ok(()));
            wake
        };
        self.wake_if(wake);
        Ok(())
    }

    pub(super) fn enter(&self, prefetch: usize) -> u64 {
        self.messages.lock().enter(prefetch)
    }

    pub(super) fn leave(&self, consumer: u64) {
        self.messages.lock().leave(consumer);
        self.changed.notify_all();
    }

    pub(super) fn pause_consumer(&self, consumer: u64) {
        self.messages.lock().pause(consumer);
        self.changed.notify_all();
    }

    pub(super) fn is_open(&self, consumer: u64) -> bool {
        self.messages.lock().is_open(consumer)
    }

    /// Waits for messages for the consumer. `None` once it has left.
    pub(super) fn take(&self, consumer: u64, taken: &mut VecDeque<(u64, Message)>) -> Option<()> {
        let mut messages = self.messages.lock();
        loop {
            messages.take(consumer, Instant::now(), taken)?;
            if !taken.is_empty() {
                return Some(());
            }
            match messages.next_due() {
                Some(due) => {
                    self.changed.wait_until(&mut messages, due);
                }
                None => self.changed.wait(&mut messages),
            }
        }
    }

    /// Waits so long, unless the consumer pauses or leaves first.
    pub(super) fn pause(&self, consumer: u64, pause: Duration) {
        let until = Instant::now() + pause;
        let mut messages = self.messages.lock();
        while messages.is_open(consumer)
            && !self.changed.wait_until(&mut messages, until).timed_out()
        {}
    }

    pub(super) fn settle(
        &self,
        consumer: u64,
        tag: u64,
        settlement: Settlement,
        dead_letters: &Arc<Self>,
    ) {
        let wake = match settlement {
            Settlement::Ack => {
                let mut messages = self.messages.lock();
                let Some((_, was_full)) = messages.release(consumer, tag) else {
                    return;
                };
                messages.acked();
                was_full
            }
            Settlement::Retry(delay) => self.put_off(consumer, tag, delay, Message::put_off),
            Settlement::Defer(delay) => self.put_off(consumer, tag, delay, Message::deferred),
            Settlement::GiveBack => {
                let mut messages = self.messages.lock();
                let Some((message, _)) = messages.release(consumer, tag) else {
                    return;
                };
                messages.give_back(message);
                true
            }
            Settlement::DeadLetter(reason) => {
                let Some((message, _)) = self.messages.lock().release(consumer, tag) else {
                    return;
                };
                // Between the two locks it counts as unacknowledged here.
                let is_taken = dead_letters.take_dead(message.clone().dead(reason));
                let mut messages = self.messages.lock();
                if is_taken {
                    messages.dead_lettered();
                } else {
                    messages.ledger.moves_failed += 1;
                    let due = Instant::now() + DEAD_LETTER_REFUSED_DELAY;
                    messages.put_off(message.deferred(), due);
                }
                true
            }
        };
        self.wake_if(wake);
    }

    /// Delays a message. Whether waiting consumers must be woken, because they may wait for a later one.
    fn put_off(
        &self,
        consumer: u64,
        tag: u64,
        delay: Duration,
        change: impl FnOnce(Message) -> Message,
    ) -> bool {
        let mut messages = self.messages.lock();
        let Some((message, _)) = messages.release(consumer, tag) else {
            return false;
        };
        messages.put_off(change(message), Instant::now() + delay.min(DELAY_MAX));
        true
    }

    fn take_dead(&self, message: Message) -> bool {
        let accepted = self.messages.lock().accept(message);
        self.wake_if(accepted.as_ref().is_ok_and(|wake| *wake));
        accepted.is_ok()
    }

    fn wake_if(&self, wake: bool) {
        if wake {
            self.changed.notify_all();
        }
    }
}
