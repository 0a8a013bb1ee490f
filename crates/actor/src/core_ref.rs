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
    any::TypeId,
    mem::ManuallyDrop,
    ops::Deref,
    ptr::NonNull,
    task::{RawWaker, RawWakerVTable, Waker},
};

use freeboard_sched::{Header, Vtable};

use crate::{
    core::{self, Core},
    sync::{AtomicU32, Ordering, fence},
};

/// Counts beyond this end the process, long before they could wrap.
const REFERENCES_MAX: u32 = i32::MAX as u32;

/// How to terminate, drop and free a cell of one actor type.
pub(crate) struct Disposal {
    /// The actor's type.
    pub(crate) type_id: fn() -> TypeId,
    pub(crate) type_name: fn() -> &'static str,
    /// Terminates an actor that no worker will run again.
    ///
    /// # Safety
    /// As `life::abandon`.
    pub(crate) abandon: unsafe fn(NonNull<Head>),
    /// Whether a ring of a producer has messages.
    ///
    /// # Safety
    /// The caller is the only thread that runs this actor, and does not run it now.
    #[cfg(feature = "testing")]
    pub(crate) has_ready_inlet: unsafe fn(NonNull<Head>) -> bool,
    /// # Safety
    /// Nobody refers to the contents any more.
    pub(crate) drop_contents: unsafe fn(NonNull<Head>),
    /// # Safety
    /// Nobody refers to the memory any more.
    pub(crate) free: unsafe fn(NonNull<Head>),
}

/// The part of a cell that outlives its contents: weak references read the counts while the rest is dropped.
#[repr(C)]
pub(crate) struct Head {
    header: Header,
    strong: AtomicU32,
    weak: AtomicU32,
    disposal: &'static Disposal,
}

impl Head {
    /// A head with one strong reference, which the caller creates.
    pub(crate) fn new(vtable: &'static Vtable, disposal: &'static Disposal) -> Self {
        Self {
            header: Header::new(vtable),
            strong: AtomicU32::new(1),
            weak: AtomicU32::new(1),
            disposal,
        }
    }

    /// The scheduler's handle.
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// The actor type's name.
    pub(crate) fn type_name(&self) -> &'static str {
        (self.disposal.type_name)()
    }
}

const _: () = assert!(!std::mem::needs_drop::<Head>());

/// A strong reference to a cell of any actor type.
pub(crate) struct CoreRef(NonNull<Head>);

// SAFETY: cells are `Send` and `Sync` (see `cell`), and the counts are atomic.
unsafe impl Send for CoreRef {}
// SAFETY: as above.
unsafe impl Sync for CoreRef {}

impl CoreRef {
    /// The first reference to a new cell, or one that was given up by [`CoreRef::into_head`].
    ///
    /// # Safety
    /// The head is a new cell's, or was returned by `into_head`; called once for it.
    pub(crate) unsafe fn first(head: NonNull<Head>) -> Self {
        Self(head)
    }

    /// One more reference to a cell that is referenced already.
    #[inline]
    pub(crate) fn of(core: &Core) -> Self {
        let head = core.own();
        // SAFETY: another reference holds the cell, and with it the head.
        let strong = unsafe { &head.as_ref().strong };
        // Ordering: Relaxed: a new reference is made from one that exists.
        if strong.fetch_add(1, Ordering::Relaxed) > REFERENCES_MAX {
            std::process::abort();
        }
        Self(head)
    }

    /// One more reference to a cell that is referenced already.
    ///
    /// # Safety
    /// The head is a copy of the cell's `own`, and another reference holds the cell.
    pub(crate) unsafe fn of_head(head: NonNull<Head>) -> Self {
        // SAFETY: the caller's promise.
        Self::of(unsafe { Core::of_head(head) })
    }

    /// The pointer, with the reference: [`CoreRef::first`] takes it back.
    pub(crate) fn into_head(self) -> NonNull<Head> {
        ManuallyDrop::new(self).0
    }

    /// The pointer that all references to the cell are copies of.
    #[inline]
    pub(crate) fn head_pointer(&self) -> NonNull<Head> {
        self.0
    }

