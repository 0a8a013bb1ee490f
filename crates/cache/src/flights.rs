//! The flights of this process: all keys that are being looked up, and when each is due.
//!
//! One mutex is held for a few map operations, and never while user code runs. An operation that schedules an earlier
//! due time than all others wakes the actor that keeps the timer (see `watch.rs`).

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

/// Due keys handled per reading of the clock.
const DUE_MAX: usize = 256;

type Waker = Box<dyn Fn() + Send + Sync>;

pub(crate) struct Flights {
    state: Mutex<State>,
    limits: Limits,
    waker: OnceLock<Waker>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) waiters_max: usize,
    pub(crate) flights_max: usize,
    pub(crate) poll: Backoff,
    /// Duration of a lease.
    pub(crate) lease_ns: u64,
}

#[derive(Default)]
struct State {
    flights: HashMap<Bytes, Flight>,
    dues: BTreeSet<(u64, Bytes)>,
    last_turn: u64,
    /// A new due time is earlier than those that the actor knows.
    is_earlier: bool,
    /// The actor was woken and has not run yet.
    is_woken: bool,
    is_closed: bool,
}

/// The result of joining a flight.
pub(crate) enum Joined {
    Waits,
    /// It is the first caller, and must send the request with this turn.
    Asks(u64),
    Refused(Caller, CacheError),
}

/// Callers to answer, and the turn of the request for later callers.
#[derive(Default)]
pub(crate) struct Served {
    pub(crate) callers: Vec<Caller>,
    pub(crate) has_waited: bool,
    pub(crate) next: Option<u64>,
}

/// The result of a granted lease.
#[derive(Default)]
pub(crate) struct Granted {
    /// The caller that gets it; `None` if none waits.
    pub(crate) leader: Option<Caller>,
    /// Callers that get the stale value.
    pub(crate) served: Served,
    /// The turn in which the others wait, if there is no stale value.
    pub(crate) turn: Option<u64>,
}

/// The result of a refused lease.
#[derive(Default)]
pub(crate) struct Waits {
    pub(crate) expired: Vec<Caller>,
    /// The key was filled or released meanwhile: ask again with this turn.
    pub(crate) again: Option<u64>,
}

/// A due flight.
pub(crate) enum Due {
    Ask(Bytes, u64),
    Expired(Vec<Caller>),
}

