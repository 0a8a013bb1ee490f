//! A permit: one reserved slot of a lane or a ring, between its reservation and its publication.

use std::fmt;

use crate::{
    block::{EMPTY, HOLE, Slot},
    sync::{AtomicU32, AtomicU64, Ordering},
};

/// The right to fill one reserved slot of a [`Lane`](crate::Lane) or a [`Ring`](crate::Ring). A permit that is
/// dropped leaves a hole: a reserved slot that was never filled.
#[must_use = "the consumer waits until the slot is filled"]
pub struct Permit<'a, T> {
    pub(crate) slot: *const Slot<T>,
    pub(crate) index: u64,
    /// Holes of the queue.
    pub(crate) holes: &'a AtomicU64,
    /// Rule 2 of `lane`: the counter that this producer, a laggard, has raised.
    pub(crate) walkers: Option<&'a AtomicU32>,
}

impl<T> Permit<'_, T> {
    /// The reserved index.
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
        // SAFETY: rules 1 and 2 of `lane` keep the block; a ring keeps its slots.
        let slot = unsafe { &*self.slot };
        // SAFETY: until the mark is published nobody reads the value and nobody else writes it (in a ring: rules 1
        // to 3 of `ring`).
        slot.value
            .with_mut(|cell| unsafe { write((*cell).as_mut_ptr()) });
        self.publish(mark);
        std::mem::forget(self);
    }

    #[inline(always)]
    fn publish(&self, mark: u64) {
        // SAFETY: as in `fill`.
        let slot = unsafe { &*self.slot };
        // Ordering: Release pairs with the consumer's Acquire load of the mark.
        slot.mark.store(mark, Ordering::Release);
        if let Some(walkers) = self.walkers {
            // Ordering: SeqCst, rule 2: our accesses to blocks come before the consumer reads the count without us.
            walkers.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl<T> Drop for Permit<'_, T> {
    /// The permit was given up, or its writer panicked: the consumer steps over the hole.
    fn drop(&mut self) {
        // Ordering: Relaxed, a statistic.
        self.holes.fetch_add(1, Ordering::Relaxed);
        self.publish(HOLE);
    }
}

impl<T> fmt::Debug for Permit<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Permit({})", self.index)
    }
}
