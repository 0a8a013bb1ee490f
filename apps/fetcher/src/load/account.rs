//! An account of every notification.

use std::{
    sync::atomic::{AtomicU8, AtomicU64, Ordering},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use freeboard::meter::{Counter, Histogram};

/// Where a notification was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// In a reply.
    Replied,
    /// In a dead letter.
    Dead,
    /// In its queue, at the end of the run.
    Left,
}

impl Fate {
    const fn bit(self) -> u8 {
        match self {
            Self::Replied => 1,
            Self::Dead => 2,
            Self::Left => 4,
        }
    }
}

/// The fates of notifications 0 to n, due at a constant rate.
#[derive(Debug)]
pub struct Account {
    begun: Instant,
    /// The same moment, in microseconds since the Unix epoch.
    begun_us: u64,
    interval: Duration,
    fates: Box<[AtomicU8]>,
    first: [Counter; 3],
    again: Counter,
    accounted: AtomicU64,
    latency: Histogram,
    latency_at_once: Histogram,
}

impl Account {
    /// `notifications`, due at `rate` per second from now.
    ///
    /// # Panics
    /// If the rate is not positive.
    #[must_use]
    pub fn new(notifications: u64, rate: f64) -> Self {
        let count = usize::try_from(notifications).expect("one byte of memory for each");
        Self {
            begun: Instant::now(),
            begun_us: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| micros(since.as_micros())),
            interval: Duration::from_secs_f64(1.0 / rate),
            fates: (0..count).map(|_| AtomicU8::new(0)).collect(),
            first: [const { Counter::new() }; 3],
            again: Counter::new(),
            accounted: AtomicU64::new(0),
            latency: Histogram::new(),
            latency_at_once: Histogram::new(),
        }
    }

    /// The number of notifications.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.fates.len() as u64
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fates.is_empty()
    }

    /// When a notification is due.
    #[must_use]
    pub fn due(&self, id: u64) -> Instant {
        self.begun + Duration::from_nanos(self.due_ns(id))
    }

    /// The same, in microseconds since the Unix epoch.
    #[must_use]
    pub fn due_us(&self, id: u64) -> u64 {
        self.begun_us.saturating_add(self.due_ns(id) / 1_000)
    }

    fn due_ns(&self, id: u64) -> u64 {
        let nanos = self.interval.as_nanos().saturating_mul(u128::from(id));
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    /// Records the reply to a notification, and its [`redeliveries`](crate::message::Reply::redeliveries). Unknown ids are
    /// ignored.
    pub fn saw_reply(&self, id: u64, redeliveries: u32) {
        if !self.record(id, Fate::Replied) {
            return;
        }
        let latency = self.due(id).elapsed().as_nanos();
        let latency_ns = u64::try_from(latency).unwrap_or(u64::MAX);
        self.latency.record_shared(latency_ns);
        if redeliveries == 0 {
            self.latency_at_once.record_shared(latency_ns);
        }
    }

    /// Records a dead letter; unknown ids are ignored.
    pub fn saw_dead_letter(&self, id: u64) {
        self.record(id, Fate::Dead);
    }

    /// Records a notification that was left in its queue; unknown ids are ignored.
    pub fn saw_left(&self, id: u64) {
        self.record(id, Fate::Left);
    }

    /// Records where a notification was found. Returns whether it was not seen there before.
    fn record(&self, id: u64, fate: Fate) -> bool {
        let Some(fates) = usize::try_from(id).ok().and_then(|it| self.fates.get(it)) else {
            return false;
        };
        // Ordering: Relaxed here and below: each count is used alone.
        let before = fates.fetch_or(fate.bit(), Ordering::Relaxed);
        if before & fate.bit() != 0 {
            self.again.add(1);
            return false;
        }
        self.first[fate as usize].add(1);
        if before == 0 {
            self.accounted.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    /// The number found there, each counted once.
    #[must_use]
    pub fn seen(&self, fate: Fate) -> u64 {
        self.first[fate as usize].get()
    }

    /// The number of repeated sightings at the same place.
    #[must_use]
    pub fn repeated(&self) -> u64 {
        self.again.get()
    }

    /// The number found anywhere.
    #[must_use]
    pub fn accounted(&self) -> u64 {
        self.accounted.load(Ordering::Relaxed)
    }

    /// The first `most` notifications found nowhere.
    #[must_use]
    pub fn missing(&self, most: usize) -> Vec<u64> {
        let ids = self.fates.iter().enumerate();
        ids.filter(|(_, fates)| fates.load(Ordering::Relaxed) == 0)
            .map(|(id, _)| id as u64)
            .take(most)
            .collect()
    }

    /// The time from each due time to the first reply, in nanoseconds.
    #[must_use]
    pub const fn latency(&self) -> &Histogram {
        &self.latency
    }

    /// The same of the notifications without redeliveries.
    #[must_use]
    pub const fn latency_at_once(&self) -> &Histogram {
        &self.latency_at_once
    }
}

fn micros(micros: u128) -> u64 {
    u64::try_from(micros).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_accounted_once_wherever_it_is_seen() {
        let account = Account::new(4, 1_000.0);
        account.saw_reply(0, 0);
        account.saw_reply(0, 0);
        account.saw_reply(3, 2);
        account.saw_left(0);
        account.saw_dead_letter(2);
        account.saw_dead_letter(7);
        let seen = [Fate::Replied, Fate::Dead, Fate::Left].map(|fate| account.seen(fate));
        assert_eq!(seen, [2, 1, 1]);
        assert_eq!((account.accounted(), account.repeated()), (3, 1));
        assert_eq!(account.missing(9), [1]);
        assert_eq!(account.latency().summary().count, 2);
        assert_eq!(account.latency_at_once().summary().count, 1);
    }
}