impl Flights {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            state: Mutex::default(),
            limits,
            waker: OnceLock::new(),
        }
    }

    /// The actor starts, or starts again: opens it. The first waker stays, because a restart keeps the actor.
    pub(crate) fn open(&self, waker: impl Fn() + Send + Sync + 'static) {
        let _ = self.waker.set(Box::new(waker));
        self.with(|state| state.is_closed = false);
    }

    /// Wakes the actor.
    pub(crate) fn wake(&self) {
        if let Some(wake) = self.waker.get() {
            wake();
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let outcome = act(&mut state);
        let is_earlier = std::mem::take(&mut state.is_earlier);
        let must_call = is_earlier && !std::mem::replace(&mut state.is_woken, true);
        drop(state);
        if must_call {
            self.wake();
        }
        outcome
    }

    pub(crate) fn join(&self, key: &Bytes, caller: Caller) -> Joined {
        self.with(|state| {
            if state.is_closed {
                return Joined::Refused(caller, CacheError::Closed);
            }
            if let Some(flight) = state.flights.get_mut(key) {
                if !flight.has_capacity(self.limits.waiters_max) {
                    return Joined::Refused(caller, CacheError::WaitersFull);
                }
                let is_first = flight.callers.is_empty();
                flight.callers.push_back(caller);
                if is_first {
                    // Without other callers, no deadline was scheduled.
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

    /// Takes an answer for the callers that asked.
    pub(crate) fn answered(&self, key: &Bytes, turn: u64) -> Served {
        self.with(|state| match state.flight(key, turn) {
            Some(flight) => {
                let callers = flight.take_asked();
                state.serve(key, callers)
            }
            None => Served::default(),
        })
    }

    /// Takes all callers, because there is no answer.
    pub(crate) fn failed(&self, key: &Bytes, turn: u64) -> Vec<Caller> {
        self.with(|state| match state.flight(key, turn) {
            Some(_) => state.remove(key),
            None => Vec::new(),
        })
    }

    /// The lease is requested after the GET. `false` if the flight no longer exists.
    pub(crate) fn leasing(&self, key: &Bytes, turn: u64) -> bool {
        self.with(|state| {
            let flight = state.flight(key, turn);
            flight.is_some_and(|flight| {
                flight.stage = Stage::Leasing { is_notified: false };
                true
            })
        })
    }

    /// Redis granted the lease, with or without a stale value.
    pub(crate) fn granted(&self, key: &Bytes, turn: u64, has_stale: bool, now_ns: u64) -> Granted {
        self.with(|state| {
            let Some(flight) = state.flight(key, turn) else {
                return Granted::default();
            };
            let leader = flight.take_leader();
            if has_stale {
                let callers = flight.take_asked();
                let served = state.serve(key, callers);
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

    /// No lease is available until `open_ns`, because of another holder or the rate limit, and there is no stale
    /// value.
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

    /// The fill is sent.
    pub(crate) fn filling(&self, key: &Bytes, turn: u64) {
        self.with(|state| {
            if let Some(flight) = state.flight(key, turn) {
                flight.fill();
            }
        });
    }

    /// The fill has ended.
    pub(crate) fn filled(&self, key: &Bytes, turn: u64, ending: Ending) -> Served {
        self.with(|state| match state.flight(key, turn) {
            Some(flight) => {
                let callers = flight.filled(ending);
                state.serve(key, callers)
            }
            None => Served::default(),
        })
    }

    /// The holder has given up. The actor asks for the next caller: otherwise callers that give up at once, inside
    /// their function, would recurse.
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

    /// The key was filled or released. Returns the turn of the request to send, if callers wait.
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

    /// Takes the due flights, and returns when the next is due.
    pub(crate) fn due(&self, now_ns: u64) -> (Vec<Due>, Option<u64>) {
        self.with(|state| {
            state.is_woken = false;
            let mut all = Vec::new();
            while all.len() < DUE_MAX {
                match state.dues.first() {
                    Some((due_ns, _)) if *due_ns <= now_ns => {}
                    _ => break,
                }
                if let Some((_, key)) = state.dues.pop_first() {
                    all.extend(state.handle_due(key, now_ns));
                }
            }
            // The returned time includes all schedules.
            state.is_earlier = false;
            (all, state.dues.first().map(|(due_ns, _)| *due_ns))
        })
    }

    /// Refuses new callers, and takes all present ones.
    pub(crate) fn close(&self) -> Vec<Caller> {
        self.with(|state| {
            state.is_closed = true;
            state.dues.clear();
            let flights = state.flights.drain().map(|(_, flight)| flight);
            let mut flights: Vec<_> = flights.collect();
            // In the order of their requests, so that a seeded test repeats it.
            flights.sort_unstable_by_key(|flight| flight.turn);
            flights.into_iter().flat_map(|it| it.callers).collect()
        })
    }

    /// Number of keys being looked up.
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

    /// After `callers` were taken: the others share a new request, or the flight ends.
    fn serve(&mut self, key: &Bytes, callers: Vec<Caller>) -> Served {
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

    /// Replaces the due time of a flight.
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

    /// Handles a due flight.
    fn handle_due(&mut self, key: Bytes, now_ns: u64) -> Option<Due> {
        let flight = self.flights.get_mut(&key)?;
        flight.due_ns = None;
        match flight.stage {
            Stage::Waiting => {
                let turn = self.ask_lease(&key);
                Some(Due::Ask(key, turn))
            }
            // The request to Redis has its own deadline.
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
