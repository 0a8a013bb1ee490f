//! The ring: a fixed array of slots, reused lap after lap, under a hard bound; many producers, one consumer. For actors
//! on a thread of their own, with bounds of some thousands.
//!
//! ```text
//!         published head     head              tail            published head + bound
//!               v             v                 v                        v
//!   ── free ────┬── passed, ──┬──── queued ─────┬──── free in this lap ──┴── not yet ──>  index
//!               │ unpublished │                 │
//!
//!   published head <= head <= tail <= published head + bound
//!   slot of an index = index * SCATTER modulo the number of slots, which is at least the bound
//! ```
//!
//! A push reserves an index by a compare-and-swap of the tail, writes the value into the slot and publishes its mark. A
//! pop has no read-modify-write: the head is private to the consumer, which resets the mark of each slot it passes and
//! publishes the head once per batch ([`Ring::publish`]; in a narrow ring at each pop). Producers compare with the
//! published head. They keep a copy of it (`head_seen`) beside the tail and read the consumer's cache line only when
//! the ring is full by the copy: once per lap while the consumer keeps up.
//!
//! **Closing** sets the tail's top bit, and no later reservation succeeds. The tail stays where it was: everything below
//! it is accepted, and the consumer drains exactly that. The next two bits are the barriers. A tail with any of these
//! bits is larger than `head + bound`, so producers test them only when the ring seems full.
//!
//! # Why reusing slots is sound
//!
//! Let *i* be the index a producer reserves, in the slot that index *i - slots* had a lap before.
//! 1. It reserves *i* only after it has read a head above *i - bound*, hence above *i - slots*, from the published head
//!    or from `head_seen`. Every head in `head_seen` was published before. An older one may overwrite a newer one; that
//!    only makes the ring seem full, and then the published head is read again.
//! 2. The consumer publishes a head with Release, after it has moved the values below it out and reset their marks. A
//!    producer loads it with Acquire, and passes it on through `head_seen` with Release to the next producer's Acquire.
//!    So all accesses to the slot a lap before happen before the reservation, and the mark is EMPTY.
//! 3. The tail only grows, so no other producer reserves *i*. The slot belongs to its producer until it stores the mark
//!    with Release.
//! 4. The consumer loads the mark with Acquire. It has itself stored EMPTY since the lap before and cannot see an older
//!    mark again. It finds *i*'s mark, EMPTY, or the mark that it stored itself when it moved a queued value
//!    (`take_first`).
//! 5. A value that was popped in place stays in its slot until the next consumer call. A wide ring publishes no head
//!    before that call. A narrow ring does, but has more slots than its bound, so the slot behind the published head is
//!    not reserved.
//!
//! # Differences from a lane
//!
//! - All memory is allocated at the start: at least 64 bytes per slot, also for an idle actor.
//! - An index is reserved by compare-and-swap, after the check: an index past the end cannot become a hole, because its
//!   slot still holds a value. A single producer never repeats the loop; several back off from each other.
//! - There is no gate: the check is free, because `head_seen` shares the cache line that the reservation needs.
//! - Nothing is linked, freed or prefetched. A consumer that prefetches takes the lines that the producer is about to
//!   write, and so does a processor that guesses them. Therefore neighbouring indices are scattered over the slots, as
//!   in folly's `MPMCQueue` with its stride. Measured, that cuts the cost of a message by a fifth with a consumer that
//!   is close behind, and by two thirds with one that lags.
//!
//! The reservation is a SeqCst read-modify-write and `pop_in_place` reads the tail with SeqCst, as in a lane: the
//! scheduler's proof that no message is left behind relies on both.
//!
//! Sources: the LMAX Disruptor (reservation apart from publication, the consumer's position cached by producers),
//! Vyukov's bounded MPMC queue (a word per slot says whether it is filled), rtrb (fields grouped by writer, the other
//! side's index read only when the cached one is spent).

use std::{fmt, ops::Deref, ptr::NonNull};

