//! A coarse clock for runs: a number that the monitor raises at each of its looks.
//!
//! Reading the real clock costs as much as handling a small message; reading this, next to nothing. A
//! run that sees the number change has lasted across a look, which a run of microseconds seldom does,
//! and one of a millisecond always.

use crate::sync::{AtomicU64, Ordering};

/// On cache lines of its own: read with each message, written once a millisecond.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Tick(AtomicU64);

impl Tick {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    #[inline]
    pub(crate) fn now(&self) -> u64 {
        // Ordering: Relaxed, a hint of time and nothing else.
        self.0.load(Ordering::Relaxed)
    }

    /// The monitor only.
    pub(crate) fn advance(&self) {
        // Ordering: Relaxed, as in `now`.
        self.0.store(self.now() + 1, Ordering::Relaxed);
    }
}
