//! Senders that wait for capacity in a full lane: blocked threads, futures and muted actors.
//!
//! ```text
//!   sender:    full ──> register ──> signal ──> waits ──> granted ──> pushes past the barrier ──> finish
//!                                                            ▲                │ still full
//!                                              requeue at the old position <──┘
//!   receiver:  publish ──> release: grants what the lane has capacity for, in order of arrival
//! ```
//!
//! A sender that finds a lane full registers here and signals the receiver ([`crate::core::WAITERS`]). The
//! receiver, after each batch, grants the lane's capacity to waiting senders once the depth is at or
//! below the low watermark. The signal is part of the receiver's state word, so a receiver that becomes
//! idle cannot miss it; an idle receiver runs once, sees the capacity, and grants it.
//!
//! Each step costs O(1), independent of the number of waiting senders: waiting entries form a linked list per
//! lane, in a slab.
//!
//! **Order.** While senders wait, the lane's barrier [`Barrier::Waiters`] is raised: newcomers find the lane full
//! and wait behind them. A granted sender that finds the lane full again returns to its old position.
//!
//! The barrier stays until all granted senders have pushed. Meanwhile a newcomer in `tell` or `send` gets a grant at once if nobody waits and
//! the lane has capacity beyond all grants ([`Waiters::try_grant`]). Actors and `try_tell` do not. If it had to wait, two threads at a full lane would wait in turn for ever:
//! each would find the barrier that protects the other, and each message would cost a switch of threads.
//!
//! A sender that waits although the lane's policy is another one ([`crate::reserve`]) raises no barrier.
//!
//! **Grants.** A granted sender has not pushed yet, so grants count against the capacity, and the barrier stays
//! raised. A blocked thread always pushes or returns its grant. A future may never be polled again, and an actor
//! may run user code that blocks on this very lane: their grants lapse [`LAPSE_AFTER`] after the lane was found
//! empty, so that they cannot withhold capacity for ever. A sender that comes later returns to its old position.
//!
//! **No sender is stranded.** When the lane has capacity and a sender waits, one of these is pending: a run of the
//! actor, which calls [`Waiters::release`]; a message or a signal that makes it run; a thread with a grant, whose
//! [`Waiters::finish`] has the actor signalled if others wait; or the timer of a lapse.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    task::Waker,
    time::Duration,
};

use freeboard_flow::Overload;
use freeboard_meter::clock;
use freeboard_platform::planted;
use freeboard_queue::Barrier;
use slab::Slab;

use crate::{
    catch_panic,
    core::{self, Core},
    core_ref::CoreRef,
};

/// Entries whose memory is kept when no sender waits.
const ENTRIES_KEPT: usize = 1_024;

/// How long a grant that may lapse is kept while the lane is empty.
const LAPSE_AFTER: Duration = Duration::from_millis(100);

/// Signals the actor when grants lapse.
fn set_lapse_timer(core: &Core) {
    let actor = CoreRef::of(core);
    let set = core.system.timers.after(LAPSE_AFTER, move |_| {
        actor.signal(core::WAITERS);
        None
    });
    // If it was not set, the system is shutting down, which releases all senders.
    drop(set);
}

/// Makes newcomers wait behind the senders that wait. Call with the list locked. Under any other policy newcomers do
/// not wait, and a raised barrier would refuse them although the lane has capacity.
fn raise(core: &Core, lane: usize) {
    if core.lane_config(lane).overload_policy() == Overload::Wait {
        core.mailbox.lane(lane).raise(Barrier::Waiters);
    }
}

/// A sender that waits for capacity.
pub(crate) enum Waiter {
    /// A thread that blocks.
    Thread(Waker),
    /// A future, which may be dropped or never polled again.
    Future(Waker),
    /// A muted actor.
    Actor(CoreRef),
}

impl Waiter {
    fn wake(self) {
        match self {
            Self::Thread(waker) | Self::Future(waker) => {
                catch_panic::call(|| waker.wake());
            }
            // It removes its edge from the wait-for graph itself.
            Self::Actor(_) if planted!("waiter-not-woken") => {}
            Self::Actor(core) => core.signal(core::UNMUTE),
        }
    }
}

/// Identifies one registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitKey {
    slot: usize,
    /// Its position among all registrations of the mailbox; unique.
    number: u64,
}

