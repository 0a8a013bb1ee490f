//! All keys that are being looked up in this process, and when each must be looked at again.
//!
//! One mutex, held for some map operations and never while a user's code runs. Whatever an operation sets
//! earlier than all that is due calls the actor that keeps time (see `watch.rs`).

use std::{
    collections::{BTreeSet, HashMap},
    sync::OnceLock,
};

use bytes::Bytes;
use freeboard_flow::Backoff;
use parking_lot::Mutex;

use crate::{
    error::CacheError,
    flight::{Caller, Ending, Flight, Stage},
};

/// The most keys that are looked at between two looks at the clock.
const DUE_MAX: usize = 256;

type Notifier = Box<dyn Fn() + Send + Sync>;

pub(crate) struct Flights {
    state: Mutex<State>,
    limits: Limits,
    waker_fn: OnceLock<Notifier>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) waiters_max: usize,
    pub(crate) flights_max: usize,
    pub(crate) poll: Backoff,
    /// How long a lease holds.
    pub(crate) lease_ns: u64,
}

#[derive(Default)]
struct State {
    flights: HashMap<Bytes, Flight>,
    dues: BTreeSet<(u64, Bytes)>,
    last_turn: u64,
    /// Something is due before all that the actor knows of.
    is_earlier: bool,
    /// The actor was called and has not looked yet.
    is_called: bool,
    is_closed: bool,
}

/// What becomes of a new caller.
pub(crate) enum Joined {
    Waits,
    /// It is the first: Redis is asked.
    Asks(u64),
    Refused(Caller, CacheError),
}

/// Callers to be answered, and the question of those that came later.
#[derive(Default)]
pub(crate) struct Served {
    pub(crate) callers: Vec<Caller>,
    pub(crate) has_waited: bool,
    pub(crate) next: Option<u64>,
}

/// Who gets a lease.
#[derive(Default)]
pub(crate) struct Granted {
    /// `None` if nobody waits any more.
    pub(crate) leader: Option<Caller>,
    /// Who gets the stale value meanwhile.
    pub(crate) served: Served,
    /// Under which the others wait for the leader, if there is no stale value.
    pub(crate) turn: Option<u64>,
}

/// What somebody else's lease means.
#[derive(Default)]
pub(crate) struct Waits {
    pub(crate) expired: Vec<Caller>,
    /// It was filled or freed meanwhile: ask again.
    pub(crate) again: Option<u64>,
}

/// What was to be looked at.
pub(crate) enum Due {
    Ask(Bytes, u64),
    Expired(Vec<Caller>),
}

