//! The core of a cell: the part that does not depend on the actor's type.

use std::{
    cell::UnsafeCell,
    ptr::NonNull,
    sync::{Arc, Mutex},
};

use freeboard_flow::{LaneConfig, MailboxConfig, ShedReason};
use freeboard_meter::{ActorSnapshot, Histogram, OwnedCounter};
use freeboard_platform::planted;
use freeboard_queue::{Edge, oneshot::SlotHead};
use freeboard_sched::{Phase, RunState, Signals, Task, Wake};
use once_cell::race::OnceBox;

use crate::{
    core_ref::{CoreRef, Head},
    envelope::Envelope,
    id::{ActorId, ActorKey},
    mailbox::{Mailbox, Offer},
    options::SpawnOptions,
    outbox::Outbox,
    relations::Relations,
    sync::{AtomicBool, AtomicU8, AtomicU32, Ordering},
    system_inner::SystemInner,
    termination::{ExitReason, Terminated},
    waiters::Waiters,
};

/// Stop now; queued messages are shed.
pub(crate) const STOP: Signals = Signals::bit(1);
/// Stop once the closed mailbox is empty.
pub(crate) const DRAIN: Signals = Signals::bit(2);
/// Poll the suspended future.
pub(crate) const WAKE: Signals = Signals::bit(3);
/// The lane that this actor waits for has granted capacity, or its actor has terminated.
pub(crate) const UNMUTE: Signals = Signals::bit(4);
/// A sender waits for capacity in this actor's mailbox.
pub(crate) const WAITERS: Signals = Signals::bit(5);
/// A watched actor has terminated, or a notice has come.
pub(crate) const NOTICE: Signals = Signals::bit(6);
/// The last child of this stopping actor has terminated.
pub(crate) const CHILDREN_ENDED: Signals = Signals::bit(7);
/// The back-off before a restart is over.
pub(crate) const RESUME: Signals = Signals::bit(8);
/// A child escalated its failure, or a linked actor failed.
pub(crate) const FAILED_BY_OTHER: Signals = Signals::bit(9);
/// The shutdown deadline has passed: a terminated actor sends no more of its outbox.
pub(crate) const ABANDON: Signals = Signals::bit(10);

/// A caller waits for the actor's start.
pub(crate) const START_WAITERS: Signals = Signals::bit(11);
/// An inlet was added, is no longer empty, or its producer was dropped.
pub(crate) const INLET: Signals = Signals::bit(12);

#[repr(C)]
pub(crate) struct Core {
    own: NonNull<Head>,
    pub(crate) state: RunState,
    /// In the registry's shard of this id.
    slot: AtomicU32,
    id: ActorId,
    pub(crate) system: Arc<SystemInner>,
    /// Begins a cache line: senders read all fields above, which are rarely written.
    pub(crate) mailbox: Mailbox,
    /// `None` for the system's defaults.
    options: Option<Box<SpawnOptions>>,
    parent: Option<CoreRef>,
    pub(crate) waiters: Waiters,
    pub(crate) relations: Mutex<Option<Box<Relations>>>,
    /// Children that are added now would not be awaited; written before the relations are read.
    pub(crate) takes_no_children: AtomicBool,
    /// A member that a resize has removed, or an activation about to be passivated: no outbox takes further messages
    /// for it.
    is_retiring: AtomicBool,
    /// 0 while the actor lives, then its [`ExitReason`] plus 1; changed under the relations' lock.
    end_reason: AtomicU8,
    /// A bit for each lane that accepts messages and whose messages are not handled: for the checks of a test system.
    #[cfg(feature = "testing")]
    pub(crate) unhandled_lanes: AtomicU8,
    restarts: AtomicU32,
    /// Steps of unfinished work; a shutdown reads it.
    pub(crate) progress: OwnedCounter,
    /// To the slot of the reply that its handler awaits; the slot's note is the asked actor's `own`.
    pub(crate) asking: Edge<SlotHead>,
    /// To the actor for whose lane this one is muted; it owns a reference.
    pub(crate) muted_for: Edge<Head>,
    handling: OnceBox<Histogram>,
    outbox: UnsafeCell<Option<Box<Outbox>>>,
}

