//! A place in a lane, between its drawing and its publication.

use std::fmt;

use crate::{
    Lane,
    block::{EMPTY, HOLE, Slot},
    sync::Ordering,
};

/// A place that was drawn for one value and has to be filled; dropped instead, it is a hole.
#[must_use = "the consumer waits for it to be filled"]
pub struct Place<'a, T> {
    pub(crate) lane: &'a Lane<T>,
    pub(crate) slot: *mut Slot<T>,
    pub(crate) index: u64,
    pub(crate) is_laggard: bool,
}

impl<T> Place<'_, T> {
    /// The index that was drawn.
    #[inline(always)]
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Lets `write` initialise the value, and publishes it with `mark` (neither 0 nor `u64::MAX`).
    ///
    /// # Safety
    /// `write` initialises the value it is given, unless it panics.
    #[inline(always)]
    pub unsafe fn fill(mut self, mark: u64, write: impl FnOnce(*mut T)) {
        debug_assert!(mark != EMPTY, "a mark is not 0");
        // SAFETY: rules 1 and 2 of `lane`: the block is not freed before we publish.
        let slot = unsafe { &*self.slot };
        // SAFETY: nobody reads the value before the mark is published, nobody else writes it.
        slot.value
            .with_mut(|cell| unsafe { write((*cell).as_mut_ptr()) });
        self.publish(mark);
        std::mem::forget(self);
    }

    #[inline(always)]
    fn publish(&mut self, mark: u64) {
        // SAFETY: as in `fill`.
        let slot = unsafe { &*self.slot };
        // Ordering: Release pairs with the consumer's Acquire load of the mark.
        slot.mark.store(mark, Ordering::Release);
        if self.is_laggard {
            // Ordering: SeqCst, rule 2: our accesses to blocks come before the consumer sees us gone.
            self.lane.published.walkers.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl<T> Drop for Place<'_, T> {
    /// Given up, or its writer panicked: the consumer steps over it.
    fn drop(&mut self) {
        // Ordering: Relaxed, a statistic.
        self.lane.producers.holes.fetch_add(1, Ordering::Relaxed);
        self.publish(HOLE);
    }
}

impl<T> fmt::Debug for Place<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Place({})", self.index)
    }
}
