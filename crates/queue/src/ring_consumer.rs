//! The consumer's side of a [`Ring`]: taking values, and letting producers see how far it has come.
//! Why that is sound is said in `ring`.

use std::{mem::MaybeUninit, ptr::NonNull};

use crate::{
    Popped, Ring,
    block::{EMPTY, HOLE, Slot},
    ring::NARROW_BOUND_MAX,
    sync::Ordering,
};

impl<T> Ring<T> {
    /// Takes the value at the head.
    ///
    /// # Safety
    /// No two consumer calls (`pop`, `is_ready`, `publish`, `take_first`) on the ring overlap, and
    /// each happens after the one before it (the actor cell's state word sees to that).
    #[inline]
    pub unsafe fn pop(&self) -> Popped<T> {
        self.head.with_mut(|head| {
            // SAFETY: the caller is the only consumer.
            let head = unsafe { &mut *head };
            match self.pass_head(head) {
                // SAFETY: the value has just been passed, and is moved out at once.
                Some((value, mark)) => Popped::Value(unsafe { value.read() }, mark),
                None if self.end() == *head => Popped::Empty,
                None => Popped::Pending,
            }
        })
    }

    /// As [`Ring::pop`], but leaves the value where it is: the caller moves it out before its next
    /// consumer call on the ring. `None` for [`Popped::Empty`] and [`Popped::Pending`], see
    /// [`Ring::is_drained`].
    ///
    /// # Safety
    /// As [`Ring::pop`]; and the value is moved out, once.
    #[inline]
    pub unsafe fn pop_in_place(&self) -> Option<(NonNull<T>, u64)> {
        // SAFETY: the caller is the only consumer.
        self.head
            .with_mut(|head| self.pass_head(unsafe { &mut *head }))
    }

    /// Whether [`Ring::pop`] would return a value.
    ///
    /// # Safety
    /// As [`Ring::pop`].
    #[inline]
    pub unsafe fn is_ready(&self) -> bool {
        // SAFETY: the caller is the only consumer.
        self.head
            .with_mut(|head| self.slot_at_head(unsafe { &mut *head }).is_some())
    }

    /// Whether every index that was claimed has been consumed: tells [`Popped::Empty`] from
    /// [`Popped::Pending`]. It reads the tail with SeqCst: after the caller's SeqCst look for signals,
    /// it sees each claim whose producer did not see that look.
    ///
    /// # Safety
    /// As [`Ring::pop`].
    pub unsafe fn is_drained(&self) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.queued() == 0 }
    }

    /// Values queued, exactly: [`Ring::depth`] counts from the head as last published.
    ///
    /// # Safety
    /// As [`Ring::pop`].
    pub unsafe fn queued(&self) -> u64 {
        // SAFETY: the caller is the only consumer.
        let head = self.head.with(|head| unsafe { *head });
        self.end() - head
    }

    /// Passes the value at the head, and returns where it lies.
    #[inline]
    fn pass_head(&self, head: &mut u64) -> Option<(NonNull<T>, u64)> {
        let (slot, mark) = self.slot_at_head(head)?;
        // Ordering: Relaxed: the Release of the head tells the slot's next producer, rule 2.
        slot.mark.store(EMPTY, Ordering::Relaxed);
        *head += 1;
        if self.bound() <= NARROW_BOUND_MAX {
            // Ordering: Release, rule 2; the value that is still in its slot is rule 5's.
            self.head_published.store(*head, Ordering::Release);
        }
        let value = slot.value.with_mut(|cell| cell.cast::<T>());
        // SAFETY: a slot's value is not null.
        Some((unsafe { NonNull::new_unchecked(value) }, mark))
    }

    /// The slot at the head and its mark, if a value is published there. Steps over holes.
    #[inline]
    fn slot_at_head(&self, head: &mut u64) -> Option<(&Slot<T>, u64)> {
        loop {
            let slot = self.slot(*head);
            // Ordering: Acquire pairs with the Release in `RingPlace::fill`, rule 4.
            let mark = slot.mark.load(Ordering::Acquire);
            match mark {
                EMPTY => return None,
                HOLE => {
                    // Ordering: Relaxed, as in `pass_head`.
                    slot.mark.store(EMPTY, Ordering::Relaxed);
                    *head += 1;
                }
                _ => return Some((slot, mark)),
            }
        }
    }

    /// Lets producers see how far the consumer has come. Returns the depth that is left.
    ///
    /// # Safety
    /// As [`Ring::pop`].
    #[inline]
    pub unsafe fn publish(&self) -> u64 {
        // SAFETY: the caller is the only consumer.
        let head = self.head.with(|head| unsafe { *head });
        // Ordering: Release pairs with the Acquire loads of the head, rule 2.
        self.head_published.store(head, Ordering::Release);
        self.end() - head
    }

    /// Takes the first published value that `matches`, wherever it is queued. This is Erlang's
    /// selective receive, and its cost: it looks at each value from the head on, so it takes time
    /// proportional to the depth.
    ///
    /// # Safety
    /// As [`Ring::pop`].
    pub unsafe fn take_first(&self, mut matches: impl FnMut(&T) -> bool) -> Option<T> {
        // SAFETY: the caller is the only consumer.
        let head = self.head.with(|head| unsafe { *head });
        for index in head..self.end() {
            let slot = self.slot(index);
            // Ordering: Acquire pairs with the Release in `RingPlace::fill`.
            let mark = slot.mark.load(Ordering::Acquire);
            if mark == EMPTY || mark == HOLE {
                continue;
            }
            let is_match = slot
                .value
                // SAFETY: published, and still there: its mark is not a hole.
                .with(|cell| matches(unsafe { (*cell).assume_init_ref() }));
            if is_match {
                // Ordering: Relaxed: from here on only the consumer reads this mark.
                slot.mark.store(HOLE, Ordering::Relaxed);
                // SAFETY: as above; the hole keeps it from being taken again.
                let value = slot
                    .value
                    .with(|cell| unsafe { MaybeUninit::assume_init_read(&*cell) });
                return Some(value);
            }
        }
        None
    }
}
