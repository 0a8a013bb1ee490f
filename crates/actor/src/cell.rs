//! The cell: one actor in one allocation.
//!
//! ```text
//!   Cell<A>
//!   ┌ Head  (never dropped, only freed)
//!   │   header      the scheduler's handle                     read only
//!   │   counts      references                                 everybody
//!   │ Core  (the same for every actor type)
//!   │   own         the allocation's pointer, to be copied     read only
//!   │   state       who may run it, and its signals            senders, worker
//!   │   mailbox     lanes; the first one begins here           senders | worker
//!   │   waiters, relations, gauges                             under their locks
//!   │   outbox      messages to full lanes                     worker
//!   │ Body<A>       future, factory, life                      worker
//!   └ context, actor                                           handlers, lent by the worker
//! ```
//!
//! "Worker" is the thread that moved the state word to running: it alone accesses those fields. The
//! registry holds each living cell, so run queues may hold bare pointers to it. The worker removes a
//! terminated actor from the registry as its last step.
//!
//! References and tasks are copies of `own`, the pointer from the allocation. It has provenance over the whole
//! cell; a pointer made from a `&Core` has not.

use std::{any::TypeId, cell::UnsafeCell, marker::PhantomData, ops::Deref, ptr::NonNull};

use freeboard_queue::memory;
use freeboard_sched::{Task, Vtable};

use crate::{
    actor::Actor,
    catch_panic,
    context::Context,
    core::{CellParts, Core},
    core_ref::{CoreRef, Disposal, Head, WeakCore},
    life,
    mailbox::Mailbox,
    run::{self, Body, TryFactory},
};

#[repr(C, align(64))]
pub(crate) struct Cell<A: Actor> {
    head: Head,
    core: Core,
    body: UnsafeCell<Body<A>>,
    context: UnsafeCell<Context<A>>,
    actor: UnsafeCell<Option<A>>,
}

// SAFETY: the body and the outbox are touched only by the thread that moved the state word to
// running, one at a time, and hold only what is `Send` (`A` is); the rest is `Sync`.
unsafe impl<A: Actor> Sync for Cell<A> {}
// SAFETY: as above.
unsafe impl<A: Actor> Send for Cell<A> {}

impl<A: Actor> Cell<A> {
    const VTABLE: &'static Vtable = &Vtable {
        run: run::run::<A>,
        is_pinned: false,
    };
    const PINNED_VTABLE: &'static Vtable = &Vtable {
        run: run::run::<A>,
        is_pinned: true,
    };

    pub(crate) fn new(parts: CellParts, actor: Option<A>, factory: Option<TryFactory<A>>) -> Self {
        const { CoreFollowsHead::<A>::CHECKED };
        let options = parts.options.as_deref();
        let is_pinned = options.is_some_and(|options| options.pinned.is_some());
        let vtable = if is_pinned {
            Self::PINNED_VTABLE
        } else {
            Self::VTABLE
        };
        let options = options.unwrap_or(&parts.system.default_options);
        let mailbox = Mailbox::new(&options.mailbox, is_pinned);
        Self {
            head: Head::new(vtable, &Self::DISPOSAL),
            core: Core::new(parts, mailbox),
            body: UnsafeCell::new(Body::new(factory)),
            context: UnsafeCell::new(Context::new()),
            actor: UnsafeCell::new(actor),
        }
    }

    /// For heads of a `Cell<A>`: head and cell begin at the same address (`repr(C)`).
    const DISPOSAL: Disposal = Disposal {
        type_id: TypeId::of::<A>,
        type_name: std::any::type_name::<A>,
        // SAFETY: the caller's promise.
        abandon: |head| unsafe { life::abandon(head.cast::<Self>().as_ref()) },
        // SAFETY: the caller's promise.
        #[cfg(feature = "testing")]
        has_ready_inlet: |head| unsafe { (*head.cast::<Self>().as_ref().body()).has_ready_inlet() },
        drop_contents: Self::drop_contents,
        // SAFETY: `CellRef::new` allocated the memory; the caller's promise.
        free: |head| unsafe { memory::free(head.cast::<Self>()) },
    };

    /// The cell that a task of this actor type is the header of.
    ///
    /// # Safety
    /// The task came from [`Core::task`] of a living `Cell<A>`.
    pub(crate) unsafe fn from_task<'a>(task: Task) -> &'a Self {
        // SAFETY: header, head and cell are `repr(C)` and begin at the same address; the task is a copy of `own`.
        unsafe { task.header().cast::<Self>().as_ref() }
    }

    /// Drops all but the head. The suspended future goes first: it borrows the actor and the context.
    ///
    /// # Safety
    /// The head belongs to a `Cell<A>`, and no reference to its contents is left.
    unsafe fn drop_contents(head: NonNull<Head>) {
        let cell = head.cast::<Self>().as_ptr();
        // SAFETY: the caller's promise; each field is dropped once, and the head not at all.
        unsafe {
            catch_panic::call(|| (*cell).body.get_mut().drop_suspended());
            catch_panic::call(|| (&raw mut (*cell).actor).drop_in_place());
            catch_panic::call(|| (&raw mut (*cell).context).drop_in_place());
            catch_panic::call(|| (&raw mut (*cell).body).drop_in_place());
            catch_panic::call(|| (&raw mut (*cell).core).drop_in_place());
        }
    }

    /// Only the thread that runs the actor may use it.
    pub(crate) fn body(&self) -> *mut Body<A> {
        self.body.get()
    }

    pub(crate) fn body_mut(&mut self) -> &mut Body<A> {
        self.body.get_mut()
    }

    /// As [`Cell::body`], while no handler and no suspended future borrows it.
    #[inline]
    pub(crate) fn context(&self) -> *mut Context<A> {
        self.context.get()
    }

    /// As [`Cell::context`].
    pub(crate) fn actor(&self) -> *mut Option<A> {
        self.actor.get()
    }

    /// The actor itself, untyped, for an envelope.
    ///
    /// # Safety
    /// The caller runs the actor, and nothing borrows it.
    ///
    /// # Panics
    /// If there is no actor: it is created before the first message and again after each failure.
    #[inline]
    pub(crate) unsafe fn actor_pointer(&self) -> *mut () {
        // SAFETY: the caller's promise.
        let actor = unsafe { (*self.actor.get()).as_mut() };
        let actor = actor.expect("an active body has its actor");
        std::ptr::from_mut(actor).cast()
    }

    #[inline]
    pub(crate) fn core(&self) -> &Core {
        &self.core
    }
}

