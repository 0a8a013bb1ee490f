//! The lane: an unbounded linked list of blocks under a hard bound; many producers, one consumer.
//!
//! ```text
//!            head (consumer)                          tail (next free index)
//!              v                                        v
//!   [ block 0 ]──>[ block 1 ]──>[ block 2 ]──>[ block 3 . . ]
//!     oldest        block_head                  hint
//!     (waits to be freed)
//! ```
//!
//! A push is one atomic read-modify-write: `tail.fetch_add(1)` reserves an index, the block that
//! holds it is found from `hint`, the value is written and its mark published. A pop has none: the
//! head is private to the consumer, which publishes it once per batch ([`Lane::publish`]; a narrow
//! lane's at each pop). The depth
//! is tail minus published head; no counter is shared for it.
//!
//! **The bound is hard.** A producer that draws an index at or past `head + bound` lost a race: it
//! publishes a *hole* there, takes its value back and shuts the *gate*. While the gate is shut,
//! producers compare tail and head before they draw, so there are at most as many holes per shutting
//! as there are producers under way. Without pressure nobody reads the tail before drawing from it,
//! which would move its cache line twice.
//!
//! **Barriers** are bits beside the gate's, in the same byte: a producer tests all with one load.
//!
//! **Closing** sets the tail's top bit. Whoever draws an index from a closed tail takes the value
//! back; whoever drew one before has been accepted, and the consumer drains exactly those.
//!
//! # Why freeing is sound
//!
//! Let *i* be the index a producer drew. Until it publishes slot *i*, the head cannot pass *i*.
//! 1. It reads `hint` after drawing. If that block starts at or before *i*, then the hint leaves it,
//!    and every block behind it, only later; so their `retire_at` (the tail, read after the hint
//!    left) is above *i*, and they are freed only when the head has reached `retire_at`, hence after
//!    the publication of *i*, the producer's last access.
//! 2. If the hint is already past *i* (a laggard: others filled the block and moved on between its
//!    two steps), it counts itself in `walkers` and walks from `block_head`, the consumer's block,
//!    which cannot be past *i*. The consumer moves `block_head` before it reads `walkers`, and frees
//!    nothing while that is not zero. Both sides' accesses are SeqCst: either the laggard sees the
//!    new `block_head` or the consumer sees the laggard. With several laggards the count may be zero in
//!    between: a consumer that reads such a zero did so, in the one order of these accesses, before
//!    the next laggard announced itself, and that one sees the new `block_head`. The laggard's
//!    subtraction is SeqCst too: C++20 needs only its Release, but loom lets a SeqCst load read an
//!    older Release store past a newer SeqCst one.
//! 3. The hint starts as null. Each producer that finds it so takes `block_head`, installing the
//!    first block if need be, and sets the hint to it before it publishes; the head cannot pass
//!    index 0 before its producer has done so, thus the hint's first value is the first block.
//!
//! A block is freed by the consumer alone, in list order.

use std::{
    fmt,
    ptr::{self, NonNull},
};

use crate::{
    Barrier, PLAIN_MARK, Place, Popped, Refused, barrier,
    block::Block,
    sync::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering, UnsafeCell},
};

/// Top bit of the tail: no further value is accepted.
const CLOSED: u64 = 1 << 63;
/// `closed_at` while the lane is open.
const OPEN: u64 = u64::MAX;

/// Up to this bound each pop publishes the head: a batch that is counted as queued until it ends
/// would be a good part of the lane.
pub(crate) const NARROW_BOUND_MAX: u64 = 255;

/// Bit of the gate beside the barriers: the bound was reached.
pub(crate) const SHUT: u8 = 1 << 7;
const _: () = assert!(SHUT & barrier::ALL == 0, "the gate's bits differ");
/// The bits that stop a newcomer: all.
const FOR_NEWCOMERS: u8 = u8::MAX;
/// The bits that stop a sender that was let in from the waiters.
const FOR_WAITERS: u8 = SHUT | Barrier::Pause.bit();

/// What producers write.
#[repr(C)]
pub(crate) struct Producers<T> {
    pub(crate) tail: AtomicU64,
    pub(crate) hint: AtomicPtr<Block<T>>,
    /// Indices that were drawn but hold nothing, because the bound was reached.
    pub(crate) holes: AtomicU64,
}

