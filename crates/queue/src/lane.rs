//! The lane: a linked list of blocks under a hard bound; many producers, one consumer.
//!
//! ```text
//!            head (consumer)                          tail (next free index)
//!              v                                        v
//!   [ block 0 ]──>[ block 1 ]──>[ block 2 ]──>[ block 3 . . ]
//!     oldest        block_head                  hint
//!     (to be freed)
//! ```
//!
//! A push is one atomic read-modify-write: `tail.fetch_add(1)` reserves an index. The producer finds the block of the
//! index from `hint`, writes the value and publishes its mark. A pop has no read-modify-write: the head is private to
//! the consumer, which publishes it once per batch ([`Lane::publish`]; in a narrow lane at each pop). The depth is the
//! tail minus the published head; there is no shared counter for it.
//!
//! **The bound is hard.** A producer whose index is at or past `head + bound` has lost a race: it publishes a *hole*
//! there, takes its value back and shuts the *gate*. While the gate is shut, producers compare tail and head before
//! they reserve. So each shutting of the gate leaves at most as many holes as producers were between the two steps.
//! Without pressure no producer reads the tail before its `fetch_add`, which would transfer its cache line twice.
//!
//! **Barriers** are bits in the gate's byte: one load tests all of them.
//!
//! **Closing** sets the tail's top bit. A producer that reserves from a closed tail takes its value back. Every index
//! reserved before is accepted, and the consumer drains exactly those.
//!
//! # Why freeing is sound
//!
//! Let *i* be the index that a producer reserved. Until it publishes slot *i*, the head cannot pass *i*.
//! 1. It reads `hint` after the reservation. If that block starts at or before *i*, the hint leaves it and every later
//!    block only afterwards. So their `retire_at` (the tail, read after the hint left) is above *i*. They are freed
//!    only when the head has reached `retire_at`: after the publication of *i*, the producer's last access.
//! 2. If the hint is already past *i*, the producer is a *laggard*: others filled the block and moved on between its
//!    two steps. It counts itself in `walkers` and walks from `block_head`, the consumer's block, which cannot be past
//!    *i*. The consumer moves `block_head` before it reads `walkers`, and frees nothing while the count is not zero.
//!    Both sides' accesses are SeqCst: either the laggard sees the new `block_head`, or the consumer sees the laggard.
//!    With several laggards the count may be zero in between. A consumer that reads such a zero did so, in the single
//!    order of these accesses, before the next laggard announced itself, and that laggard sees the new `block_head`.
//!    The laggard's subtraction is SeqCst too: C++20 needs only its Release, but loom lets a SeqCst load read an older
//!    Release store past a newer SeqCst one.
//! 3. The hint starts as null. Each producer that reads null takes `block_head`, installs the first block if there is
//!    none, and sets the hint before it publishes. The head cannot pass index 0 before its producer has done so, thus
//!    the hint's first value is the first block.
//!
//! Only the consumer frees blocks, in list order.

use std::{
    fmt,
    mem::{ManuallyDrop, MaybeUninit},
    ptr::{self, NonNull},
};

use crate::{
    Barrier, PLAIN_MARK, Permit, Popped, Refused, Sizes, Whole, barrier,
    block::Block,
    consumer::PoppedBox,
    sync::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering, UnsafeCell},
};

/// Top bit of the tail: the lane is closed.
const CLOSED: u64 = 1 << 63;
/// `closed_at` while the lane is open.
const OPEN: u64 = u64::MAX;

/// Up to this bound each pop publishes the head: otherwise a batch that counts as queued until it ends would take a
/// large part of the lane.
pub(crate) const NARROW_BOUND_MAX: u64 = 255;

/// Bit of the gate, beside the barriers: the bound was reached.
pub(crate) const SHUT: u8 = 1 << 7;
const _: () = assert!(SHUT & barrier::ALL == 0, "the gate's bits differ");
/// Bytes of [`Lane::tag`].
const TAG_BYTES: usize = 3;
/// The gate's bits that stop a newcomer: all.
const FOR_NEWCOMERS: u8 = u8::MAX;
/// The gate's bits that stop a sender from the line of waiters.
const FOR_WAITERS: u8 = SHUT | Barrier::Pause.bit();

