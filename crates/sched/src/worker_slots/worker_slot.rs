//! One worker slot: its thread, and the counters of all threads that were this worker.

use freeboard_meter::{StateTimes, WorkerState, clock};

use crate::accounting::Tally;

/// Why a worker slot is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandOverReason {
    /// Its task announced that it will block.
    Announced,
    /// The monitor found its run blocked, since this time.
    Blocked { since_ns: u64 },
    /// The monitor found every worker computing for long, this one among them.
    Computing,
}

/// A worker slot as others see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerSlotReading {
    /// Its thread.
    pub(crate) occupant: Option<usize>,
    pub(crate) is_online: bool,
    /// The run of its thread is known to block.
    pub(crate) is_blocked: bool,
    /// The counters of all its threads so far.
    pub(crate) tally: Tally,
}

/// Protected by the lock of [`super::WorkerSlots`].
pub(super) struct WorkerSlot {
    is_online: bool,
    occupant: Option<Occupant>,
    /// The tally up to the last change of the occupant.
    past: Tally,
    /// The times as last read. Blocked time may have been shown as running before; it is not taken back, because
    /// counters only grow.
    shown: StateTimes,
    vacant_since_ns: u64,
    /// It was taken from a thread that has been blocked at least since then.
    stuck_since_ns: Option<u64>,
}

struct Occupant {
    thread: usize,
    /// The thread's tally when it got the worker slot.
    start: Tally,
    /// Blocked time of its run, which the thread itself counts as running.
    blocked_ns: u64,
    is_blocked: bool,
}

impl Occupant {
    fn tally(&self, now: &Tally) -> Tally {
        let mut tally = now.since(&self.start);
        tally.move_to_blocked(self.blocked_ns);
        tally
    }
}

impl WorkerSlot {
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

    /// The thread, whose tally is `now`, takes the worker slot.
    pub(super) fn enter(&mut self, thread: usize, now: Tally) {
        debug_assert!(self.is_vacant(), "a worker slot has one thread at a time");
        self.past.times.park_ns += clock::now_ns() - self.vacant_since_ns;
        self.occupant = Some(Occupant {
            thread,
            start: now,
            blocked_ns: 0,
            is_blocked: false,
        });
    }

    /// Takes the worker slot from its thread, whose tally is `now`.
    pub(super) fn leave(&mut self, now: Tally, reason: HandOverReason) {
        self.vacant_since_ns = clock::now_ns();
        if let Some(occupant) = self.occupant.take() {
            self.stuck_since_ns = match reason {
                HandOverReason::Announced | HandOverReason::Computing => None,
                HandOverReason::Blocked { since_ns } => Some(since_ns),
            };
            self.past.add(&occupant.tally(&now));
        }
    }

    /// For the thread that takes over: since when its predecessor was stuck.
    pub(super) fn take_stuck(&mut self) -> Option<u64> {
        self.stuck_since_ns.take()
    }

    pub(super) fn go_online(&mut self) {
        let now_ns = clock::now_ns();
        self.past.times.offline_ns += now_ns - self.vacant_since_ns;
        self.vacant_since_ns = now_ns;
        self.is_online = true;
    }

    /// Returns the thread that lost the worker slot.
    pub(super) fn go_offline(&mut self, tally_of: impl Fn(usize) -> Tally) -> Option<usize> {
        let thread = self.occupant.as_ref().map(|it| it.thread);
        match thread {
            Some(thread) => self.leave(tally_of(thread), HandOverReason::Announced),
            None => {
                let now_ns = clock::now_ns();
                self.past.times.park_ns += now_ns - self.vacant_since_ns;
                self.vacant_since_ns = now_ns;
            }
        }
        self.stuck_since_ns = None;
        self.is_online = false;
        thread
    }

    pub(super) fn add_blocked(&mut self, time_ns: u64) {
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

    pub(super) fn read(&mut self, tally_of: impl Fn(usize) -> Tally) -> WorkerSlotReading {
        let mut tally = self.past;
        match &self.occupant {
            Some(occupant) => tally.add(&occupant.tally(&tally_of(occupant.thread))),
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
        WorkerSlotReading {
            occupant: self.occupant.as_ref().map(|it| it.thread),
            is_online: self.is_online,
            is_blocked: self.occupant.as_ref().is_some_and(|it| it.is_blocked),
            tally,
        }
    }
}
