//! Senders that wait for the capacity of any of several members.
//!
//! ```text
//!   sender:  all members full ──> queue ──────────────────────────────────────> sends to that member
//!                                   │ a scout at each member                       ▲ grant
//!   member:  has capacity ──> grants its scout ──> the first sender of the queue ──┘
//!                                           └──> senders are left: a new scout
//! ```
//!
//! While senders wait, each open member has at most one *scout*: a registration that waits for capacity as any sender
//! of this member. A grant to a scout goes to the sender that has waited longest, and wakes only that one. If every sender
//! registered with every member, each would hold the capacity of several members until it ran, and each registration
//! would cost a step per member and sender.
//!
//! **No capacity is lost.** Claim: while a sender is in the queue, each open member has a scout, or the wake-up of its
//! scout is on its way. A sender enters the queue and places the missing scouts under one lock. A scout's wake-up, under
//! the same lock, takes a sender out and leaves a new scout if others are left. A sender that has been granted capacity
//! uses it, or, when it is dropped, passes it on. A change of the members places scouts at the new ones under the same
//! lock, after they can be read. A member that closes meanwhile gets no scout. So each of these steps ends by taking all
//! senders out of a queue without scouts, as no member is open.
//!
//! **No capacity is given twice.** A scout is in one of three places: at its member, with one sender, or returned. It
//! moves under the lock, and is not copied.
//!
//! The queue's lock is taken before a member's, never after it: members wake scouts without their own lock. Wakers are
//! called and dropped without the queue's lock, because they may run user code.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::PoisonError,
    task::Waker,
};

use crate::sync::{Mutex, MutexGuard};

/// The members, as the senders of an [`AnyQueue`] see them. Its methods are called under the lock of the queue.
pub trait Members {
    /// Identifies a member. Scouts are placed and dropped in its order.
    type Id: Ord;
    /// A registration with a member, and its grant once it has one.
    type Scout;

    /// Adds a scout for each open member that has none. Its wake-up calls [`AnyQueue::scout_returns`], once, from then on
    /// at any time, but not in this call.
    fn place_missing(&mut self, scouts: &mut BTreeMap<Self::Id, Self::Scout>);

    /// Adds a further scout for the member that has granted capacity to this one, unless the member has closed.
    fn place_again(&mut self, at: &Self::Scout, scouts: &mut BTreeMap<Self::Id, Self::Scout>);

    /// Whether the member has closed.
    fn has_closed(&self, scout: &Self::Scout) -> bool;
}

/// What a step leads to, once the lock is released.
#[must_use]
#[derive(Debug)]
pub struct Effects<S> {
    /// Senders to wake.
    pub woken: Vec<Waker>,
    /// A scout that no sender needs: return its grant.
    pub returned: Option<S>,
}

impl<S> Effects<S> {
    const fn none() -> Self {
        Self {
            woken: Vec::new(),
            returned: None,
        }
    }
}

/// The turn of a sender, by [`AnyQueue::poll`].
#[derive(Debug, PartialEq, Eq)]
pub enum Turn<S> {
    /// It still waits.
    Waiting,
    /// The capacity is its own, or the member has closed.
    Granted(S),
    /// It was taken out of the queue, because no member was open.
    Unserved,
}

struct State<I, S> {
    /// By arrival.
    waiting: BTreeMap<u64, Waker>,
    /// Senders that have left the queue with capacity and have not run yet.
    granted: HashMap<u64, S>,
    scouts: BTreeMap<I, S>,
    next_number: u64,
}

impl<I: Ord, S> State<I, S> {
    /// If no member is left to wait for, takes all senders out: they try all members, and find them closed. Call after
    /// scouts were placed or have returned.
    fn wake_all_unserved(&mut self, effects: &mut Effects<S>) {
        if self.scouts.is_empty() {
            let waiting = std::mem::take(&mut self.waiting);
            effects.woken.extend(waiting.into_values());
        }
    }

