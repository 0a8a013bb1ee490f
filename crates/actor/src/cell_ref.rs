//! Counted references to cells: an `Arc` whose memory comes from the pool.
//!
//! Actors are spawned on one thread and freed on another, up to a million per second; the system allocator
//! would contend on a lock. `Arc` cannot use other memory, so the counts are in the cell. One reference
//! type serves all actor types: it is a thin pointer, and the cell holds its own drop functions.
//!
//! The protocol is that of the standard library's `Arc`: `strong` counts references; all of them
//! together hold one of `weak`, which keeps the memory. The last strong one drops the contents, the
//! last weak one frees the memory.
//!
//! Every reference is a copy of the pointer that the allocation gave ([`Core::own`]). The counts lie in the
//! cell's [`Head`], which is never dropped: weak references read them while the contents are being dropped.

use std::{
    alloc::{Layout, handle_alloc_error},
    fmt,
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::Deref,
    ptr::NonNull,
    task::{RawWaker, RawWakerVTable, Waker},
};

use freeboard_queue::memory::{self, CELL_ALIGN_BYTES, IS_POOLED, Kind};

use crate::{
    actor::Actor,
    cell::{self, Cell, Core, Head},
    life,
    sync::{AtomicU32, Ordering, fence},
};

/// Counts beyond this end the process, long before they could wrap.
const REFERENCES_MAX: u32 = i32::MAX as u32;

/// How to drop and free a cell of one actor type.
pub(crate) struct Disposal {
    /// # Safety
    /// As [`life::abandon`].
    abandon: unsafe fn(NonNull<Head>),
    /// # Safety
    /// Nobody refers to the contents any more.
    drop_contents: unsafe fn(NonNull<Head>),
    layout: Layout,
    kind: Option<Kind>,
}

/// The counts within a cell.
pub(crate) struct Counts {
    strong: AtomicU32,
    weak: AtomicU32,
    disposal: &'static Disposal,
}

impl Counts {
    /// The counts for one strong reference, which the caller creates.
    pub(crate) fn new<A: Actor>() -> Self {
        Self {
            strong: AtomicU32::new(1),
            weak: AtomicU32::new(1),
            disposal: &DisposalOf::<A>::DISPOSAL,
        }
    }
}

struct DisposalOf<A>(PhantomData<fn(A)>);

impl<A: Actor> DisposalOf<A> {
    const DISPOSAL: Disposal = Disposal {
        abandon: Self::abandon,
        drop_contents: Cell::<A>::drop_contents,
        layout: Layout::new::<Cell<A>>(),
        kind: if IS_POOLED && align_of::<Cell<A>>() <= CELL_ALIGN_BYTES {
            Kind::cell(size_of::<Cell<A>>())
        } else {
            None
        },
    };

    /// # Safety
    /// As [`life::abandon`]; the head is a `Cell<A>`'s.
    unsafe fn abandon(head: NonNull<Head>) {
        // SAFETY: head and cell begin at the same address (`repr(C)`); the caller's promise.
        unsafe { life::abandon(head.cast::<Cell<A>>().as_ref()) };
    }
}

/// A strong reference to a cell of any actor type.
pub(crate) struct CoreRef(NonNull<Head>);

// SAFETY: cells are `Send` and `Sync` (see `cell`), and the counts are atomic.
unsafe impl Send for CoreRef {}
// SAFETY: as above.
unsafe impl Sync for CoreRef {}

impl CoreRef {
    /// One more reference to a cell that is referenced already.
    #[inline]
    pub(crate) fn of(core: &Core) -> Self {
        let head = core.own();
        // SAFETY: another reference holds the cell, and with it the head.
        let counts = unsafe { &head.as_ref().counts };
        // Ordering: Relaxed: a new reference is made from one that exists.
        if counts.strong.fetch_add(1, Ordering::Relaxed) > REFERENCES_MAX {
            std::process::abort();
        }
        Self(head)
    }