/// In every cell the core follows the head: [`Core::of_head`] relies on it.
struct CoreFollowsHead<A>(std::marker::PhantomData<A>);

impl<A: Actor> CoreFollowsHead<A> {
    const CHECKED: () = assert!(std::mem::offset_of!(Cell<A>, core) == size_of::<Head>());
}

/// A strong reference to a cell of a known actor type.
pub(crate) struct CellRef<A: Actor> {
    core: CoreRef,
    actor: PhantomData<fn() -> A>,
}

impl<A: Actor> CellRef<A> {
    /// Moves a cell to its final address.
    pub(crate) fn new(mut cell: Cell<A>) -> Self {
        let memory = memory::allocate::<Cell<A>>();
        cell.core.set_own(memory.cast());
        // SAFETY: the memory is large enough, aligned and unused; the cell is new.
        unsafe {
            memory.write(cell);
            Self::of_core(CoreRef::first(memory.cast()))
        }
    }

    /// # Safety
    /// The core is that of a `Cell<A>`.
    unsafe fn of_core(core: CoreRef) -> Self {
        Self {
            core,
            actor: PhantomData,
        }
    }

    /// One more reference to a cell that is referenced already.
    #[inline]
    pub(crate) fn of(cell: &Cell<A>) -> Self {
        // SAFETY: it is a `Cell<A>`'s.
        unsafe { Self::of_core(CoreRef::of(cell.core())) }
    }

    /// The typed reference, if the actor is of type `A`.
    pub(crate) fn downcast(core: &CoreRef) -> Option<Self> {
        let is_type = core.type_id() == TypeId::of::<A>();
        // SAFETY: the cell says that it is a `Cell<A>`.
        is_type.then(|| unsafe { Self::of_core(core.clone()) })
    }

    pub(crate) fn core_ref(&self) -> &CoreRef {
        &self.core
    }

    pub(crate) fn downgrade(&self) -> WeakCell<A> {
        WeakCell {
            core: self.core.downgrade(),
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
        unsafe { self.core.head_pointer().cast::<Cell<A>>().as_ref() }
    }
}

impl<A: Actor> Clone for CellRef<A> {
    #[inline]
    fn clone(&self) -> Self {
        Self::of(self)
    }
}

/// A reference that keeps a cell's memory, but not its contents.
pub(crate) struct WeakCell<A: Actor> {
    core: WeakCore,
    actor: PhantomData<fn() -> A>,
}

impl<A: Actor> WeakCell<A> {
    /// A strong reference, unless the last one was dropped.
    pub(crate) fn upgrade(&self) -> Option<CellRef<A>> {
        // SAFETY: it is a `Cell<A>`'s.
        Some(unsafe { CellRef::of_core(self.core.upgrade()?) })
    }
}

impl<A: Actor> Clone for WeakCell<A> {
    fn clone(&self) -> Self {
        Self {
            core: self.core.clone(),
            actor: PhantomData,
        }
    }
}

#[cfg(all(test, target_pointer_width = "64", not(loom)))]
mod tests {
    use super::*;

    #[expect(dead_code, reason = "its size counts")]
    struct Small([u64; 2]);

    impl Actor for Small {}

    /// A million idle actors are a promise; all features are part of it.
    #[test]
    fn a_small_actor_takes_seven_cache_lines() {
        assert!(
            size_of::<Cell<Small>>() <= 7 * 64,
            "{}",
            size_of::<Cell<Small>>()
        );
    }
}
