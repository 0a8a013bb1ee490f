//! The core of a cell: what is the same for every actor type, and what others do with it.

use std::{
    cell::UnsafeCell,
    ptr::NonNull,
    sync::{Arc, Mutex},
};

use freeboard_flow::{LaneConfig, MailboxConfig, ShedReason};
use freeboard_meter::{ActorSnapshot, Histogram};
use freeboard_sched::{Header, Phase, RunState, Signals, Task, Vtable, Wake};
use once_cell::race::OnceBox;

use crate::{
    actor::Actor,
    cell_ref::{CoreRef, Counts},
    envelope::Envelope,
    id::ActorId,
    mailbox::{Mailbox, Offer},
    options::SpawnOptions,
    outbox::Outbox,
    registry::Place,
    relations::Relations,
    sync::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering},
    system::SystemInner,
    terminated::{ExitReason, Terminated},
    waiters::Waiters,
};

/// End now; what is queued is shed.
pub(crate) const STOP: Signals = Signals::bit(1);
/// End once the mailbox, which is closed, is empty.
pub(crate) const DRAIN: Signals = Signals::bit(2);
/// The held future can go on.
pub(crate) const WAKE: Signals = Signals::bit(3);
/// A lane that this actor waits for lets it in, or its actor has ended.
pub(crate) const UNMUTE: Signals = Signals::bit(4);
/// Somebody waits for capacity in this actor's mailbox.
pub(crate) const WAITERS: Signals = Signals::bit(5);
/// An actor that this one watches has ended.
pub(crate) const NOTICE: Signals = Signals::bit(6);
/// The last child of this stopping actor has ended.
pub(crate) const CHILDREN_ENDED: Signals = Signals::bit(7);
/// The back-off before a restart is over.
pub(crate) const RESUME: Signals = Signals::bit(8);
/// A child gave its failure on.
pub(crate) const ESCALATED: Signals = Signals::bit(9);
/// The shutdown deadline has passed: a terminated actor sends no more of its outbox.
pub(crate) const ABANDON: Signals = Signals::bit(10);

/// The part of a cell that outlives its contents: weak references read the counts while the rest is dropped.
#[repr(C)]
pub(crate) struct Head {
    header: Header,
    pub(crate) counts: Counts,
}

impl Head {
    pub(crate) fn new<A: Actor>(vtable: &'static Vtable) -> Self {
        Self {
            header: Header::new(vtable),
            counts: Counts::new::<A>(),
        }
    }
}

const _: () = assert!(!std::mem::needs_drop::<Head>());

#[repr(C)]
pub(crate) struct Core {
    own: NonNull<Head>,
    pub(crate) state: RunState,
    /// In the registry's shard of this id.
    slot: AtomicU32,
    id: ActorId,
    pub(crate) system: Arc<SystemInner>,
    /// Begins a cache line: all above is read by senders, and seldom written.
    pub(crate) mailbox: Mailbox,
    /// `None` for the system's defaults.
    options: Option<Box<SpawnOptions>>,
    type_name: fn() -> &'static str,
    parent: Option<CoreRef>,
    pub(crate) waiters: Waiters,
    pub(crate) relations: Mutex<Option<Box<Relations>>>,
    /// Children that come now would be awaited by nobody; written before the relations are read.
    pub(crate) takes_no_children: AtomicBool,
    /// 0 while the actor lives, then its [`ExitReason`] plus 1; changed under the relations' lock.
    end_reason: AtomicU8,
    restarts: AtomicU32,
    /// Whose reply the actor waits for, 0 for nobody's.
    asking: AtomicU64,
    handling: OnceBox<Histogram>,
    outbox: UnsafeCell<Option<Box<Outbox>>>,
}

#[cfg(not(loom))]
const _: () = assert!(
    size_of::<Head>() + std::mem::offset_of!(Core, mailbox) == 64,
    "the first lane begins a cache line"
);

/// Everything a cell is made of but its actor.
pub(crate) struct Birth {
    pub(crate) id: ActorId,
    pub(crate) system: Arc<SystemInner>,
    pub(crate) options: Option<Box<SpawnOptions>>,
    pub(crate) parent: Option<CoreRef>,
}

// SAFETY: all is `Sync` but the outbox, which only the thread that runs the actor touches; `own` is only copied.
unsafe impl Sync for Core {}
// SAFETY: as above; the outbox holds only what is `Send`.
unsafe impl Send for Core {}

impl Core {
    pub(crate) fn new(birth: Birth, mailbox: Mailbox, type_name: fn() -> &'static str) -> Self {
        Self {
            own: NonNull::dangling(),
            state: RunState::new_queued(),
            slot: AtomicU32::new(u32::MAX),
            id: birth.id,
            system: birth.system,
            mailbox,
            options: birth.options,
            type_name,
            parent: birth.parent,
            waiters: Waiters::default(),
            relations: Mutex::new(None),
            takes_no_children: AtomicBool::new(false),
            end_reason: AtomicU8::new(0),
            restarts: AtomicU32::new(0),
            asking: AtomicU64::new(0),
            handling: OnceBox::new(),
            outbox: UnsafeCell::new(None),
        }
    }

