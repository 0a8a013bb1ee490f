//! The consumer's side of a [`Lane`]: taking values, freeing the blocks behind them, and letting
//! producers see how far it has come. Why that is sound is said in `lane`.

use std::ptr::NonNull;

use crate::{
    Lane,
    block::{Block, Content, EMPTY, HOLE, Slot},
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
            if self.published.walkers.load(Ordering::SeqCst) != 0 {
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

    /// Lets producers see how far the consumer has come, and opens the gate if there is capacity.
    /// Returns the depth that is left. Holes at the head count no longer.
    ///
    /// # Safety
    /// As [`Lane::pop`].
    #[inline]
    pub unsafe fn publish(&self) -> u64 {
        self.consumer.with_mut(|consumer| {
            // SAFETY: the caller is the only consumer.
            unsafe { self.publish_head(&mut *consumer) }
        })
    }

    /// # Safety
    /// As [`Lane::pop`].
    #[inline]
    unsafe fn publish_head(&self, consumer: &mut Consumer<T>) -> u64 {
        let end = self.end();
        if end == consumer.head {
            return self.show_head(consumer.head, end);
        }
        // SAFETY: the caller's promise.
        unsafe { self.publish_behind_holes(consumer) }
    }

    /// # Safety
    /// As [`Lane::pop`].
    #[inline(never)]
    unsafe fn publish_behind_holes(&self, consumer: &mut Consumer<T>) -> u64 {
        // SAFETY: the caller's promise.
        let _ = unsafe { self.slot_at_head(consumer) };
        self.show_head(consumer.head, self.end())
    }

    #[inline(always)]
    fn show_head(&self, head: u64, end: u64) -> u64 {
        // Ordering: Release pairs with the Acquire loads of the head.
        self.published.head.store(head, Ordering::Release);
        let depth = end.saturating_sub(head);
        // Ordering: Relaxed, a hint.
        if depth < self.published.bound && self.published.gate.load(Ordering::Relaxed) & SHUT != 0 {
            self.published.gate.fetch_and(!SHUT, Ordering::Relaxed);
        }
        depth.min(self.published.bound)
    }

    /// Takes the first published value that `matches`, wherever it is queued, and publishes the head.
    /// This is Erlang's selective receive, and its cost: it looks at each value from the head on, so it
    /// takes time proportional to the depth.
    ///
    /// The values before the one that was taken move up by one slot, so that the hole comes to the
    /// head, where it counts no longer. A hole behind a reserved slot that is not filled yet stays, and
    /// takes up capacity until a later call looks past it or the head reaches it.
    ///
    /// # Safety
    /// As [`Lane::pop`].
    pub unsafe fn take_first(&self, matches: impl FnMut(&T) -> bool) -> Option<T> {
        self.consumer.with_mut(|consumer| {
            // SAFETY: the caller is the only consumer.
            let consumer = unsafe { &mut *consumer };
            // SAFETY: as above; the first call makes sure that there is a block.
            unsafe {
                let _ = self.slot_at_head(consumer);
                let taken = Cursor::at_head(consumer)?.take_first(matches);
                self.publish_head(consumer);
                taken
            }
        })
    }
}

/// A position in the list of blocks, at the consumer's head or behind it.
struct Cursor<T> {
    block: NonNull<Block<T>>,
    offset: u64,
}

impl<T> Clone for Cursor<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Cursor<T> {}

impl<T> Cursor<T> {
    /// `None` if there is no block yet.
    fn at_head(consumer: &Consumer<T>) -> Option<Self> {
        let block = NonNull::new(consumer.block)?;
        // SAFETY: the consumer's own block is never freed, but by itself.
        let offset = consumer.head - unsafe { block.as_ref() }.start;
        Some(Self { block, offset })
    }

    /// The slot here, and one step on. `None` behind the last block.
    ///
    /// # Safety
    /// The caller is the only consumer, and has made no other consumer call since `at_head`.
    unsafe fn next(&mut self) -> Option<NonNull<Slot<T>>> {
        // SAFETY: blocks from the consumer's own on are freed only by the consumer.
        let block = unsafe { self.block.as_ref() };
        if self.offset == block.length {
            // Ordering: Acquire: the next block's header must be visible.
            self.block = NonNull::new(block.next.load(Ordering::Acquire))?;
            self.offset = 0;
        }
        // SAFETY: in bounds: a block has at least one slot.
        let slot = unsafe { NonNull::new_unchecked(Block::slot(self.block.as_ptr(), self.offset)) };
        self.offset += 1;
        Some(slot)
    }

    /// # Safety
    /// As [`Cursor::next`].
    unsafe fn take_first(mut self, mut matches: impl FnMut(&T) -> bool) -> Option<T> {
        let mut movable = self;
        let found = loop {
            // SAFETY: the caller's promise.
            let found = unsafe { self.next() }?;
            // SAFETY: a slot of a block that only the consumer frees.
            let slot = unsafe { found.as_ref() };
            // Ordering: Acquire pairs with the Release in `Place::fill`.
            match slot.mark.load(Ordering::Acquire) {
                // Its producer is about to fill it: nothing can move into it.
                EMPTY => movable = self,
                HOLE => {
                    // SAFETY: the caller's promise; the slots from `movable` on are published.
                    unsafe {
                        let _ = movable.move_up_to(found);
                        movable.next();
                    }
                }
                _ => {
                    let is_match = slot
                        .value
                        // SAFETY: published, and still there: its mark is not a hole.
                        .with(|cell| matches(unsafe { (*cell).assume_init_ref() }));
                    if is_match {
                        break found;
                    }
                }
            }
        };
        // SAFETY: as above; the content of `found` is a value.
        Some(unsafe { movable.move_up_to(found).into_value() })
    }

    /// Moves the contents from here on up by one slot, as far as `last`, and returns what `last` held.
    /// A hole is left here.
    ///
    /// # Safety
    /// As [`Cursor::next`]; the slots from here to `last` are published.
    unsafe fn move_up_to(mut self, last: NonNull<Slot<T>>) -> Content<T> {
        let mut content = Content::hole();
        // SAFETY: the caller's promise.
        while let Some(slot) = unsafe { self.next() } {
            // SAFETY: as above.
            unsafe { content.swap(slot.as_ref()) };
            if slot == last {
                break;
            }
        }
        content
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
