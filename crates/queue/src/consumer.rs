//! The consumer's side of a [`Lane`]: taking values, freeing the blocks behind them, and letting
//! producers see how far it has come. Why that is sound is said in `lane`.

use std::{mem::MaybeUninit, ptr::NonNull};

use crate::{
    Lane,
    block::{Block, EMPTY, HOLE, Slot},
    lane::{Consumer, NARROW_BOUND_MAX, SHUT},
    prefetch,
    sync::Ordering,
};

/// What the consumer found at the head.
#[derive(Debug, PartialEq, Eq)]
pub enum Popped<T> {
    /// A value and the mark it was pushed with.
    Value(T, u64),
    /// Nothing is queued.
    Empty,
    /// An index was drawn by a producer that has not published its value yet: yield and come back.
    Pending,
}

impl<T> Lane<T> {
    /// Takes the value at the head.
    ///
    /// # Safety
    /// No two consumer calls (`pop`, `is_ready`, `publish`, `take_first`) on the lane overlap, and
    /// each happens after the one before it (the actor cell's state word sees to that).
    #[inline]
    pub unsafe fn pop(&self) -> Popped<T> {
        self.consumer.with_mut(|consumer| {
            // SAFETY: the caller is the only consumer.
            let consumer = unsafe { &mut *consumer };
            // SAFETY: as above.
            unsafe { self.pop_from(consumer) }
        })
    }

    /// Whether [`Lane::pop`] would return a value.
    ///
    /// # Safety
    /// As [`Lane::pop`].
    #[inline]
    pub unsafe fn is_ready(&self) -> bool {
        self.consumer.with_mut(|consumer| {
            // SAFETY: the caller is the only consumer.
            unsafe { self.slot_at_head(&mut *consumer).is_some() }
        })
    }

    /// # Safety
    /// As [`Lane::pop`].
    #[inline]
    unsafe fn pop_from(&self, consumer: &mut Consumer<T>) -> Popped<T> {
        // SAFETY: the caller's promise.
        match unsafe { self.pass_head(consumer) } {
            // SAFETY: the value has just been passed, and is moved out at once.
            Some((value, mark)) => Popped::Value(unsafe { value.read() }, mark),
            None => self.nothing_at(consumer.head),
        }
    }

    /// As [`Lane::pop`], but leaves the value where it is: the caller moves it out before its next
    /// consumer call on the lane. `None` for [`Popped::Empty`] and [`Popped::Pending`], see
    /// [`Lane::is_drained`].
    ///
    /// # Safety
    /// As [`Lane::pop`]; and the value is moved out, once.
    #[inline]
    pub unsafe fn pop_in_place(&self) -> Option<(NonNull<T>, u64)> {
        self.consumer.with_mut(|consumer| {
            // SAFETY: the caller is the only consumer.
            unsafe { self.pass_head(&mut *consumer) }
        })
    }

    /// Whether every index that was drawn has been consumed: tells [`Popped::Empty`] from
    /// [`Popped::Pending`].
    ///
    /// # Safety
    /// As [`Lane::pop`].
    pub unsafe fn is_drained(&self) -> bool {
        // SAFETY: the caller is the only consumer.
        let head = self.consumer.with(|consumer| unsafe { (*consumer).head });
        self.end() == head
    }

    /// Values queued, exactly: [`Lane::depth`] counts from the head as last published.
    ///
    /// # Safety
    /// As [`Lane::pop`].
    pub unsafe fn queued(&self) -> u64 {
        // SAFETY: the caller is the only consumer.
        let head = self.consumer.with(|consumer| unsafe { (*consumer).head });
        self.end().saturating_sub(head).min(self.published.bound)
    }

    /// Passes the value at the head, and returns where it lies.
    ///
    /// # Safety
    /// As [`Lane::pop_in_place`].
    #[inline]
    unsafe fn pass_head(&self, consumer: &mut Consumer<T>) -> Option<(NonNull<T>, u64)> {
        // SAFETY: the caller's promise.
        let (slot, mark) = unsafe { self.slot_at_head(consumer) }?;
        // SAFETY: a slot of the consumer's own block, which is not freed before its next call.
        let slot = unsafe { slot.as_ref() };
        // Ordering: Relaxed: the block is linked again only after its memory was taken anew, and
        // whoever hands it on (a lock, or one thread) orders it.
        slot.mark.store(EMPTY, Ordering::Relaxed);
        consumer.head += 1;
        if self.published.bound <= NARROW_BOUND_MAX {
            // Ordering: Release, as in `publish`.
            self.published.head.store(consumer.head, Ordering::Release);
        }
        let value = slot.value.with_mut(|cell| cell.cast::<T>());
        // SAFETY: a slot's value is not null.
        Some((unsafe { NonNull::new_unchecked(value) }, mark))
    }