    fn counts(&self) -> &Counts {
        // SAFETY: we hold a strong reference.
        unsafe { &self.0.as_ref().counts }
    }

    /// Terminates an actor that no worker will run again.
    ///
    /// # Safety
    /// As [`life::abandon`].
    pub(crate) unsafe fn abandon(&self) {
        // SAFETY: the caller's promise.
        unsafe { (self.counts().disposal.abandon)(self.0) };
    }

    fn into_raw(self) -> NonNull<Head> {
        ManuallyDrop::new(self).0
    }

    /// A waker that signals the actor to poll its future. It owns no reference; its clones do.
    ///
    /// # Safety
    /// A strong reference to the cell exists for as long as the waker is used.
    pub(crate) unsafe fn borrowed_waker(core: &Core) -> ManuallyDrop<Waker> {
        let raw = RawWaker::new(core.own().as_ptr().cast(), &WAKER);
        // SAFETY: the table below keeps the contract; this waker is never dropped, so it releases no reference.
        ManuallyDrop::new(unsafe { Waker::from_raw(raw) })
    }
}

impl Deref for CoreRef {
    type Target = Core;

    #[inline]
    fn deref(&self) -> &Core {
        // SAFETY: we hold a strong reference, made from a copy of `own`.
        unsafe { Core::of_head(self.0) }
    }
}

impl Clone for CoreRef {
    #[inline]
    fn clone(&self) -> Self {
        Self::of(self)
    }
}

impl Drop for CoreRef {
    #[inline]
    fn drop(&mut self) {
        // Ordering: Release, our uses come before the dropping of the contents, which acquires.
        if self.counts().strong.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        fence(Ordering::Acquire);
        let disposal = self.counts().disposal;
        // SAFETY: that was the last strong reference; the weak one of all strong ones, given back
        // below, keeps the memory until then.
        unsafe {
            (disposal.drop_contents)(self.0);
            release_weak(self.0);
        }
    }
}

/// # Safety
/// The caller owns one weak reference, and gives it up.
unsafe fn release_weak(head: NonNull<Head>) {
    // SAFETY: the caller's weak reference keeps the memory, and the head is never dropped.
    let counts = unsafe { &head.as_ref().counts };
    // Ordering: Release/Acquire, as for strong ones.
    if counts.weak.fetch_sub(1, Ordering::Release) != 1 {
        return;
    }
    fence(Ordering::Acquire);
    let disposal = counts.disposal;
    match disposal.kind {
        // SAFETY: it was taken with this kind, and nobody refers to it any more.
        Some(kind) => unsafe { memory::put(head.cast(), kind) },
        // SAFETY: it was allocated with this layout, and nobody refers to it any more.
        None => unsafe { std::alloc::dealloc(head.as_ptr().cast(), disposal.layout) },
    }
}

static WAKER: RawWakerVTable = RawWakerVTable::new(
    |core| {
        // SAFETY: the waker owns a strong reference.
        let owner = unsafe { borrowed(core) };
        let cloned = CoreRef::clone(&owner);
        RawWaker::new(cloned.into_raw().as_ptr().cast(), &WAKER)
    },
    |core| {
        // SAFETY: as above; this gives it up.
        let owner = ManuallyDrop::into_inner(unsafe { borrowed(core) });
        owner.signal(cell::WAKE);
    },
    |core| {
        // SAFETY: as above.
        unsafe { borrowed(core) }.signal(cell::WAKE);
    },
    |core| {
        // SAFETY: as above; this gives it up.
        drop(ManuallyDrop::into_inner(unsafe { borrowed(core) }));
    },
);

/// # Safety
/// `core` is the data of a waker, which owns a strong reference.
unsafe fn borrowed(core: *const ()) -> ManuallyDrop<CoreRef> {
    // SAFETY: it came from `into_raw`.
    ManuallyDrop::new(CoreRef(unsafe {
        NonNull::new_unchecked(core.cast_mut().cast())
    }))
}