enum State {
    /// In its lane's list.
    Waiting {
        waiter: Waiter,
        /// Messages that it requests to send.
        wanted: u64,
        previous: Option<usize>,
        next: Option<usize>,
    },
    /// It may push this number of messages past the barrier.
    Granted { messages: u64, kind: GrantKind },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum GrantKind {
    /// Kept until its holder has pushed or returned it.
    Firm,
    /// Lapses [`LAPSE_AFTER`] the lane was found empty; granted in this period of the lane.
    Lapsing { period: u64 },
    /// As `Lapsing`, but granted without waiting, and it raises no barrier.
    Open { period: u64 },
}

struct Entry {
    number: u64,
    lane: usize,
    state: State,
}

/// The waiting senders and the grants of one lane.
#[derive(Default)]
struct LaneQueue {
    first: Option<usize>,
    last: Option<usize>,
    granted_firm: u64,
    granted_lapsing: u64,
    granted_open: u64,
    /// Counts how often lapsing grants have lapsed.
    period: u64,
    /// When the current lapsing grants lapse; set once the lane was found empty.
    lapse_ns: Option<u64>,
}

impl LaneQueue {
    /// Needs no barrier.
    fn is_idle(&self) -> bool {
        self.first.is_none() && self.granted_firm + self.granted_lapsing == 0
    }

    fn granted(&self) -> u64 {
        self.granted_firm + self.granted_lapsing + self.granted_open
    }

    fn return_grant(&mut self, messages: u64, kind: GrantKind) {
        match kind {
            GrantKind::Firm => self.granted_firm -= messages,
            GrantKind::Lapsing { period } if period == self.period => {
                self.granted_lapsing -= messages;
            }
            GrantKind::Open { period } if period == self.period => self.granted_open -= messages,
            GrantKind::Lapsing { .. } | GrantKind::Open { .. } => {}
        }
        if self.granted_lapsing + self.granted_open == 0 {
            self.lapse_ns = None;
        }
    }

    /// The lane is empty: expires grants that are due. Returns whether a timer must be set for others.
    fn lapse(&mut self) -> bool {
        if self.granted_lapsing + self.granted_open == 0 {
            return false;
        }
        let now_ns = clock::now_ns();
        match self.lapse_ns {
            None => {
                self.lapse_ns = Some(now_ns + LAPSE_AFTER.as_nanos() as u64);
                true
            }
            Some(lapse_ns) if now_ns >= lapse_ns => {
                self.period += 1;
                (self.granted_lapsing, self.granted_open) = (0, 0);
                self.lapse_ns = None;
                false
            }
            Some(_) => false,
        }
    }
}

struct WaitList {
    entries: Slab<Entry>,
    lanes: Vec<LaneQueue>,
    next_number: u64,
}

impl WaitList {
    fn new(lanes: usize) -> Self {
        Self {
            entries: Slab::new(),
            lanes: (0..lanes).map(|_| LaneQueue::default()).collect(),
            next_number: 0,
        }
    }

    fn find(&mut self, key: WaitKey) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(key.slot)?;
        (entry.number == key.number).then_some(entry)
    }

    fn links(&mut self, slot: usize) -> (&mut Option<usize>, &mut Option<usize>) {
        match &mut self.entries[slot].state {
            State::Waiting { previous, next, .. } => (previous, next),
            State::Granted { .. } => unreachable!("only waiting entries are linked"),
        }
    }

    /// Inserts a waiting entry into its lane's list, before the entries with higher numbers. A new entry goes last;
    /// a requeued one passes only entries that were requeued before it.
    fn link(&mut self, slot: usize) {
        let (lane, number) = (self.entries[slot].lane, self.entries[slot].number);
        let is_newest = self.lanes[lane]
            .last
            .is_none_or(|last| self.entries[last].number < number);
        let (before, after) = if is_newest {
            (self.lanes[lane].last, None)
        } else {
            let mut after = self.lanes[lane].first.expect("a list with a last entry");
            let mut before = None;
            while self.entries[after].number < number {
                before = Some(after);
                after = self.links(after).1.expect("the last entry is newer");
            }
            (before, Some(after))
        };
        *self.links(slot).0 = before;
        *self.links(slot).1 = after;
        match before {
            Some(before) => *self.links(before).1 = Some(slot),
            None => self.lanes[lane].first = Some(slot),
        }
        match after {
            Some(after) => *self.links(after).0 = Some(slot),
            None => self.lanes[lane].last = Some(slot),
        }
    }

    fn unlink(&mut self, slot: usize) {
        let lane = self.entries[slot].lane;
        let (previous, next) = self.links(slot);
        let (previous, next) = (previous.take(), next.take());
        match previous {
            Some(previous) => *self.links(previous).1 = next,
            None => self.lanes[lane].first = next,
        }
        match next {
            Some(next) => *self.links(next).0 = previous,
            None => self.lanes[lane].last = previous,
        }
    }

