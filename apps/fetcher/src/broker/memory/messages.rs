//! The messages of a queue as plain data, without a lock or a clock.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    time::Instant,
};

use freeboard::platform::planted;

use super::super::{delivery::Message, ledger::Ledger};
use crate::held::bytes_of;

/// The most messages taken at once, so that others get the lock in between.
const TAKEN_MAX: usize = 64;

/// The messages of one queue in every state, and their ledger.
#[derive(Debug)]
pub(super) struct QueuedMessages {
    bound: usize,
    /// Ready, waiting and unacknowledged together.
    count: usize,
    /// The length of the last body.
    body_bytes: usize,
    ready: VecDeque<Message>,
    /// By due time, then in the order in which they were delayed.
    waiting: BTreeMap<(Instant, u64), Message>,
    consumers: HashMap<u64, Window>,
    /// The last number given to a consumer, a delivery or a delayed message.
    number: u64,
    pub(super) ledger: Ledger,
}

impl QueuedMessages {
    pub(super) fn new(bound: usize) -> Self {
        Self {
            bound,
            count: 0,
            body_bytes: 0,
            ready: VecDeque::new(),
            waiting: BTreeMap::new(),
            consumers: HashMap::new(),
            number: 0,
            ledger: Ledger::default(),
        }
    }

    pub(super) fn queued(&self) -> usize {
        self.ready.len() + self.waiting.len()
    }

    /// The memory of all messages, if their bodies are as long as the last one's.
    pub(super) fn held_bytes(&self) -> u64 {
        bytes_of::<Message>(self.count as u64, self.body_bytes as u64)
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        Some(self.waiting.first_key_value()?.0.0)
    }

    /// Adds a message. Whether waiting consumers must be woken; the message itself if the queue is full.
    pub(super) fn accept(&mut self, message: Message) -> Result<bool, Message> {
        if self.count >= self.bound {
            return Err(message);
        }
        self.count += 1;
        self.body_bytes = message.body.len();
        self.ready.push_back(message);
        Ok(self.ready.len() == 1)
    }

    pub(super) fn enter(&mut self, prefetch: usize) -> u64 {
        let consumer = self.next_number();
        let unacked = BTreeMap::new();
        self.consumers
            .insert(consumer, Window { prefetch, unacked });
        consumer
    }

    /// Removes a consumer. Its messages are ready again, before all others and in their order.
    pub(super) fn leave(&mut self, consumer: u64) {
        let Some(window) = self.consumers.remove(&consumer) else {
            return;
        };
        let ready_before = self.ready.len();
        let lost = usize::from(planted!("unacknowledged-is-lost"));
        for message in window.unacked.into_values().rev().skip(lost) {
            self.ready.push_front(message);
        }
        let returned = self.ready.len() - ready_before;
        self.ledger.give_back(returned as u64);
    }

    /// Removes all consumers, the oldest last: its messages come first.
    pub(super) fn leave_all(&mut self) {
        let mut consumers: Vec<_> = self.consumers.keys().copied().collect();
        consumers.sort_unstable();
        consumers.into_iter().rev().for_each(|it| self.leave(it));
    }

    /// Makes a released message ready again, before all others.
    pub(super) fn give_back(&mut self, message: Message) {
        self.ready.push_front(message);
        self.ledger.give_back(1);
    }

    /// Delivers nothing more to the consumer, which may still settle.
    pub(super) fn pause(&mut self, consumer: u64) {
        if let Some(window) = self.consumers.get_mut(&consumer) {
            window.prefetch = 0;
        }
    }

    /// Whether the consumer is registered and not paused.
    pub(super) fn is_open(&self, consumer: u64) -> bool {
        self.consumers
            .get(&consumer)
            .is_some_and(|it| it.prefetch > 0)
    }

    /// Takes ready messages for a consumer, within its prefetch. `None` once it has left.
    pub(super) fn take(
        &mut self,
        consumer: u64,
        now: Instant,
        taken: &mut VecDeque<(u64, Message)>,
    ) -> Option<()> {
        while let Some(entry) = self.waiting.first_entry() {
            if entry.key().0 > now {
                break;
            }
            self.ready.push_back(entry.remove());
        }
        let window = self.consumers.get_mut(&consumer)?;
        let count = window.capacity().min(TAKEN_MAX).min(self.ready.len());
        for message in self.ready.drain(..count) {
            self.number += 1;
            window.unacked.insert(self.number, message.clone());
            taken.push_back((self.number, message));
        }
        self.ledger.deliver(count as u64);
        Some(())
    }

    /// Removes a message from a consumer's window, if it is there; one of the next three functions must follow.
    /// Also returns whether the window was full, so that the consumer may be waiting.
    pub(super) fn release(&mut self, consumer: u64, tag: u64) -> Option<(Message, bool)> {
        let window = self.consumers.get_mut(&consumer)?;
        let was_full = window.capacity() == 0;
        Some((window.unacked.remove(&tag)?, was_full))
    }

    pub(super) fn acked(&mut self) {
        self.count -= 1;
        self.ledger.ack();
    }

    pub(super) fn dead_lettered(&mut self) {
        self.count -= 1;
        self.ledger.dead_letter();
    }

    /// Makes a released message ready again when it is due. Whether it is due before all others that wait.
    pub(super) fn put_off(&mut self, message: Message, due: Instant) -> bool {
        let is_first = self.next_due().is_none_or(|first| due < first);
        let number = self.next_number();
        self.waiting.insert((due, number), message);
        self.ledger.retry();
        is_first
    }

    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }
}

/// A consumer's unsettled messages, at most its prefetch, by tag. Tags grow, so returned messages keep their order.
#[derive(Debug)]
struct Window {
    /// 0 once the consumer pauses.
    prefetch: usize,
    unacked: BTreeMap<u64, Message>,
}

impl Window {
    fn capacity(&self) -> usize {
        self.prefetch.saturating_sub(self.unacked.len())
    }
}