    /// Call once, before anybody else sees the cell.
    pub(crate) fn set_own(&mut self, own: NonNull<Head>) {
        self.own = own;
    }

    /// The core of the cell with this head.
    ///
    /// # Safety
    /// The head is a copy of some cell's `own`, and the contents have not been dropped.
    #[inline(always)]
    pub(crate) unsafe fn of_head<'a>(head: NonNull<Head>) -> &'a Self {
        // SAFETY: the core follows the head without a gap, whatever the actor type: see the assertion below.
        unsafe { head.add(1).cast::<Self>().as_ref() }
    }

    /// The pointer that references to this cell are copies of.
    #[inline(always)]
    pub(crate) fn own(&self) -> NonNull<Head> {
        self.own
    }

    fn header(&self) -> &Header {
        // SAFETY: the head lives as long as the core.
        unsafe { &self.own.as_ref().header }
    }

    pub(crate) fn id(&self) -> ActorId {
        self.id
    }

    /// Where the registry keeps the cell.
    pub(crate) fn place(&self) -> Place {
        // Ordering: Relaxed: written once, under the shard's lock, before the actor is scheduled.
        Place::new(self.id, self.slot.load(Ordering::Relaxed))
    }

    /// Call once, under the shard's lock.
    pub(crate) fn set_slot(&self, slot: u32) {
        // Ordering: Relaxed, as in `place`.
        self.slot.store(slot, Ordering::Relaxed);
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

    /// Call with a lane below the lane count.
    pub(crate) fn lane_config(&self, lane: usize) -> &LaneConfig {
        &self.config().as_slice()[lane]
    }

    pub(crate) fn parent(&self) -> Option<&CoreRef> {
        self.parent.as_ref()
    }

    /// The scheduler's handle of this cell.
    pub(crate) fn task(&self) -> Task {
        // SAFETY: the header is the first field of the cell, which the registry keeps alive until it
        // has ended; the state word keeps it from being scheduled twice.
        unsafe { Task::from_header(self.own.cast()) }
    }

    /// Puts the task, whose state word was just moved to queued, where it will be run.
    #[inline]
    pub(crate) fn enqueue(&self) {
        if self.header().is_pinned() {
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
        let offer = self
            .mailbox
            .lane(lane)
            .offer(envelope, || self.lane_config(lane));
        if let Offer::Accepted = offer {
            self.announce();
            return Ok(());
        }
        self.offered(lane, offer)
    }

    /// As [`Core::offer`], for a sender that was let in from among the waiting ones.
    pub(crate) fn offer_granted(&self, lane: usize, envelope: Envelope) -> Result<(), Unaccepted> {
        let offer = self
            .mailbox
            .lane(lane)
            .offer_past_waiters(envelope, || self.lane_config(lane));
        self.offered(lane, offer)
    }

    #[cold]
    fn offered(&self, lane: usize, offer: Offer) -> Result<(), Unaccepted> {
        match offer {
            Offer::Accepted => {
                self.announce();
                Ok(())
            }
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
        self.mailbox.lane(lane).gauges.count_shed(reason);
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

    /// What the actor told full lanes.
    ///
    /// # Safety
    /// The caller runs the actor (on this thread, at this moment).
    pub(crate) unsafe fn outbox(&self) -> *mut Option<Box<Outbox>> {
        self.outbox.get()
    }

    pub(crate) fn end_reason(&self) -> Option<ExitReason> {
        // Ordering: Acquire pairs with the Release in `set_ended`: what the actor did is done.
        let code = self.end_reason.load(Ordering::Acquire);
        let index = usize::from(code).checked_sub(1)?;
        ExitReason::ALL.get(index).copied()
    }

    /// Call with the relations locked.
    pub(crate) fn set_ended(&self, reason: ExitReason) {
        let index = ExitReason::ALL.iter().position(|each| *each == reason);
        let code = index.map_or(1, |index| index as u8 + 1);
        // Ordering: Release, as in `end_reason`.
        self.end_reason.store(code, Ordering::Release);
    }

    pub(crate) fn ended(&self, reason: ExitReason) -> Terminated {
        Terminated {
            actor: self.id,
            name: self.options().name.as_deref().map(str::to_owned),
            reason,
        }
    }

    /// Takes no further message.
    pub(crate) fn close_mailbox(&self) {
        self.mailbox.close();
    }

    /// Takes no further message, and ends once those it has are handled.
    pub(crate) fn drain(&self) {
        self.close_mailbox();
        self.signal(DRAIN);
    }

    /// Whose reply the actor waits for.
    pub(crate) fn asking(&self) -> Option<ActorId> {
        // Ordering: Relaxed, a hint for the search for circles, which looks twice.
        match self.asking.load(Ordering::Relaxed) {
            0 => None,
            id => Some(ActorId(id)),
        }
    }

    pub(crate) fn set_asking(&self, target: Option<ActorId>) {
        // Ordering: Relaxed, as in `asking`.
        self.asking
            .store(target.map_or(0, ActorId::get), Ordering::Relaxed);
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
        Phase::Suspended => "held",
        Phase::Terminated => "ended",
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