    /// The slot at the head and its mark, if a value is published there. Steps over holes and into
    /// the next block on the way.
    ///
    /// # Safety
    /// As [`Lane::pop`].
    #[inline]
    unsafe fn slot_at_head(&self, consumer: &mut Consumer<T>) -> Option<(NonNull<Slot<T>>, u64)> {
        loop {
            // SAFETY: the consumer's own block is never freed, but by itself.
            let Some(block) = (unsafe { consumer.block.as_ref() }) else {
                // Ordering: Acquire: the first block's header must be visible.
                consumer.block = self.published.block_head.load(Ordering::Acquire);
                consumer.oldest = consumer.block;
                if consumer.block.is_null() {
                    return None;
                }
                continue;
            };
            let offset = consumer.head - block.start;
            if offset == block.length {
                // Ordering: Acquire: the next block's header must be visible.
                let next = block.next.load(Ordering::Acquire);
                if next.is_null() {
                    return None;
                }
                consumer.block = next;
                // Ordering: SeqCst, rule 2: move, then read `walkers` (in `reclaim`).
                self.published.block_head.store(next, Ordering::SeqCst);
                // SAFETY: the caller is the only consumer.
                unsafe { self.reclaim(consumer) };
                continue;
            }
            // SAFETY: in bounds of the consumer's own block.
            let slot = unsafe { NonNull::new_unchecked(Block::slot(consumer.block, offset)) };
            // SAFETY: as above. Ordering: Acquire pairs with the Release in `Place::fill`.
            let mark = unsafe { slot.as_ref() }.mark.load(Ordering::Acquire);
            // SAFETY: in bounds of the consumer's own block.
            prefetch::for_reading(unsafe { slot_ahead(consumer.block, offset) });
            match mark {
                EMPTY => return None,
                HOLE => {
                    // SAFETY: as above. Ordering: Relaxed, as in `pop_from`.
                    unsafe { slot.as_ref() }
                        .mark
                        .store(EMPTY, Ordering::Relaxed);
                    consumer.head += 1;
                }
                _ => return Some((slot, mark)),
            }
        }
    }

    fn nothing_at(&self, head: u64) -> Popped<T> {
        if self.end() == head {
            Popped::Empty
        } else {
            Popped::Pending
        }
    }

    /// Frees the blocks that no producer can reach any more.
    ///
    /// # Safety
    /// As [`Lane::pop`].
    unsafe fn reclaim(&self, consumer: &mut Consumer<T>) {
        while consumer.oldest != consumer.block {
            // SAFETY: blocks from `oldest` on are not freed, and only the consumer frees.
            let oldest = unsafe { &*consumer.oldest };
            // Ordering: Acquire pairs with the Release in `advance_hint`.
            if oldest.retire_at.load(Ordering::Acquire) > consumer.head {
                return;
            }
            // Ordering: SeqCst, rule 2; it also acquires the laggards' Release.
            if self.producers.walkers.load(Ordering::SeqCst) != 0 {
                return;
            }
            // Ordering: Relaxed: read with Acquire when the head passed it.
            let next = oldest.next.load(Ordering::Relaxed);
            let freed = NonNull::new(consumer.oldest).expect("a lane's blocks are linked");
            consumer.oldest = next;
            // SAFETY: rules 1 and 2; all its slots were consumed: marks EMPTY, values moved out.
            unsafe { Block::free(freed) };
        }
    }

    /// Lets producers see how far the consumer has come, and opens the gate if there is room.
    /// Returns the depth that is left.
    ///
    /// # Safety
    /// As [`Lane::pop`].
    #[inline]
    pub unsafe fn publish(&self) -> u64 {
        // SAFETY: the caller is the only consumer.
        let head = self.consumer.with(|consumer| unsafe { (*consumer).head });
        // Ordering: Release pairs with the Acquire loads of the head.
        self.published.head.store(head, Ordering::Release);
        let depth = self.end().saturating_sub(head);
        // Ordering: Relaxed, a hint.
        if depth < self.published.bound && self.published.gate.load(Ordering::Relaxed) & SHUT != 0 {
            self.published.gate.fetch_and(!SHUT, Ordering::Relaxed);
        }
        depth.min(self.published.bound)
    }

    /// Takes the first published value that `matches`, wherever it is queued. This is Erlang's
    /// selective receive, and its cost: it looks at each value from the head on, so it takes time
    /// proportional to the depth.
    ///
    /// # Safety
    /// As [`Lane::pop`].
    pub unsafe fn take_first(&self, mut matches: impl FnMut(&T) -> bool) -> Option<T> {
        self.consumer.with_mut(|consumer| {
            // SAFETY: the caller is the only consumer.
            let consumer = unsafe { &mut *consumer };
            let mut block = consumer.block;
            if block.is_null() {
                // Ordering: Acquire: the first block's header must be visible.
                block = self.published.block_head.load(Ordering::Acquire);
                consumer.block = block;
                consumer.oldest = block;
            }
            let mut index = consumer.head;
            // SAFETY: blocks from the consumer's own on are freed only by the consumer.
            while let Some(current) = unsafe { block.as_ref() } {
                while index - current.start < current.length {
                    // SAFETY: in bounds.
                    let slot = unsafe { &*Block::slot(block, index - current.start) };
                    // Ordering: Acquire pairs with the Release in `Place::fill`.
                    let mark = slot.mark.load(Ordering::Acquire);
                    if mark != EMPTY && mark != HOLE {
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
                    index += 1;
                }
                // Ordering: Acquire: the next block's header must be visible.
                block = current.next.load(Ordering::Acquire);
            }
            None
        })
    }
}

/// Places ahead of the head whose cache line is fetched early.
const PREFETCH_AHEAD: u64 = 6;

/// The slot a few places ahead, in this block or the next one.
///
/// # Safety
/// `block` is the consumer's own, and `offset` in bounds.
#[inline(always)]
unsafe fn slot_ahead<T>(block: *mut Block<T>, offset: u64) -> *const Slot<T> {
    // SAFETY: the caller's promise; the next block is not freed before the consumer's own.
    unsafe {
        let length = (*block).header.length;
        let ahead = offset + PREFETCH_AHEAD;
        if ahead < length {
            return Block::slot(block, ahead);
        }
        // Ordering: Acquire: the next block's header must be visible.
        let next = (*block).header.next.load(Ordering::Acquire);
        match NonNull::new(next) {
            Some(next) => Block::slot(
                next.as_ptr(),
                (ahead - length).min(next.as_ref().length - 1),
            ),
            None => Block::slot(block, length - 1),
        }
    }
}
