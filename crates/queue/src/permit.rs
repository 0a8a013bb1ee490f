//! A permit: one reserved slot of a lane or a ring, between its reservation and its publication.

use std::fmt;

use crate::{
    slot::{BOXED, HOLE, MARK_MAX, NewBox, Place, Sizes, Whole},
    sync::{AtomicU32, AtomicU64, Ordering},
};

/// The right to fill one reserved slot of a [`Lane`](crate::Lane) or a [`Ring`](crate::Ring). A permit that is
/// dropped leaves a hole: a reserved slot that was never filled.
#[must_use = "the consumer waits until the slot is filled"]
pub struct Permit<'a, T, S: Sizes<T> = Whole> {
    pub(crate) place: Place<T, S>,
    /// A long value in a short slot.
    pub(crate) is_boxed: bool,
    pub(crate) index: u64,
    /// Holes of the queue.
    pub(crate) holes: &'a AtomicU64,
    /// Rule 2 of `lane`: the counter that this producer, a laggard, has raised.
    pub(crate) walkers: Option<&'a AtomicU32>,
}

impl<T, S: Sizes<T>> Permit<'_, T, S> {
    /// The reserved index.
    #[inline(always)]
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Lets `write` initialise the value, and publishes it with `mark`.
    ///
    /// # Panics
    /// If the mark is 0 or above 2^63 - 2. The slot is a hole then.
    ///
    /// # Safety
    /// `write` initialises the value it is given, unless it panics. A value for which a short slot was reserved is short,
    /// and `write` writes no further bytes.
    #[inline(always)]
    pub unsafe fn fill(self, mark: u64, write: impl FnOnce(*mut T)) {
        assert!(
            mark.wrapping_sub(1) < MARK_MAX,
            "a mark is not 0, and at most 2^63 - 2"
        );
        if S::HAS_SHORT && self.is_boxed {
            // SAFETY: the caller's promise.
            unsafe { self.fill_boxed(mark, write) };
            return;
        }
        // SAFETY: rules 1 and 2 of `lane` keep the block; a ring keeps its slots. Until the mark is published nobody
        // reads the value and nobody else writes it (in a ring: rules 1 to 3 of `ring`).
        write(unsafe { self.place.value() });
        self.publish(mark);
        std::mem::forget(self);
    }

    /// # Safety
    /// As [`Permit::fill`].
    #[cold]
    unsafe fn fill_boxed(self, mark: u64, write: impl FnOnce(*mut T)) {
        // SAFETY: as in `fill`; a slot holds a pointer.
        unsafe {
            let value = NewBox::write(write);
            self.place.value().cast::<*mut T>().write(value.as_ptr());
        }
        self.publish(mark | BOXED);
        std::mem::forget(self);
    }

    #[inline(always)]
    fn publish(&self, mark: u64) {
        // SAFETY: as in `fill`.
        let slot_mark = unsafe { self.place.mark() };
        // Ordering: Release pairs with the consumer's Acquire load of the mark.
        slot_mark.store(mark, Ordering::Release);
        if let Some(walkers) = self.walkers {
            // Ordering: SeqCst, rule 2: our accesses to blocks come before the consumer reads the count without us.
            walkers.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl<T, S: Sizes<T>> Drop for Permit<'_, T, S> {
    /// The permit was given up, or its writer panicked: the consumer steps over the hole.
    fn drop(&mut self) {
        // Ordering: Relaxed, a statistic.
        self.holes.fetch_add(1, Ordering::Relaxed);
        self.publish(HOLE);
    }
}

impl<T, S: Sizes<T>> fmt::Debug for Permit<'_, T, S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Permit({})", self.index)
    }
}
