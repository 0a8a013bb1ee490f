//! The consumer's side of a [`Lane`]: it takes values, frees the blocks behind them and publishes its head. `lane`
//! explains why this is sound.

use std::ptr::{self, NonNull};

use crate::{
    Lane, Popped, Sizes,
    block::Block,
    lane::{Consumer, SHUT},
    memory,
    slot::{self, BOXED, Cursor, EMPTY, HOLE, Place},
    sync::Ordering,
};

/// The box of the value that was popped last, in place: it is freed with the next consumer call. Bit 0 says whether the
/// lane is narrow: each actor has one, so both are in one word.
pub(crate) struct PoppedBox<T>(*mut T);

const NARROW: usize = 1;

impl<T> PoppedBox<T> {
    pub(crate) fn new(is_narrow: bool) -> Self {
        Self(ptr::null_mut::<T>().map_addr(|_| usize::from(is_narrow)))
    }

    #[inline(always)]
    fn is_narrow(&self) -> bool {
        self.0.addr() & NARROW != 0
    }

    /// Keeps a box until the next call of [`PoppedBox::free`].
    fn keep(&mut self, value: NonNull<T>) {
        let narrow = self.0.addr() & NARROW;
        self.0 = value.as_ptr().map_addr(|address| address | narrow);
    }

    /// # Safety
    /// The value was moved out of the box.
    #[inline(always)]
    pub(crate) unsafe fn free(&mut self) {
        if self.0.addr() & !NARROW != 0 {
            // SAFETY: the caller's promise.
            unsafe { self.free_kept() };
        }
    }

    /// # Safety
    /// As [`PoppedBox::free`]; there is one.
    #[cold]
    unsafe fn free_kept(&mut self) {
        let value = self.0.map_addr(|address| address & !NARROW);
        *self = Self::new(self.is_narrow());
        // SAFETY: the caller's promise; `keep` had it from a slot, which owned it.
        unsafe { memory::free(NonNull::new_unchecked(value)) };
    }
}