#[cfg(not(loom))]
const _: () = assert!(
    size_of::<Head>() + std::mem::offset_of!(Core, mailbox) == 64,
    "the first lane begins a cache line"
);

/// The parts of a new cell, without its actor.
pub(crate) struct CellParts {
    pub(crate) id: ActorId,
    pub(crate) system: Arc<SystemInner>,
    pub(crate) options: Option<Box<SpawnOptions>>,
    pub(crate) parent: Option<CoreRef>,
}

// SAFETY: all fields are `Sync` except the outbox, which only the thread that runs the actor accesses; `own` is only
// copied.
unsafe impl Sync for Core {}
// SAFETY: as above; the outbox holds only what is `Send`.
unsafe impl Send for Core {}

impl Core {
    pub(crate) fn new(parts: CellParts, mailbox: Mailbox) -> Self {
        Self {
            own: NonNull::dangling(),
            state: RunState::new_queued(),
            slot: AtomicU32::new(u32::MAX),
            id: parts.id,
            system: parts.system,
            mailbox,
            options: parts.options,
            parent: parts.parent,
            waiters: Waiters::default(),
            relations: Mutex::new(None),
            takes_no_children: AtomicBool::new(false),
            is_retiring: AtomicBool::new(false),
            end_reason: AtomicU8::new(0),
            #[cfg(feature = "testing")]
            unhandled_lanes: AtomicU8::new(0),
            restarts: AtomicU32::new(0),
            progress: OwnedCounter::new(),
            asking: Edge::default(),
            muted_for: Edge::default(),
            handling: OnceBox::new(),
            outbox: UnsafeCell::new(None),
        }
    }

    /// Call once, before the cell is shared.
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

    pub(crate) fn id(&self) -> ActorId {
        self.id
    }

    /// The cell's key in the registry.
    pub(crate) fn key(&self) -> ActorKey {
        // Ordering: Relaxed: written once, under the shard's lock, before the actor is scheduled.
        ActorKey::new(self.id, self.slot.load(Ordering::Relaxed))
    }

    /// Call once, under the shard's lock.
    pub(crate) fn set_slot(&self, slot: u32) {
        // Ordering: Relaxed, as in `key`.
        self.slot.store(slot, Ordering::Relaxed);
    }

    pub(crate) fn type_name(&self) -> &'static str {
        // SAFETY: `set_own` ran before the cell was shared; the head outlives the core, and is only shared.
        unsafe { self.own.as_ref() }.type_name()
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

    /// Schedules the task; its state word was just moved to queued.
    #[inline]
    pub(crate) fn enqueue(&self) {
        // SAFETY: the head lives as long as the core.
        if unsafe { self.own.as_ref() }.header().is_pinned() {
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
            if planted!("wake-up-dropped") && self.mailbox.lane(0).accepted() % 64 == 63 {
                return;
            }
            self.enqueue();
        }
    }

    /// Pushes an envelope into a lane below the lane count, by its policy, and schedules the actor if it
    /// is idle. Counts refused and shed messages; shed ones become dead letters. `is_granted`: the sender waited, and
    /// was granted capacity.
    pub(crate) fn offer(
        &self,
        lane: usize,
        envelope: Envelope,
        is_granted: bool,
    ) -> Result<(), Unaccepted> {
        self.offer_by(self.lane_config(lane), lane, envelope, is_granted)
    }

    /// [`Core::offer`] by the policy of `config`, which has the lane's bound.
    pub(crate) fn offer_by(
        &self,
        config: &LaneConfig,
        lane: usize,
        envelope: Envelope,
        is_granted: bool,
    ) -> Result<(), Unaccepted> {
        match self.mailbox.lane(lane).offer(envelope, config, is_granted) {
            Offer::Accepted => self.announce(),
            Offer::AcceptedShedding(shed, reason) => {
                self.announce();
                self.shed(lane, shed, reason);
            }
            Offer::Shed(shed, reason) => self.shed(lane, shed, reason),
            Offer::Wait(envelope) => return Err(Unaccepted::Wait(envelope)),
            Offer::Full(envelope) => {
                self.count_shed(lane, ShedReason::Full);
                return Err(Unaccepted::Full(envelope));
            }
            Offer::Closed(envelope) => return Err(Unaccepted::Closed(envelope)),
        }
        Ok(())
    }

