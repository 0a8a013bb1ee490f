//! A place in a ring, between its claim and its publication.

use std::fmt;

use crate::{
    Ring,
    block::{EMPTY, HOLE},
    sync::Ordering,
};

/// A place of a [`Ring`] that was claimed for one value and has to be filled; dropped instead, it is a hole.
#[must_use = "the consumer waits for it to be filled"]
pub struct RingPlace<'a, T> {
    pub(crate) ring: &'a Ring<T>,
    pub(crate) index: u64,
}

impl<T> RingPlace<'_, T> {
    /// The index that was claimed.
    #[inline(always)]
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Lets `write` initialise the value, and publishes it with `mark` (neither 0 nor `u64::MAX`).
    ///
    /// # Safety
    /// `write` initialises the value it is given, unless it panics.
    #[inline(always)]
    pub unsafe fn fill(self, mark: u64, write: impl FnOnce(*mut T)) {
        debug_assert!(mark != EMPTY, "a mark is not 0");
        let slot = self.ring.slot(self.index);
        // SAFETY: rules 1 to 3 of `ring`: the slot is ours alone until its mark is published.
        slot.value
            .with_mut(|cell| unsafe { write((*cell).as_mut_ptr()) });
        self.publish(mark);
        std::mem::forget(self);
    }

    #[inline(always)]
    fn publish(&self, mark: u64) {
        let slot = self.ring.slot(self.index);
        // Ordering: Release pairs with the consumer's Acquire load of the mark.
        slot.mark.store(mark, Ordering::Release);
    }
}

impl<T> Drop for RingPlace<'_, T> {
    /// Given up, or its writer panicked: the consumer steps over it.
    fn drop(&mut self) {
        // Ordering: Relaxed, a statistic.
        self.ring.producers.holes.fetch_add(1, Ordering::Relaxed);
        self.publish(HOLE);
    }
}

impl<T> fmt::Debug for RingPlace<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RingPlace({})", self.index)
    }
}
