//! The counters of a poller: who polled it how often, and the events.

use serde::{Deserialize, Serialize};

use crate::tally::HistogramSummary;

/// Polls of one worker, of the monitor, or of the dedicated thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PollsSnapshot {
    /// Attempts to poll; another thread may have had the turn.
    pub attempts: u64,
    /// Polls without waiting.
    pub nonwait: u64,
    /// Polls that waited.
    pub wait: u64,
    /// Polls by idle threads that found events, while busy workers poll only after handling the last events.
    pub won_idle_lazy: u64,
    /// Polls by busy threads that found events, under the same rule.
    pub won_busy_lazy: u64,
    /// Polls by idle threads that found events, while busy workers poll at any time.
    pub won_idle_eager: u64,
    /// Polls by busy threads that found events, under the same rule.
    pub won_busy_eager: u64,
    /// Events of all polls.
    pub events: u64,
}

impl PollsSnapshot {
    /// Polls that found events.
    #[must_use]
    pub fn won(&self) -> u64 {
        self.won_idle_lazy + self.won_busy_lazy + self.won_idle_eager + self.won_busy_eager
    }

    /// The sum of both.
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
    /// When busy workers poll: `eager`, `drain` or `dedicated`.
    pub policy: String,
    /// Registered sockets.
    pub sources: u64,
    /// The polls of the workers, by index.
    pub workers: Vec<PollsSnapshot>,
    /// The monitor's polls, made when no other thread has polled for too long.
    pub monitor: PollsSnapshot,
    /// The polls of the thread of the policy `dedicated`.
    pub dedicated: PollsSnapshot,
    /// Events per poll that found any.
    #[serde(rename = "events_per_look")]
    pub events_per_poll: HistogramSummary,
    /// Called owners of sockets that have not run yet.
    pub outstanding: u64,
    /// Owners that have run.
    pub runs: u64,
    /// From the poll that found a socket ready to the run of its owner, in nanoseconds.
    pub readiness_to_run: HistogramSummary,
    /// The longest time between two polls while sockets were registered, in nanoseconds.
    pub gap_max_ns: u64,
    /// Waits that were ended because there was work.
    pub wakes: u64,
    /// Accepted connections.
    pub accepts: u64,
    /// Reads and writes that would have blocked.
    pub agains: u64,
}

impl PollerSnapshot {
    /// The sum of all polls.
    #[must_use]
    pub fn polls(&self) -> PollsSnapshot {
        let others = self.monitor.plus(&self.dedicated);
        self.workers
            .iter()
            .fold(others, |sum, polls| sum.plus(polls))
    }
}