/// A strong reference to a cell of a known actor type.
pub(crate) struct CellRef<A: Actor> {
    core: CoreRef,
    actor: PhantomData<fn() -> A>,
}

impl<A: Actor> CellRef<A> {
    /// Moves a cell to its final address.
    pub(crate) fn new(cell: Cell<A>) -> Self {
        let disposal = &DisposalOf::<A>::DISPOSAL;
        let place = match disposal.kind.and_then(memory::take) {
            Some(piece) => piece.cast::<Cell<A>>(),
            None => {
                // SAFETY: a cell is not zero-sized.
                let memory = unsafe { std::alloc::alloc(disposal.layout) };
                NonNull::new(memory.cast()).unwrap_or_else(|| handle_alloc_error(disposal.layout))
            }
        };
        // SAFETY: the memory is large enough, aligned and unused.
        let head = unsafe { cell.settle_in(place) };
        Self {
            core: CoreRef(head),
            actor: PhantomData,
        }
    }

    /// One more reference to a cell that is referenced already.
    #[inline]
    pub(crate) fn of(cell: &Cell<A>) -> Self {
        Self {
            core: CoreRef::of(cell.core()),
            actor: PhantomData,
        }
    }

    pub(crate) fn to_core_ref(&self) -> CoreRef {
        self.core.clone()
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.core.0 == other.core.0
    }

    pub(crate) fn downgrade(&self) -> WeakCell<A> {
        // Ordering: Relaxed: a new reference is made from one that exists.
        let before = self.core.counts().weak.fetch_add(1, Ordering::Relaxed);
        if before > REFERENCES_MAX {
            std::process::abort();
        }
        WeakCell {
            core: self.core.0,
            actor: PhantomData,
        }
    }
}

impl<A: Actor> Deref for CellRef<A> {
    type Target = Cell<A>;

    #[inline]
    fn deref(&self) -> &Cell<A> {
        // SAFETY: we hold a strong reference, and made it as one to a `Cell<A>`; head and cell begin
        // at the same address.
        unsafe { self.core.0.cast::<Cell<A>>().as_ref() }
    }
}

impl<A: Actor> Clone for CellRef<A> {
    #[inline]
    fn clone(&self) -> Self {
        Self {
            core: self.core.clone(),
            actor: PhantomData,
        }
    }
}

/// A reference that keeps a cell's memory, but not its contents.
pub(crate) struct WeakCell<A: Actor> {
    core: NonNull<Head>,
    actor: PhantomData<fn() -> A>,
}

// SAFETY: as for `CoreRef`.
unsafe impl<A: Actor> Send for WeakCell<A> {}
// SAFETY: as for `CoreRef`.
unsafe impl<A: Actor> Sync for WeakCell<A> {}

impl<A: Actor> WeakCell<A> {
    fn counts(&self) -> &Counts {
        // SAFETY: our weak reference keeps the memory, and the head is never dropped.
        unsafe { &self.core.as_ref().counts }
    }

    /// A strong reference, unless the last one was dropped.
    pub(crate) fn upgrade(&self) -> Option<CellRef<A>> {
        // Ordering: Acquire on success: as if made from an existing reference.
        self.counts()
            .strong
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |strong| {
                (strong > 0).then_some(strong + 1)
            })
            .ok()?;
        Some(CellRef {
            core: CoreRef(self.core),
            actor: PhantomData,
        })
    }
}

impl<A: Actor> Clone for WeakCell<A> {
    fn clone(&self) -> Self {
        // Ordering: Relaxed: a new reference is made from one that exists.
        let before = self.counts().weak.fetch_add(1, Ordering::Relaxed);
        if before > REFERENCES_MAX {
            std::process::abort();
        }
        Self {
            core: self.core,
            actor: PhantomData,
        }
    }
}

impl<A: Actor> Drop for WeakCell<A> {
    fn drop(&mut self) {
        // SAFETY: we own a weak reference.
        unsafe { release_weak(self.core) };
    }
}

impl<A: Actor> fmt::Debug for WeakCell<A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("WeakCell")
    }
}