#[cfg(not(loom))]
use crate::lane;
use crate::{
    Barrier, PLAIN_MARK, Permit, Popped, Refused, Whole, barrier,
    slot::{self, Cursor, EMPTY, HOLE, Place, Slot},
    sync::{AtomicU64, Ordering, UnsafeCell, spin_loop},
};

/// Top bit of the tail: the ring is closed.
const CLOSED: u64 = 1 << 63;
/// The tail's bits that are not part of the index. All of them stop a newcomer.
const FLAGS: u64 = CLOSED | tail_bits(barrier::ALL);
/// The flags that stop a sender from the line of waiters.
const FOR_WAITERS: u64 = CLOSED | tail_bits(Barrier::Pause.bit());

/// The barriers' bits in the tail.
const fn tail_bits(barriers: u8) -> u64 {
    (barriers as u64) << 61
}

/// Up to this bound each pop publishes the head, as in a lane.
#[cfg(not(loom))]
const NARROW_BOUND_MAX: u64 = lane::NARROW_BOUND_MAX;
/// A ring of two slots is wide under loom.
#[cfg(loom)]
const NARROW_BOUND_MAX: u64 = 1;

/// The longest pause after a lost compare-and-swap, in spin hints.
const RESERVE_SPINS_MAX: u32 = 64;

/// The distance between the slots of neighbouring indices, modulo the number of slots. Odd, so that a lap uses each slot
/// once. 2^32 divided by the golden ratio: in a ring of a thousand slots 175 indices pass before one is adjacent to an
/// earlier one in memory.
const SCATTER: usize = 0x9E37_79B1;

/// A slot on its own cache lines, so that producer and consumer write to the same line only in the same slot. With a
/// 56-byte value it fills one line.
#[repr(align(64))]
struct CacheLine<T>(T);

/// Keeps the fields of one side apart from the other's. Two lines, because adjacent lines are fetched in pairs.
#[repr(align(128))]
pub(crate) struct CacheLinePair<T>(pub(crate) T);

impl<T> Deref for CacheLinePair<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// Written by producers.
struct Producers {
    tail: AtomicU64,
    /// A published head that one of them read (rule 1).
    head_seen: AtomicU64,
    /// Indices that were reserved and never filled.
    holes: AtomicU64,
}

/// A bounded queue over a fixed array with many producers and one consumer.
#[repr(C)]
pub struct Ring<T> {
    slots: Box<[CacheLine<Slot<T>>]>,
    bound: u64,
    producers: CacheLinePair<Producers>,
    /// Written by the consumer, read by producers that find the ring full.
    head_published: CacheLinePair<AtomicU64>,
    /// The consumer's.
    head: CacheLinePair<UnsafeCell<u64>>,
}

