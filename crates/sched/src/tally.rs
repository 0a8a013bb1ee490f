//! What one thread, or one worker's place, has done: counts and time by state, as plain numbers.

use freeboard_meter::{StateTimes, WorkerState};

/// Counts and times, to be added up over the threads that sat in a place.
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

    /// What was added since `earlier`, of the same thread.
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

    /// Takes up to `time_ns` from the time in runs and counts it as blocked.
    pub(crate) fn reckon_blocked(&mut self, time_ns: u64) {
        let blocked_ns = time_ns.min(self.times.run_ns);
        self.times.run_ns -= blocked_ns;
        self.times.blocked_ns += blocked_ns;
    }
}
