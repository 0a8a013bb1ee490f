//! The wall time of a thread by state, and the tally of its counters.
//!
//! One word holds the present state and its start; the sums of the past intervals are beside it. The thread reads the
//! clock only when its state changes, that is when it runs out of work, and not between two runs: a worker with a full
//! queue has no overhead. A reader adds the open interval.
//!
//! ```text
//!   63                                   3 2     0
//!   ┌─────────────────────────────────────┬───────┐
//!   │ since, nanoseconds                  │ state │
//!   └─────────────────────────────────────┴───────┘
//! ```

use freeboard_meter::{OwnedCounter, StateTimes, WorkerState, clock};

use crate::sync::{AtomicU64, Ordering};

const STATE_BITS: u32 = 3;
const STATE_MASK: u64 = (1 << STATE_BITS) - 1;

/// Written by one thread, read by any.
pub(crate) struct Accounting {
    created_ns: u64,
    word: AtomicU64,
    sums_ns: [OwnedCounter; WorkerState::ALL.len()],
}

fn pack(state: WorkerState, since_ns: u64) -> u64 {
    since_ns << STATE_BITS | state as u64
}

fn unpack(word: u64) -> (WorkerState, u64) {
    let state = WorkerState::ALL[(word & STATE_MASK) as usize];
    (state, word >> STATE_BITS)
}

impl Accounting {
    pub(crate) fn new(state: WorkerState) -> Self {
        let created_ns = clock::now_ns();
        Self {
            created_ns,
            word: AtomicU64::new(pack(state, created_ns)),
            sums_ns: std::array::from_fn(|_| OwnedCounter::new()),
        }
    }

    /// The state and its start.
    pub(crate) fn now(&self) -> (WorkerState, u64) {
        // Ordering: Relaxed, a single word.
        unpack(self.word.load(Ordering::Relaxed))
    }

    /// Owner only: the thread is in `state` from `now_ns` on.
    #[inline]
    pub(crate) fn enter(&self, state: WorkerState, now_ns: u64) {
        let (left, since_ns) = self.now();
        self.sums_ns[left as usize].bump(now_ns.saturating_sub(since_ns));
        // Ordering: Relaxed, as in `now`.
        self.word.store(pack(state, now_ns), Ordering::Relaxed);
    }

    /// Time in each state up to now. The start of the open interval follows from the sums, so each moment counts once,
    /// also during [`Accounting::enter`]. The state of the open interval may lag by one change.
    pub(crate) fn times(&self) -> StateTimes {
        let (state, _) = self.now();
        let mut times = StateTimes::default();
        for state in WorkerState::ALL {
            *times.of_mut(state) = self.sums_ns[state as usize].get();
        }
        let open_since_ns = self.created_ns + times.total_ns();
        *times.of_mut(state) += clock::now_ns().saturating_sub(open_since_ns);
        times
    }
}

/// Counters and times, to be summed over the threads that were one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) times: StateTimes,
    pub(crate) runs: u64,
    pub(crate) steals: u64,
    pub(crate) wakes: u64,
    pub(crate) parks: u64,
    pub(crate) budget_expiries: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        for state in WorkerState::ALL {
            *self.times.of_mut(state) += other.times.of(state);
        }
        self.runs += other.runs;
        self.steals += other.steals;
        self.wakes += other.wakes;
        self.parks += other.parks;
        self.budget_expiries += other.budget_expiries;
    }

    /// The difference to an earlier tally of the same thread.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            times: self.times.since(&earlier.times),
            runs: self.runs.saturating_sub(earlier.runs),
            steals: self.steals.saturating_sub(earlier.steals),
            wakes: self.wakes.saturating_sub(earlier.wakes),
            parks: self.parks.saturating_sub(earlier.parks),
            budget_expiries: self.budget_expiries.saturating_sub(earlier.budget_expiries),
        }
    }

    /// Moves up to `time_ns` from the time in runs to the blocked time.
    pub(crate) fn move_to_blocked(&mut self, time_ns: u64) {
        let blocked_ns = time_ns.min(self.times.run_ns);
        self.times.run_ns -= blocked_ns;
        self.times.blocked_ns += blocked_ns;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_open_interval_counts() {
        let accounting = Accounting::new(WorkerState::Park);
        let (_, began_ns) = accounting.now();
        accounting.enter(WorkerState::Run, began_ns + 1_000);
        let times = accounting.times();
        assert_eq!(times.park_ns, 1_000);
        let (state, since_ns) = accounting.now();
        assert_eq!((state, since_ns), (WorkerState::Run, began_ns + 1_000));
        let later = loop {
            let later = accounting.times();
            if later.run_ns > times.run_ns {
                break later;
            }
        };
        assert_eq!(later.park_ns, 1_000);
    }
}
