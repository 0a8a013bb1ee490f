//! The counters of the monitor and of hand-overs.

use std::{
    collections::VecDeque,
    sync::{Mutex as StdMutex, MutexGuard, PoisonError},
};

use freeboard_meter::{Counter, CurrentRun, Histogram, LongRunSnapshot, Peak, SchedulerSnapshot};

/// The number of long runs that are kept.
const LONG_RUNS_KEPT: usize = 32;

#[derive(Default)]
pub(crate) struct Gauges {
    pub(crate) forced_wakes: Counter,
    pub(crate) rescues: Counter,
    pub(crate) reliefs: Counter,
    pub(crate) rescued_tasks: Counter,
    pub(crate) rescue_delay: Histogram,
    pub(crate) blocking_calls: Counter,
    pub(crate) spares_exhausted: Counter,
    pub(crate) collapses: Counter,
    pub(crate) collapse_detect_ns: Peak,
    pub(crate) wasted_core_ns: Counter,
    pub(crate) long_runs: Counter,
    pub(crate) long_runs_unreported: Counter,
    latest: StdMutex<VecDeque<LongRunSnapshot>>,
    /// The runs that hold all threads while tasks wait.
    all_blocked: StdMutex<Vec<CurrentRun>>,
}

impl Gauges {
    fn latest(&self) -> MutexGuard<'_, VecDeque<LongRunSnapshot>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn keep(&self, run: LongRunSnapshot) {
        let mut latest = self.latest();
        if latest.len() == LONG_RUNS_KEPT {
            latest.pop_front();
        }
        latest.push_back(run);
    }

    pub(crate) fn long_runs(&self) -> Vec<LongRunSnapshot> {
        self.latest().iter().cloned().collect()
    }

    fn all_blocked(&self) -> MutexGuard<'_, Vec<CurrentRun>> {
        let all_blocked = self.all_blocked.lock();
        all_blocked.unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_all_blocked(&self, holders: Vec<CurrentRun>) {
        *self.all_blocked() = holders;
    }

    /// Everything except the numbers of threads.
    pub(crate) fn snapshot(&self) -> SchedulerSnapshot {
        let delay = self.rescue_delay.summary();
        SchedulerSnapshot {
            forced_wakes: self.forced_wakes.get(),
            rescues: self.rescues.get(),
            reliefs: self.reliefs.get(),
            rescued_tasks: self.rescued_tasks.get(),
            rescue_delay: (delay.count > 0).then_some(delay),
            blocking_calls: self.blocking_calls.get(),
            spares_exhausted: self.spares_exhausted.get(),
            collapses: self.collapses.get(),
            collapse_detect_ns_max: self.collapse_detect_ns.get(),
            wasted_core_ns: self.wasted_core_ns.get(),
            long_runs: self.long_runs.get(),
            long_runs_unreported: self.long_runs_unreported.get(),
            all_blocked: self.all_blocked().clone(),
            ..SchedulerSnapshot::default()
        }
    }
}
