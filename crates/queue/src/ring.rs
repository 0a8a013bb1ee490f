//! The ring: a fixed array of slots, reused lap after lap, under a hard bound; many producers, one
//! consumer. For actors on a thread of their own, whose bounds are some thousands.
//!
//! ```text
//!         published head     head              tail            published head + bound
//!               v             v                 v                        v
//!   ── free ────┬─ passed, ───┬──── queued ─────┬──── free in this lap ──┴── not yet ──>  index
//!               │ not told yet│                 │
//!
//!   published head <= head <= tail <= published head + bound
//!   slot of an index = index * SCATTER modulo the number of slots, which is not below the bound
//! ```
//!
//! A push claims an index by a compare-and-swap of the tail, writes the value into the slot and
//! publishes its mark. A pop has no read-modify-write: the head is private to the consumer, which
//! resets the mark of each slot that it passes and publishes the head once per batch
//! ([`Ring::publish`]; a narrow ring's at each pop). A full ring is seen against the published head,
//! of which producers keep a copy (`head_seen`) beside the tail: they read the consumer's cache line
//! only when the ring looks full against the copy, once per lap while the consumer keeps up.
//!
//! **Closing** sets the tail's top bit, and no claim succeeds from then on: the tail stays where it
//! was, so what lies below it has been accepted, and the consumer drains exactly that. The next two
//! bits are the barriers'. A tail with any of these bits is larger than `head + bound`, so producers
//! need no test for them unless the ring looks full.
//!
//! # Why reusing slots is sound
//!
//! Let *i* be the index a producer claims, in the slot that index *i - slots* had a lap before.
//! 1. It claims *i* only after it has read a head above *i - bound*, hence above *i - slots*, from the
//!    published head or from `head_seen`. Every head in `head_seen` was published before; that an
//!    older one may overwrite a newer one only makes the ring look full, and then it is read again.
//! 2. The consumer publishes a head with Release after it has moved the values below it out and reset
//!    their marks. A producer loads it with Acquire and hands it on through `head_seen` with Release
//!    to the next one's Acquire. So all that was done in the slot a lap before happens before the
//!    claim, and the mark is EMPTY.
//! 3. The tail only grows, so that no other producer claims *i*; the slot is the claimer's own until
//!    it stores the mark with Release.
//! 4. The consumer loads the mark with Acquire. It has stored EMPTY itself since the lap before, and
//!    cannot see an older mark again: what it finds there is *i*'s mark, EMPTY, or the mark that it
//!    stored itself when it moved a queued value up (`take_first`).
//! 5. A value that was popped in place stays in its slot until the next consumer call. A wide ring
//!    publishes no head before that call; a narrow one does, but has more slots than its bound, so
//!    that the slot behind the published head is not claimed.
//!
//! # What differs from a lane
//!
//! - All memory is taken at the beginning: 64 bytes per slot or more, even of an idle actor.
//! - An index is claimed by compare-and-swap, after looking: a place past the end cannot become a
//!   hole, because its slot still holds a value. A single producer never repeats the loop; several
//!   back off from each other.
//! - No gate: looking costs nothing, as `head_seen` lies on the cache line that the claim needs.
//! - Nothing is linked or freed on the way, and nothing is fetched ahead: a consumer that looks a few
//!   slots ahead takes away the lines that the producer is about to write, and so does a processor
//!   that guesses them. So neighbouring indices are scattered over the slots, as folly's `MPMCQueue`
//!   does with its stride. Measured, that cuts the cost of a message by a fifth with a consumer that
//!   is close behind, and by two thirds with one that lags.
//!
//! The claim is a SeqCst read-modify-write and `is_drained` reads the tail with SeqCst, as a lane's
//! are: the scheduler's proof that no message is left behind builds on these two.
//!
//! Sources: the LMAX Disruptor (slots claimed apart from their publication, the consumer's position
//! cached by producers), Vyukov's bounded MPMC queue (a word per slot says whether it is filled), rtrb
//! (fields apart by who writes them, the other side's index read only when the cached one is spent).

use std::{fmt, mem::MaybeUninit, ops::Deref};

#[cfg(not(loom))]
use crate::lane;
use crate::{
    Barrier, PLAIN_MARK, Popped, Refused, RingPlace, barrier,
    block::{EMPTY, Slot},
    sync::{AtomicU64, Ordering, UnsafeCell, spin_loop},
};

/// Top bit of the tail: no further value is accepted.
const CLOSED: u64 = 1 << 63;
/// The bits of the tail that are not part of the index. All of them stop a newcomer.
const FLAGS: u64 = CLOSED | tail_bits(barrier::ALL);
/// The flags that stop a sender that was let in from the waiters.
const FOR_WAITERS: u64 = CLOSED | tail_bits(Barrier::Pause.bit());

