//! The highest value seen.
//!
//! A mailbox lane's high-water mark: the worker raises it with the depth it finds.

use crate::sync::{AtomicU64, Ordering};

/// A high-water mark with one writer at a time, starting at 0.
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

    /// The highest value so far; any thread may ask.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        // Ordering: Relaxed, as in `raise`.
        self.value.load(Ordering::Relaxed)
    }
}