    /// Grants up to `messages` to the longest waiting sender of the lane. Returns the number granted.
    fn grant_first(&mut self, lane: usize, messages: u64, woken: &mut Vec<Waiter>) -> u64 {
        let slot = self.lanes[lane].first.expect("a sender waits");
        self.unlink(slot);
        let queue = &mut self.lanes[lane];
        let State::Waiting { waiter, wanted, .. } = &self.entries[slot].state else {
            unreachable!("only waiting entries are linked");
        };
        let granted = (*wanted).min(messages);
        let kind = match waiter {
            Waiter::Thread(_) => {
                queue.granted_firm += granted;
                GrantKind::Firm
            }
            Waiter::Future(_) | Waiter::Actor(_) => {
                queue.granted_lapsing += granted;
                GrantKind::Lapsing {
                    period: queue.period,
                }
            }
        };
        let state = State::Granted {
            messages: granted,
            kind,
        };
        if let State::Waiting { waiter, .. } =
            std::mem::replace(&mut self.entries[slot].state, state)
        {
            woken.push(waiter);
        }
        granted
    }
}

/// The state of a registered sender.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It still waits.
    Waiting,
    /// It may push this number of messages past the barrier. It is 0 if the grant has lapsed or the actor has
    /// terminated: then the sender offers as a newcomer, and returns to its position if the lane is full.
    Granted(u64),
}

/// The waiting senders of one mailbox. Allocates nothing until a sender finds a lane full.
#[derive(Default)]
pub(crate) struct Waiters(Mutex<Option<Box<WaitList>>>);

impl Waiters {
    fn lock(&self) -> MutexGuard<'_, Option<Box<WaitList>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a sender of `wanted` messages. `None` if the actor `core`, whose waiters these are, has
    /// terminated. The caller signals the actor afterwards.
    pub(crate) fn register(
        &self,
        core: &Core,
        lane: usize,
        waiter: Waiter,
        wanted: u64,
    ) -> Option<WaitKey> {
        let mut list = self.lock();
        // Under the lock: a terminating actor sets its exit reason first, then releases all senders.
        if core.end_reason().is_some() {
            return None;
        }
        let list = list.get_or_insert_with(|| Box::new(WaitList::new(core.mailbox.lane_count())));
        let number = list.next_number;
        list.next_number += 1;
        let state = State::Waiting {
            waiter,
            wanted,
            previous: None,
            next: None,
        };
        let slot = list.entries.insert(Entry {
            number,
            lane,
            state,
        });
        list.link(slot);
        raise(core, lane);
        Some(WaitKey { slot, number })
    }

    /// Grants capacity for one message at once, if the lane has some for which no sender waits. The barrier is not
    /// raised: a newcomer may take the slot, and the holder of the grant then waits before all later ones. `is_blocking`: the
    /// holder is a thread, which always pushes or returns its grant.
    pub(crate) fn try_grant(&self, core: &Core, lane: usize, is_blocking: bool) -> Option<WaitKey> {
        let mut list = self.lock();
        // Under the lock, as in `register`.
        if core.end_reason().is_some() {
            return None;
        }
        let list = list.get_or_insert_with(|| Box::new(WaitList::new(core.mailbox.lane_count())));
        let (mailbox_lane, queue) = (core.mailbox.lane(lane), &mut list.lanes[lane]);
        let taken = mailbox_lane.depth() + queue.granted();
        if queue.first.is_some()
            || taken >= core.lane_config(lane).bound()
            || mailbox_lane.is_raised(Barrier::Pause)
        {
            return None;
        }
        let kind = if is_blocking {
            queue.granted_firm += 1;
            GrantKind::Firm
        } else {
            queue.granted_open += 1;
            GrantKind::Open {
                period: queue.period,
            }
        };
        let number = list.next_number;
        list.next_number += 1;
        let state = State::Granted { messages: 1, kind };
        let slot = list.entries.insert(Entry {
            number,
            lane,
            state,
        });
        Some(WaitKey { slot, number })
    }

    /// The state of a registration; a new waker replaces the old one. If the actor has terminated, the registration
    /// counts as granted, and the sender's next offer fails.
    pub(crate) fn poll(&self, key: WaitKey, waker: Option<&Waker>) -> Wait {
        // Cloned and dropped without the lock: a waker may run user code.
        let fresh = waker.cloned();
        let (wait, _old) = {
            let mut list = self.lock();
            let entry = list.as_mut().and_then(|list| {
                let lane = list.find(key)?.lane;
                let period = list.lanes[lane].period;
                Some((list.find(key)?, period))
            });
            match entry {
                None => (Wait::Granted(0), None),
                Some((entry, period)) => match &mut entry.state {
                    State::Granted {
                        kind:
                            GrantKind::Lapsing { period: given } | GrantKind::Open { period: given },
                        ..
                    } if *given != period => (Wait::Granted(0), None),
                    State::Granted { messages, .. } => (Wait::Granted(*messages), None),
                    State::Waiting { waiter, .. } => {
                        let old = match (waiter, fresh) {
                            (Waiter::Thread(old) | Waiter::Future(old), Some(fresh)) => {
                                Some(std::mem::replace(old, fresh))
                            }
                            (_, fresh) => fresh,
                        };
                        (Wait::Waiting, old)
                    }
                },
            }
        };
        wait
    }