/// Where the barriers' bits are in the tail.
const fn tail_bits(barriers: u8) -> u64 {
    (barriers as u64) << 61
}

/// Up to this bound each pop publishes the head, as in a lane.
#[cfg(not(loom))]
pub(crate) const NARROW_BOUND_MAX: u64 = lane::NARROW_BOUND_MAX;
/// So that a ring of two slots is a wide one.
#[cfg(loom)]
pub(crate) const NARROW_BOUND_MAX: u64 = 1;

/// The longest pause of a producer that lost a claim to another one, in spin hints.
const CLAIM_SPINS_MAX: u32 = 64;

/// How far apart the slots of neighbouring indices are, modulo the number of slots. Odd, so that each
/// slot has its turn once per lap; 2^32 divided by the golden ratio, so that in a ring of a thousand
/// slots 175 indices pass before one is next to an earlier one in memory.
const SCATTER: usize = 0x9E37_79B1;

/// A slot on cache lines of its own: producer and consumer never write to the same one, unless
/// they are in the same slot. Together with a 56-byte value it fills one.
#[repr(align(64))]
pub(crate) struct CacheLine<T>(T);

/// What one side writes, away from the other's: two lines, because adjacent lines are fetched in
/// pairs.
#[repr(align(128))]
pub(crate) struct CacheLinePair<T>(pub(crate) T);

impl<T> Deref for CacheLinePair<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// What producers write.
pub(crate) struct Producers {
    tail: AtomicU64,
    /// A head that one of them read, see the module's rule 1.
    head_seen: AtomicU64,
    /// Indices that were claimed but hold nothing, because their place was given up.
    pub(crate) holes: AtomicU64,
}

/// A bounded queue over a fixed array with many producers and one consumer.
#[repr(C)]
pub struct Ring<T> {
    slots: Box<[CacheLine<Slot<T>>]>,
    bound: u64,
    pub(crate) producers: CacheLinePair<Producers>,
    /// Written by the consumer, read by producers that find the ring full.
    pub(crate) head_published: CacheLinePair<AtomicU64>,
    /// The consumer's own.
    pub(crate) head: CacheLinePair<UnsafeCell<u64>>,
}