impl Flights {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            state: Mutex::default(),
            limits,
            waker_fn: OnceLock::new(),
        }
    }

    /// What calls the actor.
    pub(crate) fn on_call(&self, waker_fn: impl Fn() + Send + Sync + 'static) {
        let _ = self.waker_fn.set(Box::new(waker_fn));
    }

    /// Calls the actor.
    pub(crate) fn call(&self) {
        if let Some(call) = self.waker_fn.get() {
            call();
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let outcome = act(&mut state);
        let is_earlier = std::mem::take(&mut state.is_earlier);
        let must_call = is_earlier && !std::mem::replace(&mut state.is_called, true);
        drop(state);
        if must_call {
            self.call();
        }
        outcome
    }

    pub(crate) fn join(&self, key: &Bytes, caller: Caller) -> Joined {
        self.with(|state| {
            if state.is_closed {
                return Joined::Refused(caller, CacheError::Closed);
            }
            if let Some(flight) = state.flights.get_mut(key) {
                if !flight.has_room(self.limits.waiters_max) {
                    return Joined::Refused(caller, CacheError::WaitersFull);
                }
                let is_first = flight.callers.is_empty();
                flight.callers.push_back(caller);
                if is_first {
                    // Nobody else's deadline has it looked at.
                    let due_ns = flight.held_due_ns();
                    state.schedule(key, due_ns);
                }
                return Joined::Waits;
            }
            if state.flights.len() >= self.limits.flights_max {
                return Joined::Refused(caller, CacheError::FlightsFull);
            }
            let turn = state.turn();
            state.flights.insert(key.clone(), Flight::new(turn, caller));
            Joined::Asks(turn)
        })
    }

    /// The answer to a question, of which those that asked it are told.
    pub(crate) fn answered(&self, key: &Bytes, turn: u64) -> Served {
        self.with(|state| match state.flight(key, turn) {
            Some(flight) => {
                let callers = flight.take_asked();
                state.go_on(key, callers)
            }
            None => Served::default(),
        })
    }

    /// There is no answer to be had: all are told.
    pub(crate) fn failed(&self, key: &Bytes, turn: u64) -> Vec<Caller> {
        self.with(|state| match state.flight(key, turn) {
            Some(_) => state.remove(key),
            None => Vec::new(),
        })
    }

    /// A lease is asked for after the GET. Whether anybody is there.
    pub(crate) fn leasing(&self, key: &Bytes, turn: u64) -> bool {
        self.with(|state| {
            let flight = state.flight(key, turn);
            flight.is_some_and(|flight| {
                flight.stage = Stage::Leasing { is_notified: false };
                true
            })
        })
    }

    /// The lease is ours, with a stale value to be used meanwhile or without.
    pub(crate) fn granted(&self, key: &Bytes, turn: u64, has_stale: bool, now_ns: u64) -> Granted {
        self.with(|state| {
            let Some(flight) = state.flight(key, turn) else {
                return Granted::default();
            };
            let leader = flight.take_leader();
            if has_stale {
                let callers = flight.take_asked();
                let served = state.go_on(key, callers);
                return Granted {
                    leader,
                    served,
                    turn: None,
                };
            }
            if leader.is_none() {
                state.remove(key);
                return Granted::default();
            }
            let turn = state.turn();
            if let Some(flight) = state.flights.get_mut(key) {
                flight.hold(turn, now_ns.saturating_add(self.limits.lease_ns));
                let due_ns = flight.held_due_ns();
                state.schedule(key, due_ns);
            }
            Granted {
                leader,
                served: Served::default(),
                turn: Some(turn),
            }
        })
    }

    /// The lease is somebody else's, or was until the rate limit is over, and there is nothing stale: until
    /// `open_ns`.
    pub(crate) fn waits(&self, key: &Bytes, turn: u64, open_ns: u64, now_ns: u64) -> Waits {
        self.with(|state| {
            let Some(flight) = state.flight(key, turn) else {
                return Waits::default();
            };
            let expired = flight.take_expired(now_ns);
            let mut waits = Waits {
                expired,
                again: None,
            };
            if flight.callers.is_empty() {
                state.remove(key);
            } else if flight.stage == (Stage::Leasing { is_notified: true }) {
                flight.has_waited = true;
                waits.again = Some(state.ask_lease(key));
            } else {
                let due_ns = flight.wait(open_ns, now_ns, &self.limits.poll);
                state.schedule(key, due_ns);
            }
            waits
        })
    }

    /// What was fetched leaves for Redis.
    pub(crate) fn filling(&self, key: &Bytes, turn: u64) {
        self.with(|state| {
            if let Some(flight) = state.flight(key, turn) {
                flight.fill();
            }
        });
    }

    /// What was fetched is there.
    pub(crate) fn filled(&self, key: &Bytes, turn: u64, ending: Ending) -> Served {
        self.with(|state| match state.flight(key, turn) {
            Some(flight) => {
                let callers = flight.filled(ending);
                state.go_on(key, callers)
            }
            None => Served::default(),
        })
    }

    /// Who fetched has given up. The next one asks, from the actor: a caller that gives up at once, in its
    /// own function, would otherwise go deeper with each that follows.
    pub(crate) fn given_up(&self, key: &Bytes, turn: u64, now_ns: u64) {
        self.with(|state| match state.flight(key, turn) {
            Some(flight) if flight.callers.is_empty() => {
                state.remove(key);
            }
            Some(flight) => {
                flight.stage = Stage::Waiting;
                state.schedule(key, Some(now_ns));
            }
            None => {}
        });
    }

    /// The key was filled or freed. The question to be asked, if somebody waits.
    pub(crate) fn notified(&self, key: &Bytes) -> Option<u64> {
        self.with(|state| {
            let flight = state.flights.get_mut(key)?;
            match &mut flight.stage {
                Stage::Waiting => Some(state.ask_lease(key)),
                Stage::Leasing { is_notified } => {
                    *is_notified = true;
                    None
                }
                _ => None,
            }
        })
    }

    /// The actor looks: what is due, and when the next one is.
    pub(crate) fn due(&self, now_ns: u64) -> (Vec<Due>, Option<u64>) {
        self.with(|state| {
            state.is_called = false;
            let mut all = Vec::new();
            while all.len() < DUE_MAX {
                match state.dues.first() {
                    Some((due_ns, _)) if *due_ns <= now_ns => {}
                    _ => break,
                }
                if let Some((_, key)) = state.dues.pop_first() {
                    all.extend(state.look_at(key, now_ns));
                }
            }
            // The actor is told by what follows.
            state.is_earlier = false;
            (all, state.dues.first().map(|(due_ns, _)| *due_ns))
        })
    }

    /// No more callers are taken. Those that are there.
    pub(crate) fn close(&self) -> Vec<Caller> {
        self.with(|state| {
            state.is_closed = true;
            state.dues.clear();
            let flights = state.flights.drain();
            flights.flat_map(|(_, flight)| flight.callers).collect()
        })
    }

    /// Keys that are being looked up.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().flights.len()
    }
}

