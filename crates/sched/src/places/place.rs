//! One worker's place: who sits in it, and what those who sat in it before have done.

use freeboard_meter::{StateTimes, WorkerState, clock};

use super::Stuck;
use crate::tally::Tally;

/// What others see of a place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlaceReading {
    /// The seat of the thread that has it.
    pub(crate) occupant: Option<usize>,
    pub(crate) is_online: bool,
    /// The run of its thread is known to block.
    pub(crate) is_blocked: bool,
    /// What was done in it so far, by all threads that had it.
    pub(crate) tally: Tally,
}

/// Protected by the lock of [`super::Places`].
pub(super) struct Place {
    is_online: bool,
    occupant: Option<Occupant>,
    /// What was done in the place up to the last change of its occupant.
    past: Tally,
    /// Times as they were read last. Time that turns out to have been blocked was shown as running: what
    /// was shown is not taken back, for counters only grow.
    shown: StateTimes,
    /// Since when nobody has it.
    vacant_since_ns: u64,
    /// It was taken from a thread that blocks since then, at the latest.
    stuck_since_ns: Option<u64>,
}

struct Occupant {
    seat: usize,
    /// The seat's tally when it got the place.
    then: Tally,
    /// Time of its run that was blocked, though the thread itself reckons it as running.
    blocked_ns: u64,
    is_blocked: bool,
}

impl Occupant {
    fn tally(&self, now: &Tally) -> Tally {
        let mut tally = now.since(&self.then);
        tally.reckon_blocked(self.blocked_ns);
        tally
    }
}

impl Place {
    pub(super) fn new() -> Self {
        Self {
            is_online: true,
            occupant: None,
            past: Tally::default(),
            shown: StateTimes::default(),
            vacant_since_ns: clock::now_ns(),
            stuck_since_ns: None,
        }
    }

    pub(super) fn is_online(&self) -> bool {
        self.is_online
    }

    /// Whether it waits for a thread.
    pub(super) fn is_vacant(&self) -> bool {
        self.is_online && self.occupant.is_none()
    }

    pub(super) fn occupant(&self) -> Option<usize> {
        self.occupant.as_ref().map(|occupant| occupant.seat)
    }

    pub(super) fn enter(&mut self, seat: usize, live: Tally) {
        debug_assert!(self.is_vacant(), "a place has one thread at a time");
        self.past.times.park_ns += clock::now_ns() - self.vacant_since_ns;
        self.occupant = Some(Occupant {
            seat,
            then: live,
            blocked_ns: 0,
            is_blocked: false,
        });
    }

    /// Takes the place from its thread, whose tally is `live`.
    pub(super) fn leave(&mut self, live: Tally, why: Stuck) {
        self.vacant_since_ns = clock::now_ns();
        if let Some(occupant) = self.occupant.take() {
            let since_ns = match why {
                Stuck::Announced | Stuck::Computing => None,
                Stuck::Blocked { since_ns } => Some(since_ns),
            };
            self.stuck_since_ns = since_ns;
            self.past.add(&occupant.tally(&live));
        }
    }

    /// For the thread that takes the place over: since when its forerunner was stuck.
    pub(super) fn take_stuck(&mut self) -> Option<u64> {
        self.stuck_since_ns.take()
    }

    pub(super) fn go_online(&mut self) {
        let now_ns = clock::now_ns();
        self.past.times.offline_ns += now_ns - self.vacant_since_ns;
        self.vacant_since_ns = now_ns;
        self.is_online = true;
    }

    /// Returns the seat of the thread that lost it.
    pub(super) fn go_offline(&mut self, live: impl Fn(usize) -> Tally) -> Option<usize> {
        let seat = self.occupant();
        match seat {
            Some(seat) => self.leave(live(seat), Stuck::Announced),
            None => {
                let now_ns = clock::now_ns();
                self.past.times.park_ns += now_ns - self.vacant_since_ns;
                self.vacant_since_ns = now_ns;
            }
        }
        self.stuck_since_ns = None;
        self.is_online = false;
        seat
    }

    pub(super) fn reckon_blocked(&mut self, time_ns: u64) {
        if let Some(occupant) = &mut self.occupant {
            occupant.blocked_ns += time_ns;
            occupant.is_blocked = true;
        }
    }

    pub(super) fn end_blocked(&mut self) {
        if let Some(occupant) = &mut self.occupant {
            occupant.is_blocked = false;
        }
    }

    pub(super) fn read(&mut self, live: impl Fn(usize) -> Tally) -> PlaceReading {
        let mut tally = self.past;
        match &self.occupant {
            Some(occupant) => tally.add(&occupant.tally(&live(occupant.seat))),
            None => {
                let vacant_ns = clock::now_ns() - self.vacant_since_ns;
                if self.is_online {
                    tally.times.park_ns += vacant_ns;
                } else {
                    tally.times.offline_ns += vacant_ns;
                }
            }
        }
        for state in WorkerState::ALL {
            let shown_ns = self.shown.of_mut(state);
            *shown_ns = tally.times.of(state).max(*shown_ns);
        }
        tally.times = self.shown;
        PlaceReading {
            occupant: self.occupant(),
            is_online: self.is_online,
            is_blocked: self.occupant.as_ref().is_some_and(|it| it.is_blocked),
            tally,
        }
    }
}