    /// A granted sender found the lane full again, or has more to send: it waits at its old position.
    /// `None` as with [`Waiters::register`].
    pub(crate) fn requeue(
        &self,
        core: &Core,
        key: WaitKey,
        waiter: Waiter,
        wanted: u64,
    ) -> Option<()> {
        let mut list = self.lock();
        let list = list.as_mut()?;
        let entry = list.find(key)?;
        let lane = entry.lane;
        let waiting = State::Waiting {
            waiter,
            wanted,
            previous: None,
            next: None,
        };
        if let State::Granted { messages, kind } = std::mem::replace(&mut entry.state, waiting) {
            list.lanes[lane].return_grant(messages, kind);
        }
        list.link(key.slot);
        raise(core, lane);
        Some(())
    }

    /// Removes a registration: the sender has pushed, or no longer waits. `true` if others wait and may get its
    /// grant: the caller then signals the actor, which may be idle.
    #[must_use]
    pub(crate) fn finish(&self, core: &Core, key: WaitKey) -> bool {
        // Dropped without the lock: a waker's drop may run user code.
        let (must_signal, _waiter) = {
            let mut guard = self.lock();
            let Some(list) = guard.as_mut().filter(|list| {
                let entry = list.entries.get(key.slot);
                entry.is_some_and(|entry| entry.number == key.number)
            }) else {
                return false;
            };
            if matches!(list.entries[key.slot].state, State::Waiting { .. }) {
                list.unlink(key.slot);
            }
            let entry = list.entries.remove(key.slot);
            let queue = &mut list.lanes[entry.lane];
            let waiter = match entry.state {
                State::Waiting { waiter, .. } => Some(waiter),
                State::Granted { messages, kind } => {
                    queue.return_grant(messages, kind);
                    None
                }
            };
            if queue.is_idle() {
                core.mailbox.lane(entry.lane).lower(Barrier::Waiters);
            }
            let must_signal = waiter.is_none() && queue.first.is_some();
            if list.entries.is_empty() && list.entries.capacity() > ENTRIES_KEPT {
                list.entries = Slab::new();
            }
            (must_signal, waiter)
        };
        must_signal
    }

    /// Grants the capacity of lanes at or below their low watermark. Returns whether the actor must call this again
    /// after its next batch.
    pub(crate) fn release(&self, core: &Core) -> bool {
        let (mailbox, config) = (&core.mailbox, core.config());
        let mut woken = Vec::new();
        let (mut is_active, mut must_set_timer) = (false, false);
        {
            let mut guard = self.lock();
            let Some(list) = guard.as_mut() else {
                return false;
            };
            for (lane, lane_config) in config.as_slice().iter().enumerate() {
                if list.lanes[lane].is_idle() {
                    continue;
                }
                let mailbox_lane = mailbox.lane(lane);
                if mailbox_lane.is_closed() {
                    // Their next offer fails with `Closed`.
                    while list.lanes[lane].first.is_some() {
                        list.grant_first(lane, u64::MAX, &mut woken);
                    }
                } else if !mailbox_lane.is_raised(Barrier::Pause) {
                    let depth = mailbox_lane.depth();
                    let queue = &mut list.lanes[lane];
                    if depth == 0 {
                        must_set_timer |= queue.lapse();
                    } else {
                        queue.lapse_ns = None;
                    }
                    let mut capacity = if lane_config.releases_at(depth) {
                        let taken = depth + list.lanes[lane].granted();
                        lane_config.bound().saturating_sub(taken)
                    } else {
                        0
                    };
                    while capacity > 0 && list.lanes[lane].first.is_some() {
                        capacity -= list.grant_first(lane, capacity, &mut woken);
                    }
                    if depth == 0 {
                        must_set_timer |= list.lanes[lane].lapse();
                    }
                }
                if list.lanes[lane].is_idle() {
                    mailbox_lane.lower(Barrier::Waiters);
                } else {
                    is_active = true;
                }
            }
        }
        // Without the lock: a waker may run user code.
        for waiter in woken {
            waiter.wake();
        }
        if must_set_timer {
            set_lapse_timer(core);
        }
        is_active
    }

    /// The actor has terminated: wakes all waiting senders.
    pub(crate) fn close(&self) {
        let list = self.lock().take();
        let entries = list.into_iter().flat_map(|list| list.entries);
        for (_, entry) in entries {
            if let State::Waiting { waiter, .. } = entry.state {
                waiter.wake();
            }
        }
    }
}