impl<T, S: Sizes<T>> Lane<T, S> {
    /// Takes the value at the head.
    ///
    /// # Safety
    /// Consumer calls on the lane (`pop`, `is_ready`, `publish`, `take_first`) do not overlap, and each happens after
    /// the previous one. The actor cell's state word guarantees both.
    #[inline]
    pub unsafe fn pop(&self) -> Popped<T> {
        self.consumer.with_mut(|consumer| {
            // SAFETY: the caller is the only consumer.
            match unsafe { self.step(&mut *consumer) } {
                Popped::Value(place, mark) => {
                    // SAFETY: as above; it is a published value, and moved out of its slot once.
                    let value = unsafe { place.read(mark) };
                    Popped::Value(value, mark & !BOXED)
                }
                Popped::Empty => Popped::Empty,
                Popped::Pending => Popped::Pending,
            }
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

    /// Like [`Lane::pop`], but leaves the value in its slot: the caller moves it out before the next consumer call on
    /// the lane. It finds the lane [`Popped::Empty`] by a SeqCst load of the tail: after the caller has read its signals
    /// with SeqCst, it sees each reservation whose producer did not see that read.
    ///
    /// # Safety
    /// As [`Lane::pop`]; and the caller moves the value out, once. Of a short value it uses only the bytes of `S::Short`.
    #[inline]
    pub unsafe fn pop_in_place(&self) -> Popped<NonNull<T>> {
        self.consumer.with_mut(|consumer| {
            // SAFETY: the caller is the only consumer.
            let consumer = unsafe { &mut *consumer };
            // SAFETY: as above.
            match unsafe { self.step(consumer) } {
                Popped::Value(place, mark) if S::HAS_SHORT && mark & BOXED != 0 => {
                    // SAFETY: as below; the mark says that the value is boxed.
                    let value = unsafe { place.boxed() };
                    consumer.popped_box.keep(value);
                    Popped::Value(value, mark & !BOXED)
                }
                Popped::Value(place, mark) => {
                    // SAFETY: a slot of the consumer's block, which is not freed before the next consumer call.
                    let value = unsafe { place.value() };
                    // SAFETY: a slot's value is not null.
                    Popped::Value(unsafe { NonNull::new_unchecked(value) }, mark)
                }
                Popped::Empty => Popped::Empty,
                Popped::Pending => Popped::Pending,
            }
        })
    }

    /// Steps over the value at the head, which stays in its slot.
    ///
    /// # Safety
    /// As [`Lane::pop_in_place`].
    #[inline(always)]
    unsafe fn step(&self, consumer: &mut Consumer<T, S>) -> Popped<Place<T, S>> {
        // SAFETY: the caller's promise.
        let Some((place, mark)) = (unsafe { self.slot_at_head(consumer) }) else {
            return if self.end() == consumer.head {
                Popped::Empty
            } else {
                Popped::Pending
            };
        };
        // Ordering: Relaxed: the block's memory reaches its next lane through the pool, whose lock (or the same
        // thread) orders this store before the next use.
        // SAFETY: a slot of the consumer's block, which is not freed before the next consumer call.
        unsafe { place.mark() }.store(EMPTY, Ordering::Relaxed);
        consumer.head += 1;
        if consumer.popped_box.is_narrow() {
            // Ordering: Release, as in `publish`.
            self.published.head.store(consumer.head, Ordering::Release);
        }
        Popped::Value(place, mark)
    }

    /// The exact number of queued values. [`Lane::depth`] counts from the published head.
    ///
    /// # Safety
    /// As [`Lane::pop`].
    pub unsafe fn queued(&self) -> u64 {
        // SAFETY: the caller is the only consumer.
        let head = self.consumer.with(|consumer| unsafe { (*consumer).head });
        self.end().saturating_sub(head).min(self.published.bound)
    }

    /// The slot at the head and its mark, if a value is published there. Steps over holes and into the next block.
    ///
    /// # Safety
    /// As [`Lane::pop`].
    #[inline(always)]
    unsafe fn slot_at_head(&self, consumer: &mut Consumer<T, S>) -> Option<(Place<T, S>, u64)> {
        if S::HAS_SHORT {
            // SAFETY: the value that was popped before this call has been moved out.
            unsafe { consumer.popped_box.free() };
        }
        loop {
            // SAFETY: only the consumer frees blocks, and it never frees its own.
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
                // Ordering: SeqCst, rule 2: move `block_head`, then read `walkers` (in `reclaim`).
                self.published.block_head.store(next, Ordering::SeqCst);
                // SAFETY: the caller is the only consumer.
                unsafe { self.reclaim(consumer) };
                continue;
            }
            // SAFETY: in bounds of the consumer's block.
            let place = unsafe { Block::slot(consumer.block, offset) };
            // SAFETY: as above. Ordering: Acquire pairs with the Release in `Permit::fill`.
            let mark = unsafe { place.mark() }.load(Ordering::Acquire);
            match mark {
                EMPTY => return None,
                HOLE => {
                    // SAFETY: as above. Ordering: Relaxed, as in `step`.
                    unsafe { place.mark() }.store(EMPTY, Ordering::Relaxed);
                    consumer.head += 1;
                }
                _ => {
                    // SAFETY: in bounds of the consumer's block.
                    prefetch(unsafe { slot_ahead(consumer.block, offset) });
                    return Some((place, mark));
                }
            }
        }
    }

    /// Frees the blocks that no producer can reach.
    ///
    /// # Safety
    /// As [`Lane::pop`].
    unsafe fn reclaim(&self, consumer: &mut Consumer<T, S>) {
        while consumer.oldest != consumer.block {
            // SAFETY: only the consumer frees blocks, and it has not freed those from `oldest` on.
            let oldest = unsafe { &*consumer.oldest };
            // Ordering: Acquire pairs with the Release in `advance_hint`.
            if oldest.retire_at.load(Ordering::Acquire) > consumer.head {
                return;
            }
            // Ordering: SeqCst, rule 2. It also acquires the laggards' Release.
            if self.published.walkers.load(Ordering::SeqCst) != 0 {
                return;
            }
            // Ordering: Relaxed: it was read with Acquire when the head passed the block.
            let next = oldest.next.load(Ordering::Relaxed);
            let freed = NonNull::new(consumer.oldest).expect("a lane's blocks are linked");
            consumer.oldest = next;
            // SAFETY: rules 1 and 2. All its slots were consumed: marks are EMPTY, values moved out.
            unsafe { Block::free(freed) };
        }
    }

    /// Publishes the head to producers, and opens the gate if there is capacity. Returns the remaining depth, without
    /// the holes at the head.
    ///
    /// # Safety
    /// As [`Lane::pop`].
    #[inline]
    pub unsafe fn publish(&self) -> u64 {
        self.consumer.with_mut(|consumer| {
            // SAFETY: the caller is the only consumer, and has moved out what it has popped.
            unsafe {
                if S::HAS_SHORT {
                    (*consumer).popped_box.free();
                }
                self.publish_head(&mut *consumer)
            }
        })
    }

    /// # Safety
    /// As [`Lane::pop`].
    #[inline]
    unsafe fn publish_head(&self, consumer: &mut Consumer<T, S>) -> u64 {
        let end = self.end();
        if end == consumer.head {
            return self.store_head(consumer.head, end);
        }
        // SAFETY: the caller's promise.
        unsafe { self.publish_past_holes(consumer) }
    }

    /// # Safety
    /// As [`Lane::pop`].
    #[inline(never)]
    unsafe fn publish_past_holes(&self, consumer: &mut Consumer<T, S>) -> u64 {
        // SAFETY: the caller's promise.
        let _ = unsafe { self.slot_at_head(consumer) };
        self.store_head(consumer.head, self.end())
    }

    #[inline(always)]
    fn store_head(&self, head: u64, end: u64) -> u64 {
        // Ordering: Release pairs with the producers' Acquire loads of the head.
        self.published.head.store(head, Ordering::Release);
        let depth = end.saturating_sub(head);
        // Ordering: Relaxed, a hint.
        if depth < self.published.bound && self.published.gate.load(Ordering::Relaxed) & SHUT != 0 {
            self.published.gate.fetch_and(!SHUT, Ordering::Relaxed);
        }
        depth.min(self.published.bound)
    }

    /// Takes the first published value that `matches`, wherever it is queued, and publishes the head. This is Erlang's
    /// selective receive: it checks each value from the head on, in time proportional to the depth.
    ///
    /// The values before the taken one move up by one slot. So the hole moves to the head, where it costs no capacity.
    /// A hole behind a reserved slot that is not filled yet stays, and costs capacity until a later call passes it or
    /// the head reaches it.
    ///
    /// # Safety
    /// As [`Lane::pop`].
    pub unsafe fn take_first(&self, matches: impl FnMut(&T) -> bool) -> Option<T> {
        self.consumer.with_mut(|consumer| {
            // SAFETY: the caller is the only consumer.
            let consumer = unsafe { &mut *consumer };
            // SAFETY: as above. `slot_at_head` loads the first block; the consumer's own block is not freed.
            unsafe {
                let _ = self.slot_at_head(consumer);
                let block = NonNull::new(consumer.block)?;
                let offset = consumer.head - block.as_ref().start;
                let taken = slot::take_first(BlockCursor { block, offset }, matches);
                self.publish_head(consumer);
                taken
            }
        })
    }
}

/// A position in the list of blocks.
struct BlockCursor<T, S> {
    block: NonNull<Block<T, S>>,
    offset: u64,
}

impl<T, S> Clone for BlockCursor<T, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, S> Copy for BlockCursor<T, S> {}

impl<T, S: Sizes<T>> Cursor<T, S> for BlockCursor<T, S> {
    /// # Safety
    /// As [`Cursor::next`].
    unsafe fn next(&mut self) -> Option<Place<T, S>> {
        // SAFETY: only the consumer frees the blocks from its own on.
        let block = unsafe { self.block.as_ref() };
        if self.offset == block.length {
            // Ordering: Acquire: the next block's header must be visible.
            self.block = NonNull::new(block.next.load(Ordering::Acquire))?;
            self.offset = 0;
        }
        // SAFETY: in bounds: a block has at least one slot.
        let place = unsafe { Block::slot(self.block.as_ptr(), self.offset) };
        self.offset += 1;
        Some(place)
    }
}

/// Distance from the head to the slot whose cache line is prefetched, in slots of 64 bytes.
const PREFETCH_AHEAD: u64 = 6;

/// Prefetches a cache line for reading. Prefetching the producers' next slots for writing made a fan-in of two threads
/// a third slower, because the other producer takes every second one.
#[inline(always)]
fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is harmless for any address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// The slot [`PREFETCH_AHEAD`] cache lines on, in this block or the next one.
///
/// # Safety
/// `block` is the consumer's block, and `offset` in bounds.
#[inline(always)]
unsafe fn slot_ahead<T, S: Sizes<T>>(block: *mut Block<T, S>, offset: u64) -> *const u8 {
    // SAFETY: the caller's promise; the next block is not freed before the consumer's.
    let place = unsafe {
        let length = (*block).header.length;
        let ahead = offset + (PREFETCH_AHEAD << u8::from(!(*block).header.is_long));
        if ahead < length {
            Block::slot(block, ahead)
        } else {
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
    };
    place.address().cast()
}