    /// Gives capacity to the sender that has waited longest.
    fn grant_next<M: Members<Id = I, Scout = S>>(
        &mut self,
        scout: S,
        members: &mut M,
        effects: &mut Effects<S>,
    ) {
        let Some((number, waker)) = self.waiting.pop_first() else {
            effects.returned = Some(scout);
            return;
        };
        effects.woken.push(waker);
        if !self.waiting.is_empty() {
            members.place_again(&scout, &mut self.scouts);
            self.wake_all_unserved(effects);
        }
        self.granted.insert(number, scout);
    }
}

/// The queue of the senders. See the module.
pub struct AnyQueue<I, S>(Mutex<State<I, S>>);

impl<I: Ord, S> Default for AnyQueue<I, S> {
    fn default() -> Self {
        Self(Mutex::new(State {
            waiting: BTreeMap::new(),
            granted: HashMap::new(),
            scouts: BTreeMap::new(),
            next_number: 0,
        }))
    }
}

impl<I: Ord, S> AnyQueue<I, S> {
    fn lock(&self) -> MutexGuard<'_, State<I, S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no sender waits: newcomers may try the members.
    pub fn is_empty(&self) -> bool {
        self.lock().waiting.is_empty()
    }

    /// The turn of the sender with this number. If it still waits, `waker` is exchanged for its former one.
    pub fn poll(&self, number: u64, waker: &mut Waker) -> Turn<S> {
        let mut state = self.lock();
        if let Some(known) = state.waiting.get_mut(&number) {
            std::mem::swap(known, waker);
            return Turn::Waiting;
        }
        state
            .granted
            .remove(&number)
            .map_or(Turn::Unserved, Turn::Granted)
    }

    /// A sender has found all members full and begins to wait; at its old position, if it has a number.
    pub fn enter<M: Members<Id = I, Scout = S>>(
        &self,
        number: &mut Option<u64>,
        waker: Waker,
        members: &mut M,
    ) -> Effects<S> {
        let mut effects = Effects::none();
        let mut state = self.lock();
        let number = *number.get_or_insert(state.next_number);
        state.next_number = state.next_number.max(number + 1);
        state.waiting.insert(number, waker);
        members.place_missing(&mut state.scouts);
        state.wake_all_unserved(&mut effects);
        effects
    }

    /// The sender with this number was dropped. Its capacity goes to the next one.
    pub fn leave<M: Members<Id = I, Scout = S>>(&self, number: u64, members: &mut M) -> Effects<S> {
        let mut effects = Effects::none();
        let _waker = {
            let mut state = self.lock();
            if let Some(scout) = state.granted.remove(&number) {
                state.grant_next(scout, members, &mut effects);
            }
            state.waiting.remove(&number)
        };
        effects
    }

    /// The scout of this member was granted capacity, or the member has closed.
    pub fn scout_returns<M: Members<Id = I, Scout = S>>(
        &self,
        member: &I,
        members: &mut M,
    ) -> Effects<S> {
        let mut effects = Effects::none();
        let mut state = self.lock();
        let Some(scout) = state.scouts.remove(member) else {
            return effects;
        };
        if members.has_closed(&scout) {
            effects.returned = Some(scout);
            state.wake_all_unserved(&mut effects);
        } else {
            state.grant_next(scout, members, &mut effects);
        }
        effects
    }

    /// There are other members now.
    pub fn members_changed<M: Members<Id = I, Scout = S>>(&self, members: &mut M) -> Effects<S> {
        let mut effects = Effects::none();
        let mut state = self.lock();
        if !state.waiting.is_empty() {
            members.place_missing(&mut state.scouts);
            state.wake_all_unserved(&mut effects);
        }
        effects
    }

    /// Takes the scouts that are left, when no sender can come any more.
    pub fn take_scouts(&self) -> impl Iterator<Item = S> + use<I, S> {
        std::mem::take(&mut self.lock().scouts).into_values()
    }
}

impl<I, S> fmt::Debug for AnyQueue<I, S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("AnyQueue")
    }
}