    pub(crate) fn count_shed(&self, lane: usize, reason: ShedReason) {
        self.mailbox.lane(lane).gauges.count_shed(reason);
    }

    /// Counts a message of this mailbox as shed and makes it a dead letter.
    pub(crate) fn shed(&self, lane: usize, envelope: Envelope, reason: ShedReason) {
        if !planted!("shed-not-counted") {
            self.count_shed(lane, reason);
        }
        self.bury(envelope, reason);
    }

    /// Counts a message that was taken from its lane and not handled to the end.
    pub(crate) fn shed_consumed(
        &self,
        lane: usize,
        type_name: fn() -> &'static str,
        reason: ShedReason,
    ) {
        self.count_shed(lane, reason);
        self.note_dead_letter(type_name(), reason);
    }

    /// Records an envelope that will not be handled as a dead letter.
    pub(crate) fn bury(&self, envelope: Envelope, reason: ShedReason) {
        let (id, type_name) = (self.id, self.type_name());
        self.system
            .dead_letters
            .bury(id, type_name, envelope, reason);
    }

    /// Records a message that was consumed without being handled to the end as a dead letter.
    pub(crate) fn note_dead_letter(&self, message_type: &'static str, reason: ShedReason) {
        let (id, type_name) = (self.id, self.type_name());
        self.system
            .dead_letters
            .note(id, type_name, message_type, reason);
    }

    /// Sheds a message that [`Core::offer`] refused and no sender can take back.
    pub(crate) fn shed_refused(&self, lane: usize, refused: Unaccepted) {
        match refused {
            Unaccepted::Wait(envelope) => self.shed(lane, envelope, ShedReason::Full),
            // Counted when it was refused.
            Unaccepted::Full(envelope) => self.bury(envelope, ShedReason::Full),
            Unaccepted::Closed(envelope) => self.shed(lane, envelope, ShedReason::Stopped),
        }
    }

    /// The actor's messages to full lanes.
    ///
    /// # Safety
    /// The caller runs the actor (on this thread, at this moment).
    pub(crate) unsafe fn outbox(&self) -> *mut Option<Box<Outbox>> {
        self.outbox.get()
    }

    pub(crate) fn end_reason(&self) -> Option<ExitReason> {
        // Ordering: Acquire pairs with the Release in `set_ended`: all effects of the actor are visible.
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

    pub(crate) fn terminated(&self, reason: ExitReason) -> Terminated {
        Terminated {
            actor: self.id,
            name: self.options().name.as_deref().map(str::to_owned),
            reason,
        }
    }

    /// Closes the mailbox; the actor stops once it is empty.
    pub(crate) fn drain(&self) {
        self.mailbox.close();
        self.signal(DRAIN);
    }

    pub(crate) fn set_retiring(&self, is_retiring: bool) {
        // Ordering: Relaxed, the locks of the wait graph order it: see `retire`.
        self.is_retiring.store(is_retiring, Ordering::Relaxed);
    }

    pub(crate) fn is_retiring(&self) -> bool {
        // Ordering: Relaxed, as above.
        self.is_retiring.load(Ordering::Relaxed)
    }

    pub(crate) fn restarts(&self) -> u32 {
        // Ordering: Relaxed, a statistic; only the worker writes it.
        self.restarts.load(Ordering::Relaxed)
    }

    pub(crate) fn count_restart(&self) {
        // Ordering: Relaxed, as in `restarts`.
        self.restarts.fetch_add(1, Ordering::Relaxed);
    }

    /// Only the thread that runs the actor records.
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

    /// Handling times, if any was measured.
    pub(crate) fn handling(&self) -> Option<&Histogram> {
        self.handling.get()
    }
}

/// The state's name in snapshots.
pub(crate) const fn state_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Idle => "idle",
        Phase::Queued => "queued",
        Phase::Running => "running",
        Phase::Suspended => "suspended",
        Phase::Terminated => "ended",
    }
}

/// An envelope that a mailbox did not accept; the sender gets it back.
pub(crate) enum Unaccepted {
    /// The policy says to wait for capacity.
    Wait(Envelope),
    /// Refused, and counted as such.
    Full(Envelope),
    /// The mailbox is closed.
    Closed(Envelope),
}
