//! Counters that only grow.
//!
//! Two kinds, by who writes: [`Counter`] takes a locked instruction and any number of writers;
//! [`OwnedCounter`] is plain memory to its one writer, which on a message's way is the worker that
//! runs the actor. Both are bumped once per batch, not once per message.

use crate::sync::{AtomicU64, Ordering};

/// A counter with any number of writers.
#[derive(Debug, Default)]
pub struct Counter {
    value: AtomicU64,
}

impl Counter {
    /// A counter at 0.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            value: AtomicU64::new(0),
        }
    }

    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        // Ordering: Relaxed, the count publishes nothing but itself.
        self.value.fetch_add(n, Ordering::Relaxed);
    }

    /// The count at this moment.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        // Ordering: Relaxed, as in `add`.
        self.value.load(Ordering::Relaxed)
    }
}

/// A counter with one writer at a time.
///
/// Writers may change, as when an actor moves to another worker, if something else orders them (the
/// actor's state word does). Two at once lose counts, and nothing worse.
#[derive(Debug, Default)]
pub struct OwnedCounter {
    value: AtomicU64,
}

impl OwnedCounter {
    /// A counter at 0.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            value: AtomicU64::new(0),
        }
    }

    /// Adds `n`; only the one writer may call it.
    #[inline]
    pub fn bump(&self, n: u64) {
        // Ordering: Relaxed load and store in place of a locked add: there is one writer, and the
        // count publishes nothing but itself.
        let value = self.value.load(Ordering::Relaxed);
        self.value.store(value.wrapping_add(n), Ordering::Relaxed);
    }

    /// The count at this moment; any thread may ask.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        // Ordering: Relaxed, as in `bump`.
        self.value.load(Ordering::Relaxed)
    }
}