/// What the consumer publishes, once per batch, and producers read. It lies beside what they write,
/// so that a push moves one cache line and not two.
#[repr(C)]
pub(crate) struct Published<T> {
    pub(crate) head: AtomicU64,
    pub(crate) bound: u64,
    pub(crate) closed_at: AtomicU64,
    pub(crate) block_head: AtomicPtr<Block<T>>,
    /// [`SHUT`] and the raised barriers.
    pub(crate) gate: AtomicU8,
    /// Laggards under way, see the module's rule 2. Producers write it, but there is space for it only
    /// beside the gate.
    pub(crate) walkers: AtomicU32,
}

/// What only the consumer touches.
pub(crate) struct Consumer<T> {
    pub(crate) head: u64,
    pub(crate) block: *mut Block<T>,
    /// First block that is not freed yet; `oldest..block` wait for their `retire_at`.
    pub(crate) oldest: *mut Block<T>,
}

/// A bounded queue of linked blocks with many producers and one consumer.
///
/// 88 bytes: a cache line that producers share, then what only the consumer touches. It is not
/// aligned by itself, which would round its owner up as well: an owner that cares for speed puts it
/// at the beginning of a cache line, so that the two parts lie in different ones.
#[repr(C)]
pub struct Lane<T> {
    pub(crate) producers: Producers<T>,
    pub(crate) published: Published<T>,
    pub(crate) consumer: UnsafeCell<Consumer<T>>,
}

#[cfg(not(loom))]
const _: () = assert!(
    std::mem::offset_of!(Lane<u8>, consumer) == 64,
    "what producers touch fills one cache line"
);

// SAFETY: values move from producer to consumer through slots whose mark is stored with Release and
// loaded with Acquire; the consumer's part is touched only under the contract of the unsafe methods.
unsafe impl<T: Send> Send for Lane<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Lane<T> {}

impl<T> Lane<T> {
    /// The largest bound.
    pub const BOUND_MAX: u64 = 1 << 48;

    /// An empty lane that holds at most `bound` values. Allocates nothing before the first push.
    ///
    /// # Panics
    /// If `bound` is 0 or above [`Lane::BOUND_MAX`].
    pub fn new(bound: u64) -> Self {
        assert!(
            (1..=Self::BOUND_MAX).contains(&bound),
            "a lane's bound is 1..={}, not {bound}",
            Self::BOUND_MAX
        );
        Self {
            producers: Producers {
                tail: AtomicU64::new(0),
                hint: AtomicPtr::new(ptr::null_mut()),
                holes: AtomicU64::new(0),
            },
            published: Published {
                head: AtomicU64::new(0),
                bound,
                closed_at: AtomicU64::new(OPEN),
                block_head: AtomicPtr::new(ptr::null_mut()),
                gate: AtomicU8::new(0),
                walkers: AtomicU32::new(0),
            },
            consumer: UnsafeCell::new(Consumer {
                head: 0,
                block: ptr::null_mut(),
                oldest: ptr::null_mut(),
            }),
        }
    }

    /// Appends a value; see [`Lane::push_with`].
    ///
    /// # Errors
    /// [`Refused::Full`] at the bound or at a [`Barrier`], [`Refused::Closed`] after [`Lane::close`].
    pub fn push(&self, value: T) -> Result<u64, Refused<T>> {
        self.push_with(value, |_| PLAIN_MARK)
    }

    /// Appends a value with the mark that `mark` makes of its index, and returns the index.
    /// The reservation is a SeqCst read-modify-write: what the caller loads (SeqCst) afterwards is at
    /// least as new as what the consumer wrote before it found the lane [`Popped::Empty`].
    ///
    /// # Errors
    /// [`Refused::Full`] at the bound or at a [`Barrier`], [`Refused::Closed`] after [`Lane::close`].
    #[inline]
    pub fn push_with(&self, value: T, mark: impl FnOnce(u64) -> u64) -> Result<u64, Refused<T>> {
        self.push_unless(FOR_NEWCOMERS, value, mark)
    }

    /// As [`Lane::push_with`], for a sender that was let in from a queue of waiters: it passes
    /// [`Barrier::Waiters`]. The bound holds for it as for all.
    ///
    /// # Errors
    /// [`Refused::Full`] at the bound or while [`Barrier::Pause`] is raised, [`Refused::Closed`] after
    /// [`Lane::close`].
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
        stops: u8,
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