impl State {
    fn turn(&mut self) -> u64 {
        self.last_turn += 1;
        self.last_turn
    }

    fn flight(&mut self, key: &Bytes, turn: u64) -> Option<&mut Flight> {
        let flight = self.flights.get_mut(key)?;
        (flight.turn == turn).then_some(flight)
    }

    /// After `callers` were taken out: the others ask anew, or the flight ends.
    fn go_on(&mut self, key: &Bytes, callers: Vec<Caller>) -> Served {
        let turn = self.turn();
        let Some(flight) = self.flights.get_mut(key) else {
            return Served::default();
        };
        let has_waited = std::mem::take(&mut flight.has_waited);
        let next = (!flight.callers.is_empty()).then_some(turn);
        match next {
            Some(turn) => {
                flight.ask(turn, Stage::Getting);
                flight.polls = 0;
                self.schedule(key, None);
            }
            None => drop(self.remove(key)),
        }
        Served {
            callers,
            has_waited,
            next,
        }
    }

    fn ask_lease(&mut self, key: &Bytes) -> u64 {
        let turn = self.turn();
        if let Some(flight) = self.flights.get_mut(key) {
            flight.ask(turn, Stage::Leasing { is_notified: false });
        }
        self.schedule(key, None);
        turn
    }

    fn remove(&mut self, key: &Bytes) -> Vec<Caller> {
        self.schedule(key, None);
        let flight = self.flights.remove(key);
        flight.map_or_else(Vec::new, |flight| flight.callers.into())
    }

    /// Sets when a flight is looked at, in place of what was set.
    fn schedule(&mut self, key: &Bytes, due_ns: Option<u64>) {
        let Some(flight) = self.flights.get_mut(key) else {
            return;
        };
        if let Some(old_ns) = std::mem::replace(&mut flight.due_ns, due_ns) {
            self.dues.remove(&(old_ns, key.clone()));
        }
        if let Some(due_ns) = due_ns {
            let first = self.dues.first();
            self.is_earlier |= first.is_none_or(|(first_ns, _)| due_ns < *first_ns);
            self.dues.insert((due_ns, key.clone()));
        }
    }

    /// A flight is due.
    fn look_at(&mut self, key: Bytes, now_ns: u64) -> Option<Due> {
        let flight = self.flights.get_mut(&key)?;
        flight.due_ns = None;
        match flight.stage {
            Stage::Waiting => {
                let turn = self.ask_lease(&key);
                Some(Due::Ask(key, turn))
            }
            // The answer of Redis has a deadline of its own.
            Stage::Getting | Stage::Leasing { .. } => None,
            Stage::Held { until_ns } if until_ns <= now_ns => {
                if flight.callers.is_empty() {
                    self.remove(&key);
                    return None;
                }
                let turn = self.ask_lease(&key);
                Some(Due::Ask(key, turn))
            }
            Stage::Held { .. } | Stage::Filling { .. } => {
                let expired = flight.take_expired(now_ns);
                let due_ns = flight.held_due_ns();
                self.schedule(&key, due_ns);
                Some(Due::Expired(expired))
            }
        }
    }
}
