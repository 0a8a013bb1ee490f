//! The consumer's side of a [`Ring`]: taking values, and letting producers see how far it has come.
//! Why that is sound is said in `ring`.

use std::ptr::NonNull;

use crate::{
    Popped, Ring,
    block::{Content, EMPTY, HOLE, Slot},
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

    /// Lets producers see how far the consumer has come. Returns the depth that is left. Holes at the
    /// head count no longer.
    ///
    /// # Safety
    /// As [`Ring::pop`].
    #[inline]
    pub unsafe fn publish(&self) -> u64 {
        // SAFETY: the caller is the only consumer.
        self.head
            .with_mut(|head| self.publish_head(unsafe { &mut *head }))
    }

    #[inline]
    fn publish_head(&self, head: &mut u64) -> u64 {
        let depth = self.end() - *head;
        if depth != 0 {
            return self.publish_behind_holes(head);
        }
        // Ordering: Release pairs with the Acquire loads of the head, rule 2.
        self.head_published.store(*head, Ordering::Release);
        depth
    }

    #[inline(never)]
    fn publish_behind_holes(&self, head: &mut u64) -> u64 {
        let _ = self.slot_at_head(head);
        // Ordering: Release, as above.
        self.head_published.store(*head, Ordering::Release);
        self.end() - *head
    }

    /// Takes the first published value that `matches`, wherever it is queued, and publishes the head.
    /// This is Erlang's selective receive, and its cost: it looks at each value from the head on, so it
    /// takes time proportional to the depth.
    ///
    /// The values before the one that was taken move up by one slot, so that the hole comes to the
    /// head, where it counts no longer. A hole behind a claimed slot that is not filled yet stays, and
    /// takes up capacity until a later call looks past it or the head reaches it.
    ///
    /// # Safety
    /// As [`Ring::pop`].
    pub unsafe fn take_first(&self, matches: impl FnMut(&T) -> bool) -> Option<T> {
        self.head.with_mut(|head| {
            // SAFETY: the caller is the only consumer.
            let head = unsafe { &mut *head };
            // SAFETY: as above.
            let taken = unsafe { self.take_behind(*head, matches) };
            self.publish_head(head);
            taken
        })
    }

    /// # Safety
    /// As [`Ring::pop`].
    unsafe fn take_behind(&self, head: u64, mut matches: impl FnMut(&T) -> bool) -> Option<T> {
        let mut movable = head;
        let found = (head..self.end()).find(|&index| {
            let slot = self.slot(index);
            // Ordering: Acquire pairs with the Release in `RingPlace::fill`.
            match slot.mark.load(Ordering::Acquire) {
                EMPTY => {
                    // Its producer is about to fill it: nothing can move into it.
                    movable = index + 1;
                    false
                }
                HOLE => {
                    // SAFETY: the slots from `movable` on are published.
                    let _ = unsafe { self.move_up(movable, index) };
                    movable += 1;
                    false
                }
                _ => slot
                    .value
                    // SAFETY: published, and still there: its mark is not a hole.
                    .with(|cell| matches(unsafe { (*cell).assume_init_ref() })),
            }
        })?;
        // SAFETY: as above; the content of `found` is a value.
        Some(unsafe { self.move_up(movable, found).into_value() })
    }

    /// Moves the contents from `first` on up by one slot, as far as `last`, and returns what `last`
    /// held. A hole is left at `first`.
    ///
    /// # Safety
    /// As [`Ring::pop`]; the slots from `first` to `last` are published.
    unsafe fn move_up(&self, first: u64, last: u64) -> Content<T> {
        let mut content = Content::hole();
        for index in first..=last {
            // SAFETY: the caller's promise.
            unsafe { content.swap(self.slot(index)) };
        }
        content
    }
}