    fn head(&self) -> &Head {
        // SAFETY: we hold a strong reference.
        unsafe { self.0.as_ref() }
    }

    /// The actor's type.
    pub(crate) fn type_id(&self) -> TypeId {
        (self.head().disposal.type_id)()
    }

    /// Terminates an actor that no worker will run again.
    ///
    /// # Safety
    /// As `life::abandon`.
    pub(crate) unsafe fn abandon(&self) {
        // SAFETY: the caller's promise.
        unsafe { (self.head().disposal.abandon)(self.0) };
    }

    /// # Safety
    /// As [`Disposal::has_ready_inlet`].
    #[cfg(feature = "testing")]
    pub(crate) unsafe fn has_ready_inlet(&self) -> bool {
        // SAFETY: the caller's promise.
        unsafe { (self.head().disposal.has_ready_inlet)(self.0) }
    }

    pub(crate) fn downgrade(&self) -> WeakCore {
        // Ordering: Relaxed: a new reference is made from one that exists.
        if self.head().weak.fetch_add(1, Ordering::Relaxed) > REFERENCES_MAX {
            std::process::abort();
        }
        WeakCore(self.0)
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
        if self.head().strong.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        fence(Ordering::Acquire);
        // SAFETY: that was the last strong reference; the weak one of all strong ones, given back when `_weak` is
        // dropped, keeps the memory until then.
        unsafe {
            let _weak = WeakCore(self.0);
            (self.head().disposal.drop_contents)(self.0);
        }
    }
}

/// A reference that keeps a cell's memory, but not its contents.
pub(crate) struct WeakCore(NonNull<Head>);

// SAFETY: as for `CoreRef`.
unsafe impl Send for WeakCore {}
// SAFETY: as for `CoreRef`.
unsafe impl Sync for WeakCore {}

impl WeakCore {
    fn head(&self) -> &Head {
        // SAFETY: our weak reference keeps the memory, and the head is never dropped.
        unsafe { self.0.as_ref() }
    }

    /// A strong reference, unless the last one was dropped.
    pub(crate) fn upgrade(&self) -> Option<CoreRef> {
        // Ordering: Acquire on success: as if made from an existing reference.
        self.head()
            .strong
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |strong| {
                (strong > 0).then_some(strong + 1)
            })
            .ok()?;
        Some(CoreRef(self.0))
    }
}

impl Clone for WeakCore {
    fn clone(&self) -> Self {
        // Ordering: Relaxed: a new reference is made from one that exists.
        if self.head().weak.fetch_add(1, Ordering::Relaxed) > REFERENCES_MAX {
            std::process::abort();
        }
        Self(self.0)
    }
}

impl Drop for WeakCore {
    fn drop(&mut self) {
        // Ordering: Release/Acquire, as for strong ones.
        if self.head().weak.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            // SAFETY: nobody refers to the memory any more.
            unsafe { (self.head().disposal.free)(self.0) };
        }
    }
}

static WAKER: RawWakerVTable = RawWakerVTable::new(
    |core| {
        // SAFETY: the waker owns a strong reference.
        let owner = unsafe { borrowed(core) };
        let cloned = CoreRef::clone(&owner);
        RawWaker::new(ManuallyDrop::new(cloned).0.as_ptr().cast(), &WAKER)
    },
    |core| {
        // SAFETY: as above; this gives it up.
        let owner = ManuallyDrop::into_inner(unsafe { borrowed(core) });
        owner.signal(core::WAKE);
    },
    |core| {
        // SAFETY: as above.
        unsafe { borrowed(core) }.signal(core::WAKE);
    },
    |core| {
        // SAFETY: as above; this gives it up.
        drop(ManuallyDrop::into_inner(unsafe { borrowed(core) }));
    },
);

/// # Safety
/// `core` is the data of a waker, which owns a strong reference.
unsafe fn borrowed(core: *const ()) -> ManuallyDrop<CoreRef> {
    // SAFETY: it is a copy of a reference's pointer.
    ManuallyDrop::new(CoreRef(unsafe {
        NonNull::new_unchecked(core.cast_mut().cast())
    }))
}