/// Written by producers.
#[repr(C)]
pub(crate) struct Producers<T, S> {
    pub(crate) tail: AtomicU64,
    pub(crate) hint: AtomicPtr<Block<T, S>>,
    /// Indices that were reserved and never filled.
    pub(crate) holes: AtomicU64,
}

/// Written by the consumer once per batch, read by producers. It shares a cache line with [`Producers`], so that a push
/// transfers one line and not two.
#[repr(C)]
pub(crate) struct Published<T, S> {
    pub(crate) head: AtomicU64,
    pub(crate) bound: u64,
    pub(crate) closed_at: AtomicU64,
    pub(crate) block_head: AtomicPtr<Block<T, S>>,
    /// [`SHUT`] and the raised barriers.
    pub(crate) gate: AtomicU8,
    /// See [`Lane::tag`].
    tag: [u8; TAG_BYTES],
    /// Walking laggards (rule 2). Producers write it, but only this line has space for it.
    pub(crate) walkers: AtomicU32,
}

/// Touched by the consumer only. A pop reads nothing of the producers' line, which each push takes to another core.
pub(crate) struct Consumer<T, S> {
    pub(crate) head: u64,
    pub(crate) block: *mut Block<T, S>,
    /// First block that is not freed; `oldest..block` wait for their `retire_at`.
    pub(crate) oldest: *mut Block<T, S>,
    /// Of the value that was popped last. It also says whether the bound is at most [`NARROW_BOUND_MAX`].
    pub(crate) popped_box: PoppedBox<T>,
}

/// A bounded queue of linked blocks with many producers and one consumer.
///
/// 96 bytes: one cache line that producers share, then the consumer's part. The type is not aligned to a cache line,
/// which would enlarge its owner too. An owner that needs the speed puts it at the start of a cache line.
#[repr(C)]
pub struct Lane<T, S: Sizes<T> = Whole> {
    pub(crate) producers: Producers<T, S>,
    pub(crate) published: Published<T, S>,
    pub(crate) consumer: UnsafeCell<Consumer<T, S>>,
}

#[cfg(all(not(loom), target_pointer_width = "64"))]
const _: () = assert!(
    std::mem::offset_of!(Lane<u8>, consumer) == 64 && size_of::<Lane<u8>>() == 96,
    "the producers' part fills one cache line"
);

// SAFETY: values move from producer to consumer through slots whose mark is stored with Release and loaded with
// Acquire. Only the unsafe methods touch the consumer's part, under their contract.
unsafe impl<T: Send, S: Sizes<T>> Send for Lane<T, S> {}
// SAFETY: as above.
unsafe impl<T: Send, S: Sizes<T>> Sync for Lane<T, S> {}

impl<T> Lane<T> {
    /// An empty lane that holds at most `bound` values. Allocates nothing before the first push.
    ///
    /// # Panics
    /// If `bound` is 0 or above [`Lane::BOUND_MAX`].
    pub fn new(bound: u64) -> Self {
        Self::with_tag(bound, [0; TAG_BYTES])
    }
}

impl<T, S: Sizes<T>> Lane<T, S> {
    /// The largest bound.
    pub const BOUND_MAX: u64 = 1 << 48;