// SAFETY: values move from producer to consumer through slots whose mark is stored with Release and
// loaded with Acquire; the consumer's part is touched only under the contract of the unsafe methods.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    /// The largest bound; beyond it a slip of the pen is more likely than a need.
    pub const BOUND_MAX: u64 = 1 << 30;

    /// An empty ring that holds at most `bound` values, exactly. The number of its slots, allocated
    /// here, is the next power of two: not below the bound, and above it if the bound is at most 255.
    ///
    /// # Panics
    /// If `bound` is 0 or above [`Ring::BOUND_MAX`].
    pub fn new(bound: u64) -> Self {
        assert!(
            (1..=Self::BOUND_MAX).contains(&bound),
            "a ring's bound is 1..={}, not {bound}",
            Self::BOUND_MAX
        );
        // Rule 5: one slot more for the value that the consumer has popped in place.
        let spare = u64::from(bound <= NARROW_BOUND_MAX);
        let slots = (bound + spare).next_power_of_two();
        let slot = |_| {
            CacheLine(Slot {
                mark: AtomicU64::new(EMPTY),
                value: UnsafeCell::new(MaybeUninit::uninit()),
            })
        };
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

    /// The slot that `index` has in its lap.
    #[inline(always)]
    pub(crate) fn slot(&self, index: u64) -> &Slot<T> {
        let place = (index as usize).wrapping_mul(SCATTER) & (self.slots.len() - 1);
        // SAFETY: below the length, which is a power of two.
        &unsafe { self.slots.get_unchecked(place) }.0
    }

    /// Appends a value; see [`Ring::push_with`].
    ///
    /// # Errors
    /// [`Refused::Full`] at the bound or at a [`Barrier`], [`Refused::Closed`] after [`Ring::close`].
    pub fn push(&self, value: T) -> Result<u64, Refused<T>> {
        self.push_with(value, |_| PLAIN_MARK)
    }

    /// Appends a value with the mark that `mark` makes of its index, and returns the index.
    /// The claim is a SeqCst read-modify-write: what the caller loads (SeqCst) afterwards is at
    /// least as new as what the consumer wrote before it found the ring [`Popped::Empty`].
    ///
    /// # Errors
    /// [`Refused::Full`] at the bound or at a [`Barrier`], [`Refused::Closed`] after [`Ring::close`].
    #[inline]
    pub fn push_with(&self, value: T, mark: impl FnOnce(u64) -> u64) -> Result<u64, Refused<T>> {
        self.push_unless(FLAGS, value, mark)
    }

    /// As [`Ring::push_with`], for a sender that was let in from a queue of waiters: it passes
    /// [`Barrier::Waiters`]. The bound holds for it as for all.
    ///
    /// # Errors
    /// [`Refused::Full`] at the bound or while [`Barrier::Pause`] is raised, [`Refused::Closed`] after
    /// [`Ring::close`].
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
            Ok(place) => {
                let index = place.index();
                // SAFETY: `write` initialises the value.
                unsafe { place.fill(mark(index), |slot| slot.write(value)) };
                Ok(index)
            }
            Err(Refused::Full(())) => Err(Refused::Full(value)),
            Err(Refused::Closed(())) => Err(Refused::Closed(value)),
        }
    }

    /// Claims a place for one value, which must be filled: until it is, the consumer cannot pass it.
    /// What [`Ring::push_with`] says of errors and of ordering holds here. For values that are built
    /// in place.
    ///
    /// # Errors
    /// As [`Ring::push_with`], without a value.
    #[inline]
    pub fn reserve(&self) -> Result<RingPlace<'_, T>, Refused<()>> {
        self.reserve_unless(FLAGS)
    }

    #[inline(always)]
    fn reserve_unless(&self, stops: u64) -> Result<RingPlace<'_, T>, Refused<()>> {
        let mut spins = 1;
        loop {
            // Ordering: Acquire: who is refused sees what was done before the ring was closed, or a
            // barrier raised.
            let tail = self.producers.tail.load(Ordering::Acquire);
            // A flag that stops it makes the index larger than any head plus bound: one comparison
            // tests the flags and the bound.
            let index = tail & !(FLAGS & !stops);
            if !self.has_room_for(index) {
                return Err(if tail & CLOSED == 0 {
                    Refused::Full(())
                } else {
                    Refused::Closed(())
                });
            }
            // Ordering: SeqCst, the claim: the producer's half of "publish, then look at the
            // consumer's state" which the caller builds on. Relaxed on failure: it is loaded again.
            let claim = self.producers.tail.compare_exchange_weak(
                tail,
                tail + 1,
                Ordering::SeqCst,
                Ordering::Relaxed,
            );
            if claim.is_ok() {
                return Ok(RingPlace { ring: self, index });
            }
            for _ in 0..spins {
                spin_loop();
            }
            spins = (spins * 2).min(CLAIM_SPINS_MAX);
        }
    }

    /// Whether `index` lies below the bound: if so, its slot is free (rules 1 and 2).
    #[inline]
    fn has_room_for(&self, index: u64) -> bool {
        // Ordering: Acquire pairs with the Release in `look_at_head`, rule 2.
        let seen = self.producers.head_seen.load(Ordering::Acquire);
        index < seen + self.bound || self.look_at_head(index, seen)
    }

    #[cold]
    fn look_at_head(&self, index: u64, seen: u64) -> bool {
        // Ordering: Acquire pairs with the Release in `publish`, rule 2.
        let head = self.head_published.load(Ordering::Acquire);
        if head != seen {
            // Ordering: Release hands on what the load acquired, rule 2.
            self.producers.head_seen.store(head, Ordering::Release);
        }
        index < head + self.bound
    }

    /// Raises a barrier, if it is not raised.
    pub fn raise(&self, barrier: Barrier) {
        // Ordering: SeqCst, in one order with the claims; Release pairs with the Acquire of `reserve`.
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
        // Ordering: SeqCst, one order of all claims: those before are accepted, later ones not.
        let tail = self.producers.tail.fetch_or(CLOSED, Ordering::SeqCst);
        tail & CLOSED == 0
    }

    /// Whether [`Ring::close`] was called.
    pub fn is_closed(&self) -> bool {
        // Ordering: SeqCst, so that it is in one order with the claims.
        self.producers.tail.load(Ordering::SeqCst) & CLOSED != 0
    }

    /// The index behind the last one that was claimed.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        // Ordering: SeqCst, the consumer's half of the wake-up protocol.
        self.producers.tail.load(Ordering::SeqCst) & !FLAGS
    }

    /// Values accepted and not yet taken, as of the consumer's last [`Ring::publish`]; never above
    /// the bound. Anybody may ask at any time.
    #[inline]
    pub fn depth(&self) -> u64 {
        // The head first: it never passes a tail that is read after it. The tail may have gone on
        // with a newer head, hence the limit.
        // Ordering: Acquire, so that the tail is read after it.
        let head = self.head_published.load(Ordering::Acquire);
        self.end().saturating_sub(head).min(self.bound)
    }

    /// Values accepted since the ring was made.
    pub fn accepted(&self) -> u64 {
        // Ordering: Relaxed, a statistic.
        let holes = self.producers.holes.load(Ordering::Relaxed);
        self.end().saturating_sub(holes)
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
