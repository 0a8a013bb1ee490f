//! The cell: everything that one actor is, in one allocation.
//!
//! ```text
//!   Cell<A>
//!   ┌ Core  (the same for every actor type)
//!   │   header      the scheduler's handle                     read only
//!   │   counts      references                                 everybody
//!   │   state       who may run it, and its signals            senders, worker
//!   │   mailbox     lanes; the first one begins here           senders | worker
//!   │   waiters, relations, gauges                             under their locks
//!   │   outbox      what this actor told full lanes            worker
//!   │ Body<A>       future, factory, life                      worker
//!   └ context, actor                                           handlers, lent by the worker
//! ```
//!
//! "Worker" is the one that moved the state word to running: it alone touches those fields. The
//! registry holds each living cell, so run queues may hold bare pointers to it; the last thing that
//! the worker does with an actor that ends is to take it from the registry.

use std::{
    cell::UnsafeCell,
    ptr::NonNull,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use freeboard_flow::{MailboxConfig, ShedReason};
use freeboard_meter::{ActorSnapshot, Histogram};
use freeboard_sched::{Header, Phase, RunState, Signals, Task, Wake};

use once_cell::race::OnceBox;

use crate::{
    actor::Actor,
    body::{Body, Factory},
    cell_ref::{CoreRef, Counts},
    context::Context,
    ended::{EndReason, Ended},
    envelope::Envelope,
    id::ActorId,
    mailbox::{Mailbox, Offer},
    options::SpawnOptions,
    outbox::Outbox,
    registry::Place,
    relations::Relations,
    supervision::Failure,
    sync::{AtomicBool, AtomicU8, AtomicU32, Ordering},
    system::SystemInner,
    waiters::Waiters,
};

/// End now; what is queued is shed.
pub(crate) const STOP: Signals = Signals::bit(1);
/// End once the mailbox, which is closed, is empty.
pub(crate) const DRAIN: Signals = Signals::bit(2);
/// The held future can go on.
pub(crate) const WAKE: Signals = Signals::bit(3);
/// A lane that this muted actor waits for has room, or its actor has ended.
pub(crate) const UNMUTE: Signals = Signals::bit(4);
/// Somebody waits for room in this actor's mailbox.
pub(crate) const WAITERS: Signals = Signals::bit(5);
/// An actor that this one watches has ended.
pub(crate) const NOTICE: Signals = Signals::bit(6);
/// The last child of this stopping actor has ended.
pub(crate) const CHILDREN_ENDED: Signals = Signals::bit(7);
/// The back-off before a restart is over.
pub(crate) const RESUME: Signals = Signals::bit(8);
/// A child gave its failure on.
pub(crate) const ESCALATED: Signals = Signals::bit(9);

#[repr(C)]
pub(crate) struct Core {
    header: Header,
    counts: Counts,
    pub(crate) state: RunState,
    restarts: AtomicU32,
    id: ActorId,
    place: Place,
    pub(crate) system: Arc<SystemInner>,
    /// Begins a cache line: all above is read by senders, and seldom written.
    pub(crate) mailbox: Mailbox,
    /// `None` for the system's defaults.
    options: Option<Box<SpawnOptions>>,
    type_name: fn() -> &'static str,
    parent: Option<CoreRef>,
    pub(crate) waiters: Waiters,
    relations: Mutex<Option<Box<Relations>>>,
    /// Children that come now would be awaited by nobody; written before the relations are read.
    takes_no_children: AtomicBool,
    /// 0 while the actor lives, then its [`EndReason`] plus 1; changed under the relations' lock.
    end_reason: AtomicU8,
    handling: OnceBox<Histogram>,
    outbox: UnsafeCell<Option<Box<Outbox>>>,
}

const _: () = assert!(
    std::mem::offset_of!(Core, mailbox) == 64,
    "the first lane begins a cache line"
);

/// Everything a cell is made of but its actor.
pub(crate) struct Birth {
    pub(crate) id: ActorId,
    pub(crate) place: Place,
    pub(crate) system: Arc<SystemInner>,
    pub(crate) options: Option<Box<SpawnOptions>>,
    pub(crate) parent: Option<CoreRef>,
}

#[repr(C, align(64))]
pub(crate) struct Cell<A: Actor> {
    core: Core,
    body: UnsafeCell<Body<A>>,
    context: UnsafeCell<Context<A>>,
    actor: UnsafeCell<Option<A>>,
}

// SAFETY: all is `Sync` but the outbox, which only the thread that runs the actor touches.
unsafe impl Sync for Core {}

// SAFETY: the body and the outbox are touched only by the thread that moved the state word to
// running, one at a time, and hold only what is `Send` (`A` is); the rest is `Sync`.
unsafe impl<A: Actor> Sync for Cell<A> {}
// SAFETY: as above.
unsafe impl<A: Actor> Send for Cell<A> {}

impl<A: Actor> Cell<A> {
    pub(crate) fn new(birth: Birth, actor: Option<A>, factory: Option<Factory<A>>) -> Self {
        let options = birth.options.as_deref();
        let is_pinned = options.is_some_and(|options| options.pinned.is_some());
        let (vtable, make_mailbox): (_, fn(&MailboxConfig) -> Mailbox) = if is_pinned {
            (Self::PINNED_VTABLE, Mailbox::ringed)
        } else {
            (Self::VTABLE, Mailbox::new)
        };
        let options = options.unwrap_or(&birth.system.default_options);
        let mailbox = make_mailbox(&options.mailbox);
        Self {
            core: Core {
                header: Header::new(vtable),
                counts: Counts::new::<A>(),
                state: RunState::new_queued(),
                restarts: AtomicU32::new(0),
                mailbox,
                id: birth.id,
                place: birth.place,
                system: birth.system,
                options: birth.options,
                type_name: std::any::type_name::<A>,
                parent: birth.parent,
                waiters: Waiters::default(),
                relations: Mutex::new(None),
                takes_no_children: AtomicBool::new(false),
                end_reason: AtomicU8::new(0),
                handling: OnceBox::new(),
                outbox: UnsafeCell::new(None),
            },
            body: UnsafeCell::new(Body::new(factory)),
            context: UnsafeCell::new(Context::new()),
            actor: UnsafeCell::new(actor),
        }
    }

    /// The cell that a task of this actor type is the header of.
    ///
    /// # Safety
    /// The task came from [`Core::task`] of a living `Cell<A>`.
    pub(crate) unsafe fn from_task<'a>(task: Task) -> &'a Self {
        // SAFETY: header, core and cell are `repr(C)` and begin at the same address.
        unsafe { task.header().cast::<Self>().as_ref() }
    }

    /// Whoever runs the actor may use it.
    pub(crate) fn body(&self) -> *mut Body<A> {
        self.body.get()
    }

    /// As [`Cell::body`], while no handler and no held future borrows it.
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
    /// If there is no actor: it is made before the first message and again after each failure.
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

impl<A: Actor> Drop for Cell<A> {
    fn drop(&mut self) {
        // The future borrows the actor and the context, and may use the core: it goes first.
        self.body.get_mut().drop_held();
    }
}

impl Core {
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Where a core's counts are, also when its contents have been dropped.
    ///
    /// # Safety
    /// The memory of the cell has not been freed.
    pub(crate) unsafe fn counts_of(core: NonNull<Self>) -> *const Counts {
        // SAFETY: within the cell's memory.
        unsafe { &raw const (*core.as_ptr()).counts }
    }

    pub(crate) fn id(&self) -> ActorId {
        self.id
    }

    pub(crate) fn place(&self) -> Place {
        self.place
    }

    pub(crate) fn type_name(&self) -> &'static str {
        (self.type_name)()
    }

    pub(crate) fn options(&self) -> &SpawnOptions {
        self.options
            .as_deref()
            .unwrap_or(&self.system.default_options)
    }

    #[inline]
    pub(crate) fn config(&self) -> &MailboxConfig {
        &self.options().mailbox
    }

    pub(crate) fn parent(&self) -> Option<&CoreRef> {
        self.parent.as_ref()
    }

    /// The scheduler's handle of this cell.
    pub(crate) fn task(&self) -> Task {
        // SAFETY: the header is the first field of the cell, which the registry keeps alive until it
        // has ended; the state word keeps it from being scheduled twice.
        unsafe { Task::from_header(NonNull::from(&self.header)) }
    }

    /// Puts the task, whose state word was just moved to queued, where it will be run.
    #[inline]
    pub(crate) fn enqueue(&self) {
        if self.header.is_pinned() {
            self.enqueue_pinned();
        } else {
            self.system.scheduler.schedule(self.task());
        }
    }

    fn enqueue_pinned(&self) {
        let pinned = self.options().pinned.as_ref();
        pinned
            .expect("a pinned actor has its thread")
            .schedule(self.task());
    }

    pub(crate) fn signal(&self, signals: Signals) {
        if self.state.signal(signals) == Wake::Enqueue {
            self.enqueue();
        }
    }

    /// After a message was accepted: schedules the actor if it is idle.
    #[inline]
    pub(crate) fn announce(&self) {
        if self.state.notify() == Wake::Enqueue {
            self.enqueue();
        }
    }

    /// Puts an envelope into a lane below the lane count, by its policy; schedules the actor if it
    /// is idle. Counts what is refused or shed, and buries the latter.
    pub(crate) fn offer(&self, lane: usize, envelope: Envelope) -> Result<(), Unaccepted> {
        let offer = self.mailbox.offer(lane, envelope, || self.config());
        if let Offer::Accepted = offer {
            self.announce();
            return Ok(());
        }
        self.offered(lane, offer)
    }

    #[cold]
    fn offered(&self, lane: usize, offer: Offer) -> Result<(), Unaccepted> {
        match offer {
            Offer::Accepted => Ok(()),
            Offer::AcceptedShedding(shed, reason) => {
                self.announce();
                self.shed(lane, shed, reason);
                Ok(())
            }
            Offer::Shed(shed, reason) => {
                self.shed(lane, shed, reason);
                Ok(())
            }
            Offer::Wait(envelope) => Err(Unaccepted::Wait(envelope)),
            Offer::Full(envelope) => {
                self.count_shed(lane, ShedReason::Full);
                Err(Unaccepted::Full(envelope))
            }
            Offer::Closed(envelope) => Err(Unaccepted::Closed(envelope)),
        }
    }

    pub(crate) fn count_shed(&self, lane: usize, reason: ShedReason) {
        if let Some(lane) = self.mailbox.used_lane(lane) {
            lane.gauges.count_shed(reason);
        }
    }

    /// Counts a message of this mailbox that nobody will handle, and buries it.
    pub(crate) fn shed(&self, lane: usize, envelope: Envelope, reason: ShedReason) {
        self.count_shed(lane, reason);
        self.system.dead_letters.bury(self, envelope, reason);
    }

    /// What [`Core::offer`] did not accept, and no sender is there to take back.
    pub(crate) fn shed_refused(&self, lane: usize, refused: Unaccepted) {
        match refused {
            Unaccepted::Wait(envelope) => self.shed(lane, envelope, ShedReason::Full),
            // Counted when it was refused.
            Unaccepted::Full(envelope) => {
                self.system
                    .dead_letters
                    .bury(self, envelope, ShedReason::Full);
            }
            Unaccepted::Closed(envelope) => self.shed(lane, envelope, ShedReason::Stopped),
        }
    }

    pub(crate) fn lock_relations(&self) -> MutexGuard<'_, Option<Box<Relations>>> {
        self.relations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// What the actor told full lanes.
    ///
    /// # Safety
    /// The caller runs the actor (on this thread, at this moment).
    pub(crate) unsafe fn outbox(&self) -> *mut Option<Box<Outbox>> {
        self.outbox.get()
    }

    pub(crate) fn end_reason(&self) -> Option<EndReason> {
        // Ordering: Acquire pairs with the Release in `set_ended`: what the actor did is done.
        let code = self.end_reason.load(Ordering::Acquire);
        let index = usize::from(code).checked_sub(1)?;
        EndReason::ALL.get(index).copied()
    }

    pub(crate) fn take_no_children(&self) {
        // Ordering: Relaxed, the relations' lock orders it: see `adopt`.
        self.takes_no_children.store(true, Ordering::Relaxed);
    }

    /// Enters a child among this actor's children; `false` if it has ended or is about to.
    pub(crate) fn adopt(&self, child: &Core) -> bool {
        let mut relations = self.lock_relations();
        // Ordering: Relaxed: whoever stops this actor sets it before it locks the relations to look
        // for children. If we lock first it finds the child; if it does, we see the flag.
        if self.takes_no_children.load(Ordering::Relaxed) {
            return false;
        }
        let children = &mut relations.get_or_insert_default().children;
        children.insert(child.id(), CoreRef::of(child));
        true
    }

    /// Call with the relations locked.
    pub(crate) fn set_ended(&self, reason: EndReason) {
        let index = EndReason::ALL.iter().position(|each| *each == reason);
        let code = index.map_or(1, |index| index as u8 + 1);
        // Ordering: Release, as in `end_reason`.
        self.end_reason.store(code, Ordering::Release);
    }

    pub(crate) fn ended(&self, reason: EndReason) -> Ended {
        Ended {
            actor: self.id,
            name: self.options().name.as_deref().map(str::to_owned),
            reason,
        }
    }

    /// Takes no further message.
    pub(crate) fn close_mailbox(&self) {
        self.mailbox.close(self.config());
    }

    /// Takes no further message, and ends once those it has are handled.
    pub(crate) fn drain(&self) {
        self.close_mailbox();
        self.signal(DRAIN);
    }

    /// Something to be handled next, past the mailbox. The caller answers for its being bounded.
    pub(crate) fn notify(&self, notice: Envelope) {
        self.lock_relations()
            .get_or_insert_default()
            .notices
            .push_back(notice);
        self.signal(NOTICE);
    }

    /// A child's failure that its supervisor gave on.
    pub(crate) fn escalate(&self, failure: Failure) {
        self.lock_relations()
            .get_or_insert_default()
            .escalated
            .push(failure);
        self.signal(ESCALATED);
    }

    pub(crate) fn restarts(&self) -> u32 {
        // Ordering: Relaxed, a statistic; only the worker writes it.
        self.restarts.load(Ordering::Relaxed)
    }

    pub(crate) fn count_restart(&self) {
        // Ordering: Relaxed, as in `restarts`.
        self.restarts.fetch_add(1, Ordering::Relaxed);
    }

    /// Only whoever runs the actor records.
    pub(crate) fn record_handling(&self, time_ns: u64) {
        self.handling
            .get_or_init(|| Box::new(Histogram::new()))
            .record(time_ns);
    }

    pub(crate) fn snapshot(&self) -> ActorSnapshot {
        let phase = self.state.phase();
        ActorSnapshot {
            id: self.id.get(),
            name: self.options().name.as_deref().map(str::to_owned),
            actor_type: self.type_name().to_owned(),
            state: state_name(phase).to_owned(),
            restarts: u64::from(self.restarts()),
            lanes: self
                .mailbox
                .snapshot(self.config(), phase == Phase::Running),
            handling: self.handling().map(Histogram::summary),
        }
    }

    /// How long its handlers took, once any was measured.
    pub(crate) fn handling(&self) -> Option<&Histogram> {
        self.handling.get()
    }
}

/// The word for it in snapshots.
pub(crate) const fn state_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Idle => "idle",
        Phase::Queued => "queued",
        Phase::Running => "running",
        Phase::Held => "held",
        Phase::Ended => "ended",
    }
}

/// An envelope that a mailbox did not accept; the sender has it still.
pub(crate) enum Unaccepted {
    /// The policy says to wait for room.
    Wait(Envelope),
    /// Refused, and counted as such.
    Full(Envelope),
    /// The actor takes no further messages.
    Closed(Envelope),
}