// SAFETY: values move from producer to consumer through slots whose mark is stored with Release and loaded with
// Acquire. Only the unsafe methods touch the consumer's part, under their contract.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    /// The largest bound. A larger one is probably a typing error.
    pub const BOUND_MAX: u64 = 1 << 30;

    /// An empty ring that holds exactly `bound` values. It allocates the next power of two of slots: at least the bound,
    /// and more than the bound if that is at most 255.
    ///
    /// # Panics
    /// If `bound` is 0 or above [`Ring::BOUND_MAX`].
    pub fn new(bound: u64) -> Self {
        assert!(
            (1..=Self::BOUND_MAX).contains(&bound),
            "a ring's bound is 1..={}, not {bound}",
            Self::BOUND_MAX
        );
        // Rule 5: one more slot for the value that the consumer has popped in place.
        let spare = u64::from(bound <= NARROW_BOUND_MAX);
        let slots = (bound + spare).next_power_of_two();
        let slot = |_| CacheLine(Slot::empty());
        Self {
            slots: (0..slots).map(slot).collect(),
            bound,
            producers: CacheLinePair(Producers {
                tail: AtomicU64::new(0),
                head_seen: AtomicU64::new(0),
                holes: AtomicU64::new(0),
            }),
            head_published: CacheLinePair(AtomicU64::new(0)),
            head: CacheLinePair(UnsafeCell::new(0)),
        }
    }

    /// The most values that the ring ever holds.
    #[inline(always)]
    pub fn bound(&self) -> u64 {
        self.bound
    }

    /// The slot of `index` in its lap.
    #[inline(always)]
    fn slot(&self, index: u64) -> &Slot<T> {
        let position = (index as usize).wrapping_mul(SCATTER) & (self.slots.len() - 1);
        // SAFETY: below the length, which is a power of two.
        &unsafe { self.slots.get_unchecked(position) }.0
    }

    /// Appends a value; see [`Ring::push_with`].
    ///
    /// # Errors
    /// [`Refused::Full`] at the bound or at a [`Barrier`], [`Refused::Closed`] after [`Ring::close`].
    pub fn push(&self, value: T) -> Result<u64, Refused<T>> {
        self.push_with(value, |_| PLAIN_MARK)
    }

    /// Appends a value with the mark that `mark` computes from its index, and returns the index. Its ordering is that of
    /// [`Lane::push_with`](crate::Lane::push_with).
    ///
    /// # Errors
    /// [`Refused::Full`] at the bound or at a [`Barrier`], [`Refused::Closed`] after [`Ring::close`].
    #[inline]
    pub fn push_with(&self, value: T, mark: impl FnOnce(u64) -> u64) -> Result<u64, Refused<T>> {
        self.push_unless(FLAGS, value, mark)
    }

    /// Like [`Ring::push_with`], for a sender from the line of waiters: it passes [`Barrier::Waiters`], but not the
    /// bound.
    ///
    /// # Errors
    /// [`Refused::Full`] at the bound or at [`Barrier::Pause`], [`Refused::Closed`] after [`Ring::close`].
    pub fn push_past_waiters(
        &self,
        value: T,
        mark: impl FnOnce(u64) -> u64,
    ) -> Result<u64, Refused<T>> {
        self.push_unless(FOR_WAITERS, value, mark)
    }

    #[inline(always)]
    fn push_unless(
        &self,
        stops: u64,
        value: T,
        mark: impl FnOnce(u64) -> u64,
    ) -> Result<u64, Refused<T>> {
        match self.reserve_unless(stops) {
            Ok(permit) => {
                let index = permit.index();
                // SAFETY: `write` initialises the value.
                unsafe { permit.fill(mark(index), |slot| slot.write(value)) };
                Ok(index)
            }
            Err(refused) => Err(refused.with(value)),
        }
    }

    /// Reserves a slot for a value that is built in place. The consumer cannot pass the slot until it is filled.
    /// Ordering and errors are those of [`Ring::push_with`].
    ///
    /// # Errors
    /// As [`Ring::push_with`], without a value.
    #[inline]
    pub fn reserve(&self) -> Result<Permit<'_, T>, Refused<()>> {
        self.reserve_unless(FLAGS)
    }

    #[inline(always)]
    fn reserve_unless(&self, stops: u64) -> Result<Permit<'_, T>, Refused<()>> {
        let mut spins = 1;
        loop {
            // Ordering: Acquire: a refused producer sees everything before the close, or before the barrier was
            // raised.
            let tail = self.producers.tail.load(Ordering::Acquire);
            // A flag that stops this producer makes the index larger than any head plus bound: one comparison tests
            // the flags and the bound.
            let index = tail & !(FLAGS & !stops);
            if !self.has_capacity_for(index) {
                return Err(if tail & CLOSED == 0 {
                    Refused::Full(())
                } else {
                    Refused::Closed(())
                });
            }
            // Ordering: SeqCst, the producer's half of "publish, then read the consumer's state", on which the caller
            // relies. Relaxed on failure: it is loaded again.
            let reserved = self.producers.tail.compare_exchange_weak(
                tail,
                tail + 1,
                Ordering::SeqCst,
                Ordering::Relaxed,
            );
            if reserved.is_ok() {
                return Ok(Permit {
                    place: Place::new(self.slot(index), true),
                    is_boxed: false,
                    index,
                    holes: &self.producers.holes,
                    walkers: None,
                });
            }
            for _ in 0..spins {
                spin_loop();
            }
            spins = (spins * 2).min(RESERVE_SPINS_MAX);
        }
    }

    /// Whether `index` is below the bound: if so, its slot is free (rules 1 and 2).
    #[inline]
    fn has_capacity_for(&self, index: u64) -> bool {
        // Ordering: Acquire pairs with the Release in `read_head`, rule 2.
        let seen = self.producers.head_seen.load(Ordering::Acquire);
        index < seen + self.bound || self.read_head(index, seen)
    }

    #[cold]
    fn read_head(&self, index: u64, seen: u64) -> bool {
        // Ordering: Acquire pairs with the Release in `publish`, rule 2.
        let head = self.head_published.load(Ordering::Acquire);
        if head != seen {
            // Ordering: Release passes on what the load acquired, rule 2.
            self.producers.head_seen.store(head, Ordering::Release);
        }
        index < head + self.bound
    }

    /// Raises a barrier, if it is not raised.
    pub fn raise(&self, barrier: Barrier) {
        // Ordering: SeqCst, in one order with the reservations; Release pairs with the Acquire of `reserve`.
        self.producers
            .tail
            .fetch_or(tail_bits(barrier.bit()), Ordering::SeqCst);
    }

    /// Lowers a barrier, if it is raised.
    pub fn lower(&self, barrier: Barrier) {
        // Ordering: SeqCst, as in `raise`.
        self.producers
            .tail
            .fetch_and(!tail_bits(barrier.bit()), Ordering::SeqCst);
    }

    /// Whether a barrier is raised.
    pub fn is_raised(&self, barrier: Barrier) -> bool {
        // Ordering: SeqCst, as in `raise`.
        self.producers.tail.load(Ordering::SeqCst) & tail_bits(barrier.bit()) != 0
    }

    /// Refuses all further values. `true` for the call that closed the ring.
    pub fn close(&self) -> bool {
        // Ordering: SeqCst, in one order with the reservations: earlier ones are accepted, later ones are not.
        let tail = self.producers.tail.fetch_or(CLOSED, Ordering::SeqCst);
        tail & CLOSED == 0
    }

    /// Whether [`Ring::close`] was called.
    pub fn is_closed(&self) -> bool {
        // Ordering: SeqCst, in one order with the reservations.
        self.producers.tail.load(Ordering::SeqCst) & CLOSED != 0
    }

    /// The index after the last reserved one.
    #[inline]
    fn end(&self) -> u64 {
        // Ordering: SeqCst, the consumer's half of the wake-up protocol.
        self.producers.tail.load(Ordering::SeqCst) & !FLAGS
    }

    /// Values accepted and not yet taken, as of the consumer's last [`Ring::publish`]; never above the bound. May be
    /// called from any thread.
    #[inline]
    pub fn depth(&self) -> u64 {
        // The head is read first, because it never passes a tail that is read after it. The tail may have advanced
        // with a newer head, hence the limit.
        // Ordering: Acquire, so that the tail is read after it.
        let head = self.head_published.load(Ordering::Acquire);
        self.end().saturating_sub(head).min(self.bound)
    }

    /// Depth and accepted values.
    pub fn counts(&self) -> (u64, u64) {
        (self.depth(), self.accepted())
    }

    /// Values accepted since the ring was created.
    pub fn accepted(&self) -> u64 {
        // Ordering: Relaxed, a statistic.
        let holes = self.producers.holes.load(Ordering::Relaxed);
        self.end().saturating_sub(holes)
    }

    // The consumer's side.

    /// Takes the value at the head.
    ///
    /// # Safety
    /// As [`Lane::pop`](crate::Lane::pop).
    #[inline]
    pub unsafe fn pop(&self) -> Popped<T> {
        // SAFETY: the caller is the only consumer, and the value is moved out at once.
        unsafe { self.pop_in_place().read() }
    }

    /// Like [`Ring::pop`], but leaves the value in its slot; see [`Lane::pop_in_place`](crate::Lane::pop_in_place).
    ///
    /// # Safety
    /// As [`Ring::pop`]; and the caller moves the value out, once.
    #[inline]
    pub unsafe fn pop_in_place(&self) -> Popped<NonNull<T>> {
        self.head.with_mut(|head| {
            // SAFETY: the caller is the only consumer.
            let head = unsafe { &mut *head };
            let Some((slot, mark)) = self.slot_at_head(head) else {
                return if self.end() == *head {
                    Popped::Empty
                } else {
                    Popped::Pending
                };
            };
            // Ordering: Relaxed: the Release of the head orders it before the slot's next producer, rule 2.
            slot.mark.store(EMPTY, Ordering::Relaxed);
            *head += 1;
            if self.bound() <= NARROW_BOUND_MAX {
                // Ordering: Release, rule 2; rule 5 protects the value that is still in its slot.
                self.head_published.store(*head, Ordering::Release);
            }
            let value = slot.value.with_mut(|cell| cell.cast::<T>());
            // SAFETY: a slot's value is not null.
            Popped::Value(unsafe { NonNull::new_unchecked(value) }, mark)
        })
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

    /// The exact number of queued values. [`Ring::depth`] counts from the published head.
    ///
    /// # Safety
    /// As [`Ring::pop`].
    pub unsafe fn queued(&self) -> u64 {
        // SAFETY: the caller is the only consumer.
        let head = self.head.with(|head| unsafe { *head });
        self.end() - head
    }

    /// The slot at the head and its mark, if a value is published there. Steps over holes.
    #[inline]
    fn slot_at_head(&self, head: &mut u64) -> Option<(&Slot<T>, u64)> {
        loop {
            let slot = self.slot(*head);
            // Ordering: Acquire pairs with the Release in `Permit::fill`, rule 4.
            let mark = slot.mark.load(Ordering::Acquire);
            match mark {
                EMPTY => return None,
                HOLE => {
                    // Ordering: Relaxed, as in `pop_in_place`.
                    slot.mark.store(EMPTY, Ordering::Relaxed);
                    *head += 1;
                }
                _ => return Some((slot, mark)),
            }
        }
    }

    /// Publishes the head to producers. Returns the remaining depth, without the holes at the head.
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
            return self.publish_past_holes(head);
        }
        // Ordering: Release pairs with the producers' Acquire loads of the head, rule 2.
        self.head_published.store(*head, Ordering::Release);
        depth
    }

    #[inline(never)]
    fn publish_past_holes(&self, head: &mut u64) -> u64 {
        let _ = self.slot_at_head(head);
        // Ordering: Release, as above.
        self.head_published.store(*head, Ordering::Release);
        self.end() - *head
    }

    /// Takes the first published value that `matches`, and publishes the head: see
    /// [`Lane::take_first`](crate::Lane::take_first).
    ///
    /// # Safety
    /// As [`Ring::pop`].
    pub unsafe fn take_first(&self, matches: impl FnMut(&T) -> bool) -> Option<T> {
        self.head.with_mut(|head| {
            // SAFETY: the caller is the only consumer.
            let head = unsafe { &mut *head };
            let cursor = RingCursor {
                ring: self,
                index: *head,
                end: self.end(),
            };
            // SAFETY: as above.
            let taken = unsafe { slot::take_first(cursor, matches) };
            self.publish_head(head);
            taken
        })
    }
}

/// A position among the indices that were reserved when the cursor was made.
struct RingCursor<'a, T> {
    ring: &'a Ring<T>,
    index: u64,
    end: u64,
}

impl<T> Clone for RingCursor<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for RingCursor<'_, T> {}

impl<T> Cursor<T, Whole> for RingCursor<'_, T> {
    /// # Safety
    /// As [`Cursor::next`].
    unsafe fn next(&mut self) -> Option<Place<T, Whole>> {
        if self.index >= self.end {
            return None;
        }
        let place = Place::new(self.ring.slot(self.index), true);
        self.index += 1;
        Some(place)
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: no producer and no other consumer exists.
        while let Popped::Value(value, _) = unsafe { self.pop() } {
            drop(value);
        }
    }
}

impl<T> fmt::Debug for Ring<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Ring")
            .field("depth", &self.depth())
            .field("bound", &self.bound())
            .field("is_closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