    /// As [`Lane::new`], with a tag, and with short slots if `S` has any.
    ///
    /// # Panics
    /// As [`Lane::new`].
    pub fn with_tag(bound: u64, tag: [u8; TAG_BYTES]) -> Self {
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
                tag,
                walkers: AtomicU32::new(0),
            },
            consumer: UnsafeCell::new(Consumer {
                head: 0,
                block: ptr::null_mut(),
                oldest: ptr::null_mut(),
                popped_box: PoppedBox::new(bound <= NARROW_BOUND_MAX),
            }),
        }
    }

    /// Constants of the owner that its producers read with each push. They are on the line that a push needs anyway; any
    /// other line near the lane is one that the consumer writes.
    #[inline]
    pub fn tag(&self) -> [u8; TAG_BYTES] {
        self.published.tag
    }

    /// Appends a value; see [`Lane::push_with`].
    ///
    /// # Errors
    /// [`Refused::Full`] at the bound or at a [`Barrier`], [`Refused::Closed`] after [`Lane::close`].
    pub fn push(&self, value: T) -> Result<u64, Refused<T>> {
        self.push_with(value, |_| PLAIN_MARK)
    }

    /// Appends a value with the mark that `mark` computes from its index, and returns the index. A mark is at least 1 and
    /// at most 2^63 - 2; [`Permit::fill`] panics with another one. The reservation is a
    /// SeqCst read-modify-write: a later SeqCst load of the caller sees everything that the consumer wrote before it
    /// found the lane [`Popped::Empty`].
    ///
    /// # Errors
    /// [`Refused::Full`] at the bound or at a [`Barrier`], [`Refused::Closed`] after [`Lane::close`].
    #[inline]
    pub fn push_with(&self, value: T, mark: impl FnOnce(u64) -> u64) -> Result<u64, Refused<T>> {
        self.push_unless(FOR_NEWCOMERS, value, mark)
    }

    /// Like [`Lane::push_with`], for a sender from the line of waiters: it passes [`Barrier::Waiters`], but not the
    /// bound.
    ///
    /// # Errors
    /// [`Refused::Full`] at the bound or at [`Barrier::Pause`], [`Refused::Closed`] after [`Lane::close`].
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
        let is_long = !S::is_short(&value);
        match self.reserve_unless(stops, is_long) {
            Ok(permit) => {
                let index = permit.index();
                let mark = mark(index);
                if S::HAS_SHORT && !is_long {
                    let value = ManuallyDrop::new(value);
                    let from = (&raw const value).cast::<S::Short>();
                    // SAFETY: the first bytes of a short value are all of it, and it is moved.
                    unsafe {
                        permit.fill(mark, |slot| {
                            slot.cast::<MaybeUninit<S::Short>>()
                                .copy_from_nonoverlapping(from.cast(), 1);
                        });
                    }
                } else {
                    // SAFETY: `write` initialises the value.
                    unsafe { permit.fill(mark, |slot| slot.write(value)) };
                }
                Ok(index)
            }
            Err(refused) => Err(refused.with(value)),
        }
    }

    /// Reserves a slot for a value that is built in place. The consumer cannot pass the slot until it is filled.
    /// Ordering and errors are those of [`Lane::push_with`].
    ///
    /// # Errors
    /// As [`Lane::push_with`], without a value.
    #[inline]
    pub fn reserve(&self) -> Result<Permit<'_, T, S>, Refused<()>> {
        self.reserve_unless(FOR_NEWCOMERS, true)
    }

    /// As [`Lane::reserve`], for a short value.
    ///
    /// # Errors
    /// As [`Lane::reserve`].
    #[inline]
    pub fn reserve_short(&self) -> Result<Permit<'_, T, S>, Refused<()>> {
        self.reserve_unless(FOR_NEWCOMERS, false)
    }

    #[inline(always)]
    fn reserve_unless(&self, stops: u8, is_long: bool) -> Result<Permit<'_, T, S>, Refused<()>> {
        // Ordering: Relaxed, the gate is a hint; the code below keeps the bound.
        let gate = self.published.gate.load(Ordering::Relaxed) & stops;
        if gate != 0
            && let Some(refused) = self.refuse_at_gate(gate)
        {
            return Err(refused);
        }
        // Ordering: SeqCst, the reservation of rules 1 and 2, and the producer's half of "publish, then read the
        // consumer's state", on which the caller relies.
        let index = self.producers.tail.fetch_add(1, Ordering::SeqCst);
        if index & CLOSED != 0 {
            return Err(Refused::Closed(()));
        }
        // Ordering: Acquire pairs with the Release in `publish`: slots below the head are free. An older head only
        // makes the lane seem fuller than it is.
        let head = self.published.head.load(Ordering::Acquire);
        if index.wrapping_sub(head) >= self.published.bound {
            return Err(self.leave_hole(index));
        }
        Ok(self.find(index, is_long))
    }

    /// `None` if the gate was shut at the bound and there is capacity again.
    #[cold]
    fn refuse_at_gate(&self, gate: u8) -> Option<Refused<()>> {
        if gate == SHUT && self.depth() < self.published.bound {
            None
        } else if self.is_closed() {
            Some(Refused::Closed(()))
        } else {
            Some(Refused::Full(()))
        }
    }

    #[cold]
    fn leave_hole(&self, index: u64) -> Refused<()> {
        // Ordering: Relaxed, a hint.
        self.published.gate.fetch_or(SHUT, Ordering::Relaxed);
        drop(self.find(index, false));
        Refused::Full(())
    }

    /// The permit for the reserved `index`.
    #[inline]
    fn find(&self, index: u64, is_long: bool) -> Permit<'_, T, S> {
        // Ordering: SeqCst, rule 1: read after the reservation.
        let hint = self.producers.hint.load(Ordering::SeqCst);
        if let Some(block) = NonNull::new(hint) {
            // SAFETY: rule 1: the block that the hint named after our reservation is not freed before we publish. The
            // header fields are written only before the block is linked.
            let offset = unsafe { index.wrapping_sub(block.as_ref().start) };
            // SAFETY: as above.
            if offset < unsafe { block.as_ref().length } {
                // SAFETY: in bounds, and as above.
                return unsafe { self.permit(block, offset, is_long, false) };
            }
        }
        self.find_slowly(index, is_long)
    }

    /// # Safety
    /// Rule 1 or 2 keeps the block; `offset` is in bounds.
    #[inline(always)]
    unsafe fn permit(
        &self,
        block: NonNull<Block<T, S>>,
        offset: u64,
        is_long: bool,
        is_laggard: bool,
    ) -> Permit<'_, T, S> {
        // SAFETY: the caller's promise.
        let header = unsafe { block.as_ref() };
        if S::HAS_SHORT && is_long {
            header.note_long();
        }
        Permit {
            // SAFETY: as above.
            place: unsafe { Block::slot(block.as_ptr(), offset) },
            is_boxed: S::HAS_SHORT && is_long && !header.is_long,
            index: header.start + offset,
            holes: &self.producers.holes,
            walkers: is_laggard.then_some(&self.published.walkers),
        }
    }

    #[cold]
    fn find_slowly(&self, index: u64, is_long: bool) -> Permit<'_, T, S> {
        // Ordering: SeqCst, rule 1.
        let mut block = self.producers.hint.load(Ordering::SeqCst);
        if block.is_null() {
            block = self.first_block(is_long);
        }
        // SAFETY: rule 1 (or 3, for the first block).
        let is_laggard = unsafe { &*block }.start > index;
        if is_laggard {
            // Ordering: SeqCst, rule 2: announce, then read `block_head`.
            self.published.walkers.fetch_add(1, Ordering::SeqCst);
            block = self.published.block_head.load(Ordering::SeqCst);
        }
        loop {
            // SAFETY: rule 1 or 2 keeps this block alive until we publish; it is not null.
            let found = unsafe { NonNull::new_unchecked(block) };
            // SAFETY: as above.
            let (start, length) = unsafe { (found.as_ref().start, found.as_ref().length) };
            debug_assert!(start <= index, "a producer never starts past its own index");
            if index - start < length {
                // SAFETY: as above, and in bounds.
                return unsafe { self.permit(found, index - start, is_long, is_laggard) };
            }
            // SAFETY: as above.
            let next = unsafe { Self::next_or_allocate(block, is_long) };
            if !is_laggard {
                self.advance_hint(block, next);
            }
            block = next;
        }
    }

    /// The block that the hint names, after installing the first block and setting the hint if need be (rule 3).
    fn first_block(&self, is_long: bool) -> *mut Block<T, S> {
        // Ordering: SeqCst/Acquire: the block's header must be visible.
        let mut block = self.published.block_head.load(Ordering::SeqCst);
        if block.is_null() {
            let fresh = Block::allocate(0, !S::HAS_SHORT || is_long);
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
        // On failure another producer has set it, which serves as well.
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
    unsafe fn next_or_allocate(block: *mut Block<T, S>, is_long: bool) -> *mut Block<T, S> {
        // SAFETY: the caller's promise.
        let block = unsafe { &*block };
        // Ordering: Acquire pairs with the exchange below: the next block's header is visible.
        let next = block.next.load(Ordering::Acquire);
        if !next.is_null() {
            return next;
        }
        let is_long = !S::HAS_SHORT || is_long || block.has_long();
        let fresh = Block::allocate(block.start + block.length, is_long);
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

    /// Moves the hint from `block` to `next`, unless another producer has. The producer that moves it sets `retire_at`.
    fn advance_hint(&self, block: *mut Block<T, S>, next: *mut Block<T, S>) {
        // Ordering: SeqCst, rule 1: the tail below is read after the hint has left.
        let moved =
            self.producers
                .hint
                .compare_exchange(block, next, Ordering::SeqCst, Ordering::SeqCst);
        if moved.is_ok() {
            let tail = self.producers.tail.load(Ordering::SeqCst) & !CLOSED;
            // SAFETY: the block is not freed before `retire_at` is set, and only we set it.
            // Ordering: Release pairs with the Acquire in `reclaim`.
            unsafe { &*block }.retire_at.store(tail, Ordering::Release);
        }
    }

    /// Refuses all further values. `true` for the call that closed the lane.
    pub fn close(&self) -> bool {
        // Ordering: SeqCst, in one order with the reservations: earlier ones are accepted, later ones are not.
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
        // Ordering: SeqCst, in one order with the reservations.
        self.producers.tail.load(Ordering::SeqCst) & CLOSED != 0
    }

    /// The index after the last one that was reserved while the lane was open.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        // Ordering: SeqCst, the consumer's half of the wake-up protocol.
        let tail = self.producers.tail.load(Ordering::SeqCst);
        if tail & CLOSED == 0 {
            return tail;
        }
        // Refused producers still increment the tail; the end is where it was closed.
        // Ordering: Acquire pairs with the Release in `close`.
        let closed_at = self.published.closed_at.load(Ordering::Acquire);
        if closed_at == OPEN {
            // The closer is between its two steps: an end that is too high makes the consumer try again.
            tail & !CLOSED
        } else {
            closed_at
        }
    }

    /// Values accepted and not yet taken, as of the consumer's last [`Lane::publish`]; never above the bound. May be
    /// called from any thread.
    #[inline]
    pub fn depth(&self) -> u64 {
        // The head is read first, because it never passes a tail that is read after it.
        // Ordering: Acquire, as in `reserve_unless`.
        let head = self.published.head.load(Ordering::Acquire);
        // Everything beyond the bound is a hole by construction.
        self.end().saturating_sub(head).min(self.published.bound)
    }

    /// The most values that the lane ever holds.
    pub fn bound(&self) -> u64 {
        self.published.bound
    }

    /// Raises a barrier, if it is not raised.
    pub fn raise(&self, barrier: Barrier) {
        // Ordering: Relaxed, a hint. Pushes that happen after this call see it by coherence.
        self.published
            .gate
            .fetch_or(barrier.bit(), Ordering::Relaxed);
    }

    /// Lowers a barrier, if it is raised.
    pub fn lower(&self, barrier: Barrier) {
        // Ordering: Relaxed, as in `raise`.
        self.published
            .gate
            .fetch_and(!barrier.bit(), Ordering::Relaxed);
    }

    /// Whether a barrier is raised.
    pub fn is_raised(&self, barrier: Barrier) -> bool {
        // Ordering: Relaxed, as in `raise`.
        self.published.gate.load(Ordering::Relaxed) & barrier.bit() != 0
    }

    /// Depth and accepted values.
    pub fn counts(&self) -> (u64, u64) {
        (self.depth(), self.accepted())
    }

    /// Values accepted since the lane was created.
    pub fn accepted(&self) -> u64 {
        // Ordering: Relaxed, a statistic.
        let holes = self.producers.holes.load(Ordering::Relaxed);
        self.end().saturating_sub(holes)
    }
}

impl<T, S: Sizes<T>> Drop for Lane<T, S> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: no producer and no other consumer exists.
        while let Popped::Value(value, _) = unsafe { self.pop() } {
            drop(value);
        }
        // The last pop has freed the box of the one before.
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

impl<T, S: Sizes<T>> fmt::Debug for Lane<T, S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Lane")
            .field("depth", &self.depth())
            .field("bound", &self.bound())
            .field("is_closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
