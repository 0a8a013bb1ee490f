//! What the processes, the watch and the run share: counts, times, and a way to tell.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

use freeboard::meter::{Histogram, HistogramSummary, WorkerSnapshot, clock};

use super::plan::Plan;

/// What the run hears of.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// All processes are there.
    Born,
    /// They go.
    Released,
    /// Half of the repetitions are done.
    Half,
    /// Every process has ended.
    AllEnded,
    /// An actor panicked.
    Panicked(String),
    /// Ctrl-C.
    Interrupted,
}

/// How things stood when the processes were released.
#[derive(Debug)]
pub(crate) struct Release {
    pub(crate) at_ns: u64,
    pub(crate) processor_time: Option<Duration>,
    pub(crate) workers: Vec<WorkerSnapshot>,
}

/// Counts of the run. All orderings but one are Relaxed: each count stands for itself, and the final
/// ones are read after the channel of [`Event`] has ordered them.
#[derive(Debug)]
pub(crate) struct Tally {
    half: u64,
    calls: AtomicU64,
    calls_by_worker: Box<[AtomicU64]>,
    native_times: Histogram,
    release: OnceLock<Release>,
    /// When each process was through; 0 if it is not.
    finished_ns: Box<[AtomicU64]>,
    alive: AtomicU32,
    must_stop: AtomicBool,
    events: mpsc::Sender<Event>,
}

impl Tally {
    /// Counts at 0.
    pub(crate) fn new(plan: &Plan, events: mpsc::Sender<Event>) -> Self {
        let zeroes = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        Self {
            half: plan.repetitions().div_ceil(2),
            calls: AtomicU64::new(0),
            calls_by_worker: zeroes(plan.schedulers),
            native_times: Histogram::new(),
            release: OnceLock::new(),
            finished_ns: zeroes(plan.procs as usize),
            alive: AtomicU32::new(plan.procs),
            must_stop: AtomicBool::new(false),
            events,
        }
    }

    /// Tells the run. Nobody listens any more once it is over.
    pub(crate) fn tell(&self, event: Event) {
        let _ = self.events.send(event);
    }

    /// All processes are there, and go.
    pub(crate) fn release(&self, release: Release) {
        let is_first = self.release.set(release).is_ok();
        assert!(is_first, "the processes are released once");
    }

    /// How things stood then, if they were.
    pub(crate) fn released(&self) -> Option<&Release> {
        self.release.get()
    }

    /// A native call that this worker began has returned, with its duration in nanoseconds.
    pub(crate) fn add_call(&self, worker: Option<usize>, native_ns: u64) {
        self.native_times.record_shared(native_ns);
        if let Some(calls) = worker.and_then(|worker| self.calls_by_worker.get(worker)) {
            calls.fetch_add(1, Ordering::Relaxed);
        }
        if self.calls.fetch_add(1, Ordering::Relaxed) + 1 == self.half {
            self.tell(Event::Half);
        }
    }

    /// Native calls so far.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Native calls so far, by worker.
    pub(crate) fn calls_by_worker(&self) -> Vec<u64> {
        self.calls_by_worker
            .iter()
            .map(|calls| calls.load(Ordering::Relaxed))
            .collect()
    }

    /// The times of the native calls so far.
    pub(crate) fn native_times(&self) -> HistogramSummary {
        self.native_times.summary()
    }

    /// A process has done all its repetitions.
    pub(crate) fn finish(&self, process: u32) {
        self.finished_ns[process as usize].store(clock::now_ns(), Ordering::Relaxed);
    }

    /// Seconds from the release until each process was through; of those that are.
    pub(crate) fn elapsed(&self) -> Vec<f64> {
        let released_ns = self.released().map_or(0, |release| release.at_ns);
        self.finished_ns
            .iter()
            .map(|finished_ns| finished_ns.load(Ordering::Relaxed))
            .filter(|finished_ns| *finished_ns > 0)
            .map(|finished_ns| finished_ns.saturating_sub(released_ns) as f64 / 1e9)
            .collect()
    }

    /// One process has ended; the last one says so.
    pub(crate) fn end_process(&self) {
        if self.alive.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.tell(Event::AllEnded);
        }
    }

    /// Asks the processes to end before their next call.
    pub(crate) fn stop(&self) {
        self.must_stop.store(true, Ordering::Relaxed);
    }

    /// Whether they shall.
    #[inline]
    pub(crate) fn must_stop(&self) -> bool {
        self.must_stop.load(Ordering::Relaxed)
    }
}
