//! What a run came to, and what it shows.

use freeboard::meter::{HistogramSummary, SchedulerSnapshot, WorkerSnapshot};

use super::{
    plan::{NativeKind, Plan},
    watch::Seen,
};

/// How the run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// Every process ended by itself.
    Done,
    /// Ctrl-C.
    Interrupted,
}

/// A run and its result.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) plan: Plan,
    pub(super) ending: Ending,
    /// Seconds from the release to the end of each process that did all its repetitions.
    pub(super) elapsed: Vec<f64>,
    /// Seconds from the release until the last process had ended.
    pub(super) makespan: f64,
    /// Seconds of processor time in between.
    pub(super) processor_seconds: Option<f64>,
    /// Seconds of processor time that the workers on-line could have used.
    pub(super) capacity: f64,
    /// Native calls in all.
    pub(super) calls: u64,
    pub(super) calls_by_worker: Vec<u64>,
    /// Nanoseconds in each native call.
    pub(super) native_times: HistogramSummary,
    /// The workers at the end, their times counted from the release.
    pub(super) workers: Vec<WorkerSnapshot>,
    pub(super) scheduler: SchedulerSnapshot,
    pub(super) seen: Seen,
}

impl Outcome {
    /// Whether each process did all its repetitions.
    pub(super) fn is_whole(&self) -> bool {
        self.calls == self.plan.repetitions() && self.elapsed.len() == self.plan.procs as usize
    }

    /// Share of its time on-line that each worker ran processes, 0 to 1.
    pub(super) fn utilisation(&self) -> Vec<f64> {
        let times = self.workers.iter().map(|worker| worker.times);
        times.map(|times| times.utilisation()).collect()
    }

    /// The makespan over that of workers which are never idle. `None` for calls that block: how many
    /// of them can block at once is a matter of threads, not of processors.
    pub(super) fn makespan_over_ideal(&self) -> Option<f64> {
        let used = self.processor_seconds.filter(|used| *used > 0.0)?;
        (self.plan.native == NativeKind::Cpu).then(|| self.capacity / used)
    }

    /// Seconds that calls that block would take if workers waited for them.
    pub(super) fn waited(&self) -> f64 {
        let blocked = self.calls as f64 * self.plan.sleep.as_secs_f64();
        blocked / self.plan.schedulers as f64
    }

    /// `None` if there was no rescue.
    pub(super) fn rescue_delay_p99_ns(&self) -> Option<u64> {
        let delay = self.scheduler.rescue_delay.as_ref()?;
        (delay.count > 0).then_some(delay.p99)
    }
}
