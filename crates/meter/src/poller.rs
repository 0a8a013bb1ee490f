//! What a poller has counted: how often it was looked at, by whom, and what that found.

use serde::{Deserialize, Serialize};

use crate::tally::HistogramSummary;

/// Looks of one worker, of the monitor, or of a thread of the poller's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LooksSnapshot {
    /// Times it wanted to look; somebody else may have been at it.
    pub attempts: u64,
    /// Looks without waiting.
    pub nonwait: u64,
    /// Looks that waited.
    pub wait: u64,
    /// Looks by the idle that found something, while busy workers had to have done with the last.
    pub won_idle_lazy: u64,
    /// Looks by the busy that found something, under that rule.
    pub won_busy_lazy: u64,
    /// Looks by the idle that found something, while busy workers look at any time.
    pub won_idle_eager: u64,
    /// Looks by the busy that found something, under that rule.
    pub won_busy_eager: u64,
    /// Events found in all of them.
    pub events: u64,
}

impl LooksSnapshot {
    /// Looks that found something.
    #[must_use]
    pub fn won(&self) -> u64 {
        self.won_idle_lazy + self.won_busy_lazy + self.won_idle_eager + self.won_busy_eager
    }

    /// Both together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            attempts: self.attempts + other.attempts,
            nonwait: self.nonwait + other.nonwait,
            wait: self.wait + other.wait,
            won_idle_lazy: self.won_idle_lazy + other.won_idle_lazy,
            won_busy_lazy: self.won_busy_lazy + other.won_busy_lazy,
            won_idle_eager: self.won_idle_eager + other.won_idle_eager,
            won_busy_eager: self.won_busy_eager + other.won_busy_eager,
            events: self.events + other.events,
        }
    }
}

/// One poller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PollerSnapshot {
    /// When busy workers look: `eager`, `drain` or `dedicated`.
    pub policy: String,
    /// Sockets that are watched.
    pub sources: u64,
    /// The looks of the workers, by index.
    pub workers: Vec<LooksSnapshot>,
    /// The monitor's, when nobody else had looked for too long.
    pub monitor: LooksSnapshot,
    /// Those of the thread of policy dedicated.
    pub dedicated: LooksSnapshot,
    /// Events per look that found any.
    pub events_per_look: HistogramSummary,
    /// Owners that were called for their sockets and have not run yet.
    pub outstanding: u64,
    /// Owners that have run.
    pub runs: u64,
    /// From the look that found a socket ready to the run of its owner, in nanoseconds.
    pub readiness_to_run: HistogramSummary,
    /// The longest time between two looks while sockets were watched, in nanoseconds.
    pub gap_max_ns: u64,
    /// Times that a wait was ended because there was work.
    pub wakes: u64,
    /// Connections that were accepted.
    pub accepts: u64,
    /// Reads and writes that would have blocked.
    pub agains: u64,
}

impl PollerSnapshot {
    /// The looks of all together.
    #[must_use]
    pub fn looks(&self) -> LooksSnapshot {
        let others = self.monitor.plus(&self.dedicated);
        self.workers
            .iter()
            .fold(others, |sum, looks| sum.plus(looks))
    }
}
