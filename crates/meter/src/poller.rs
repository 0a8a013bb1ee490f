//! The state of a poller as plain data: polls by origin, events and delays.

use serde::{Deserialize, Serialize};

use crate::tally::HistogramSummary;

/// Polls of one origin: a worker, the monitor, or the poller's own thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PollsSnapshot {
    /// Attempted polls; another thread may have been polling.
    pub attempts: u64,
    /// Polls without waiting.
    pub nonwait: u64,
    /// Polls that waited.
    pub wait: u64,
    /// Polls of idle workers that found events, while busy workers had to finish the last batch first.
    pub won_idle_lazy: u64,
    /// Polls of busy workers that found events, under the same rule.
    pub won_busy_lazy: u64,
    /// Polls of idle workers that found events, while busy workers poll at any time.
    pub won_idle_eager: u64,
    /// Polls of busy workers that found events, under the same rule.
    pub won_busy_eager: u64,
    /// Events found.
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
    /// The monitor's polls, which it makes when no worker has polled for too long.
    pub monitor: PollsSnapshot,
    /// Polls of the thread of the policy dedicated.
    pub dedicated: PollsSnapshot,
    /// Events per poll, of polls that found any.
    pub events_per_look: HistogramSummary,
    /// Actors that were woken for their sockets and have not run yet.
    pub outstanding: u64,
    /// Runs of actors for their sockets.
    pub runs: u64,
    /// From the poll that found a socket ready to the run of its actor, in nanoseconds.
    pub readiness_to_run: HistogramSummary,
    /// The longest time between two polls while sockets were registered, in nanoseconds.
    pub gap_max_ns: u64,
    /// Times that a waiting poll was woken because there was work.
    pub wakes: u64,
    /// Accepted connections.
    pub accepts: u64,
    /// Reads and writes that would have blocked.
    pub agains: u64,
}

impl PollerSnapshot {
    /// The polls of all origins.
    #[must_use]
    pub fn polls(&self) -> PollsSnapshot {
        let others = self.monitor.plus(&self.dedicated);
        self.workers
            .iter()
            .fold(others, |sum, polls| sum.plus(polls))
    }
}
