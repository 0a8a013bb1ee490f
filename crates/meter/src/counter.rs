//! Counters that only grow, and high-water marks.
//!
//! [`Counter`] has any number of writers and takes a locked instruction. [`OwnedCounter`] and [`Peak`] have
//! one writer, in a mailbox the worker that runs the actor, and are plain memory to it. All are updated once
//! per batch, not once per message.
//!
//! The atomics are the standard library's even under loom: counters carry no protocol, and loom's atomics
//! cannot be made in a `const fn`.

use std::sync::atomic::{AtomicU64, Ordering};

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
        // Ordering: Relaxed load and store instead of a locked add: there is one writer, and the
        // count publishes nothing but itself.
        let value = self.value.load(Ordering::Relaxed);
        self.value.store(value.wrapping_add(n), Ordering::Relaxed);
    }

    /// The count at this moment; any thread may call it.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        // Ordering: Relaxed, as in `bump`.
        self.value.load(Ordering::Relaxed)
    }
}

/// A high-water mark with one writer at a time, starting at 0: the highest value seen.
///
/// As with [`OwnedCounter`](crate::OwnedCounter), two writers at once lose a value and nothing worse.
#[derive(Debug, Default)]
pub struct Peak {
    value: AtomicU64,
}

impl Peak {
    /// A mark at 0.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            value: AtomicU64::new(0),
        }
    }

    /// Raises the mark to `value` if that is higher; only the one writer may call it.
    #[inline]
    pub fn raise(&self, value: u64) {
        // Ordering: Relaxed load and store: there is one writer, and the mark publishes nothing but
        // itself.
        if value > self.value.load(Ordering::Relaxed) {
            self.value.store(value, Ordering::Relaxed);
        }
    }

    /// The highest value so far; any thread may call it.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        // Ordering: Relaxed, as in `raise`.
        self.value.load(Ordering::Relaxed)
    }
}