    /// Draws a place for one value, which must be filled: until it is, the consumer cannot pass it.
    /// What [`Lane::push_with`] says of errors and of ordering holds here. For values that are built
    /// in place.
    ///
    /// # Errors
    /// As [`Lane::push_with`], without a value.
    #[inline]
    pub fn reserve(&self) -> Result<Place<'_, T>, Refused<()>> {
        self.reserve_unless(FOR_NEWCOMERS)
    }

    #[inline(always)]
    fn reserve_unless(&self, stops: u8) -> Result<Place<'_, T>, Refused<()>> {
        // Ordering: Relaxed, the gate is a hint; the bound itself is kept below.
        let gate = self.published.gate.load(Ordering::Relaxed) & stops;
        if gate != 0
            && let Some(refused) = self.refuse_at_gate(gate)
        {
            return Err(refused);
        }
        // Ordering: SeqCst, the drawing of rules 1 and 2, and the producer's half of "publish, then
        // look at the consumer's state" which the caller builds on.
        let index = self.producers.tail.fetch_add(1, Ordering::SeqCst);
        if index & CLOSED != 0 {
            return Err(Refused::Closed(()));
        }
        // Ordering: Acquire pairs with the Release in `publish`: slots below the head are free. An
        // older head only makes the lane look fuller than it is.
        let head = self.published.head.load(Ordering::Acquire);
        if index.wrapping_sub(head) >= self.published.bound {
            return Err(self.leave_hole(index));
        }
        Ok(self.find(index))
    }

    #[cold]
    fn leave_hole(&self, index: u64) -> Refused<()> {
        // Ordering: Relaxed, a hint.
        self.published.gate.fetch_or(SHUT, Ordering::Relaxed);
        drop(self.find(index));
        Refused::Full(())
    }

    /// The slot of the drawn `index`.
    #[inline]
    fn find(&self, index: u64) -> Place<'_, T> {
        // Ordering: SeqCst, rule 1: read after drawing.
        let hint = self.producers.hint.load(Ordering::SeqCst);
        if let Some(block) = NonNull::new(hint) {
            // SAFETY: rule 1: a block the hint pointed to after we drew is not freed before we
            // publish. The header fields are written only before the block is linked.
            let offset = unsafe { index.wrapping_sub(block.as_ref().start) };
            // SAFETY: as above.
            if offset < unsafe { block.as_ref().length } {
                return Place {
                    lane: self,
                    // SAFETY: in bounds.
                    slot: unsafe { Block::slot(hint, offset) },
                    index,
                    is_laggard: false,
                };
            }
        }
        self.find_slowly(index)
    }

    #[cold]
    fn find_slowly(&self, index: u64) -> Place<'_, T> {
        // Ordering: SeqCst, rule 1.
        let mut block = self.producers.hint.load(Ordering::SeqCst);
        if block.is_null() {
            block = self.first_block();
        }
        // SAFETY: rule 1 (or 3, for the first block).
        let is_laggard = unsafe { &*block }.start > index;
        if is_laggard {
            // Ordering: SeqCst, rule 2: announce, then read `block_head`.
            self.published.walkers.fetch_add(1, Ordering::SeqCst);
            block = self.published.block_head.load(Ordering::SeqCst);
        }
        loop {
            // SAFETY: rule 1 or 2 keeps this block alive until we publish.
            let (start, length) = unsafe { ((&*block).start, (&*block).length) };
            debug_assert!(start <= index, "a producer never starts past its own index");
            if index - start < length {
                return Place {
                    lane: self,
                    // SAFETY: in bounds.
                    slot: unsafe { Block::slot(block, index - start) },
                    index,
                    is_laggard,
                };
            }
            // SAFETY: as above.
            let next = unsafe { Self::next_or_allocate(block) };
            if !is_laggard {
                self.advance_hint(block, next);
            }
            block = next;
        }
    }

    /// The lane's current first block, installed if there is none yet; sets the hint (rule 3).
    fn first_block(&self) -> *mut Block<T> {
        // Ordering: SeqCst/Acquire: the block's header must be visible.
        let mut block = self.published.block_head.load(Ordering::SeqCst);
        if block.is_null() {
            let fresh = Block::allocate(0);
            match self.published.block_head.compare_exchange(
                ptr::null_mut(),
                fresh.as_ptr(),
                Ordering::SeqCst,
                Ordering::SeqCst,
            ) {
                Ok(_) => block = fresh.as_ptr(),
                Err(installed) => {
                    // SAFETY: never shared; fresh blocks have EMPTY marks and no values.
                    unsafe { Block::free(fresh) };
                    block = installed;
                }
            }
        }
        // A failure means that another producer has set it, which serves as well.
        // Ordering: SeqCst, rule 3.
        match self.producers.hint.compare_exchange(
            ptr::null_mut(),
            block,
            Ordering::SeqCst,
            Ordering::SeqCst,
        ) {
            Ok(_) => block,
            Err(hint) => hint,
        }
    }

    /// # Safety
    /// `block` is kept alive by rule 1 or 2.
    unsafe fn next_or_allocate(block: *mut Block<T>) -> *mut Block<T> {
        // SAFETY: the caller's promise.
        let block = unsafe { &*block };
        // Ordering: Acquire pairs with the exchange below: the next block's header is visible.
        let next = block.next.load(Ordering::Acquire);
        if !next.is_null() {
            return next;
        }
        let fresh = Block::allocate(block.start + block.length);
        // Ordering: AcqRel, publish our header or see the winner's.
        match block.next.compare_exchange(
            ptr::null_mut(),
            fresh.as_ptr(),
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => fresh.as_ptr(),
            Err(winner) => {
                // SAFETY: never shared; fresh blocks have EMPTY marks and no values.
                unsafe { Block::free(fresh) };
                winner
            }
        }
    }

    /// Moves the hint from `block` to `next`, unless another producer has; who moves it sets
    /// `retire_at`.
    fn advance_hint(&self, block: *mut Block<T>, next: *mut Block<T>) {
        // Ordering: SeqCst, rule 1: the tail below is read after the hint has left.
        let moved =
            self.producers
                .hint
                .compare_exchange(block, next, Ordering::SeqCst, Ordering::SeqCst);
        if moved.is_ok() {
            let tail = self.producers.tail.load(Ordering::SeqCst) & !CLOSED;
            // SAFETY: nobody frees the block before `retire_at` is set, and only we set it.
            // Ordering: Release pairs with the Acquire in `reclaim`.
            unsafe { &*block }.retire_at.store(tail, Ordering::Release);
        }
    }

    /// Refuses all further values. `true` for the call that closed the lane.
    pub fn close(&self) -> bool {
        // Ordering: SeqCst, one order of all drawings: those before are accepted, later ones not.
        let tail = self.producers.tail.fetch_or(CLOSED, Ordering::SeqCst);
        if tail & CLOSED != 0 {
            return false;
        }
        // Ordering: Release/Acquire with `end`.
        self.published.closed_at.store(tail, Ordering::Release);
        true
    }

    /// Whether [`Lane::close`] was called.
    pub fn is_closed(&self) -> bool {
        // Ordering: SeqCst, so that it is in one order with the drawings.
        self.producers.tail.load(Ordering::SeqCst) & CLOSED != 0
    }

    /// The index behind the last one that was drawn while the lane was open.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        // Ordering: SeqCst, the consumer's half of the wake-up protocol.
        let tail = self.producers.tail.load(Ordering::SeqCst);
        if tail & CLOSED == 0 {
            return tail;
        }
        // Refused producers go on counting the tail up; what counts is where it was closed.
        // Ordering: Acquire pairs with the Release in `close`.
        let closed_at = self.published.closed_at.load(Ordering::Acquire);
        if closed_at == OPEN {
            // The closer is between its two steps: too high an end makes the consumer look again.
            tail & !CLOSED
        } else {
            closed_at
        }
    }

    /// Values accepted and not yet taken, as of the consumer's last [`Lane::publish`]; never above
    /// the bound. Anybody may ask at any time.
    #[inline]
    pub fn depth(&self) -> u64 {
        // The head first: it never passes a tail that is read after it.
        // Ordering: Acquire, as in `push_with`.
        let head = self.published.head.load(Ordering::Acquire);
        // Whatever is beyond the bound is a hole by construction.
        self.end().saturating_sub(head).min(self.published.bound)
    }

    /// The most values that the lane ever holds.
    pub fn bound(&self) -> u64 {
        self.published.bound
    }

    /// Values accepted since the lane was made.
    pub fn accepted(&self) -> u64 {
        // Ordering: Relaxed, a statistic.
        let holes = self.producers.holes.load(Ordering::Relaxed);
        self.end().saturating_sub(holes)
    }
}

impl<T> Drop for Lane<T> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: no producer and no other consumer exists.
        while let Popped::Value(value, _) = unsafe { self.pop() } {
            drop(value);
        }
        let mut block = self.consumer.with(|consumer| {
            // SAFETY: as above.
            unsafe { (*consumer).oldest }
        });
        if block.is_null() {
            // Ordering: Relaxed, nobody else is left.
            block = self.published.block_head.load(Ordering::Relaxed);
        }
        while let Some(owned) = NonNull::new(block) {
            // SAFETY: nobody else is left; the list owns each block once.
            unsafe {
                // Ordering: Relaxed, nobody else is left.
                block = owned.as_ref().next.load(Ordering::Relaxed);
                Block::free(owned);
            }
        }
    }
}

impl<T> fmt::Debug for Lane<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Lane")
            .field("depth", &self.depth())
            .field("bound", &self.bound())
            .field("is_closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
