//! How a scheduler is set up.

use std::{fmt, sync::Arc, thread};

use freeboard_meter::{CurrentRun, LongRunSnapshot};

use crate::{budget::BudgetLimits, driver::Driver, fault::Fault, limits::threads_max_default};

/// Workers that one scheduler may have.
pub const WORKERS_MAX: usize = 1_024;
/// Threads that one scheduler may have.
pub const THREADS_MAX: usize = 16_384;

/// Runs that [`Observer::all_blocked`] is told of, and the snapshot shows.
pub const HOLDERS_MAX: usize = 64;

/// How a scheduler is set up.
#[derive(Clone)]
pub struct SchedulerSettings {
    /// Prefix of the threads' names; default `freeboard`.
    pub name: String,
    /// Number of workers, 1..=[`WORKERS_MAX`]; default: the cores this process may use.
    pub workers: usize,
    /// The most worker threads, `workers`..=[`THREADS_MAX`]: each call that blocks needs one beyond
    /// the workers. Default: [`threads_max_default`].
    pub threads_max: Option<usize>,
    /// Size of a worker thread's stack. Default: the standard library's, 2 MiB, of which memory is
    /// taken only as far as it is used.
    pub stack_bytes: Option<usize>,
    /// What a task may use in one run.
    pub budget: BudgetLimits,
    /// How long an idle worker looks for work before it sleeps, in nanoseconds; default 30,000.
    pub spin_ns: u64,
    /// Runs longer than this are reported, in nanoseconds; default 100 ms.
    pub long_run_ns: u64,
    /// Whether the report of a long run has the call stack of its thread; default no. Needs the
    /// feature `stacks`.
    pub has_stacks: bool,
    /// What makes tasks ready besides tasks, such as the network; default nothing.
    pub driver: Option<Arc<dyn Driver>>,
    /// What the scheduler shall do wrong, for tests.
    pub fault: Option<Fault>,
    /// Who is told what the monitor finds.
    pub observer: Arc<dyn Observer>,
}

impl SchedulerSettings {
    pub(crate) fn threads_max(&self) -> usize {
        self.threads_max
            .unwrap_or_else(|| threads_max_default(self.workers))
    }
}

impl fmt::Debug for SchedulerSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SchedulerSettings")
            .field("name", &self.name)
            .field("workers", &self.workers)
            .field("threads_max", &self.threads_max)
            .finish_non_exhaustive()
    }
}

impl Default for SchedulerSettings {
    fn default() -> Self {
        Self {
            name: "freeboard".into(),
            workers: thread::available_parallelism().map_or(1, usize::from),
            threads_max: None,
            stack_bytes: None,
            budget: BudgetLimits::default(),
            spin_ns: 30_000,
            long_run_ns: 100_000_000,
            has_stacks: false,
            driver: None,
            fault: None,
            observer: Arc::new(Silent),
        }
    }
}

/// Workers slept while there was work for them; the monitor woke one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collapse {
    /// Workers that slept.
    pub sleeping: u64,
    /// Tasks that waited in queues.
    pub queued: u64,
    /// From the last look at which all was well until it was seen, in nanoseconds.
    pub detect_ns: u64,
}

/// Is told what goes wrong: what the monitor finds on the monitor's thread, where it must return soon.
/// It is called under no lock. Should it panic, the caller goes on.
pub trait Observer: Send + Sync {
    /// A run was longer than the threshold.
    fn long_run(&self, run: &LongRunSnapshot);
    /// Workers slept while there was work.
    fn collapse(&self, collapse: &Collapse);
    /// The wait strategy of this task's thread panicked; it goes on blocking.
    fn wait_strategy_panicked(&self, task: Option<CurrentRun>);
    /// The number of worker threads has passed a power of two above twice the number of workers. Once
    /// for each power, until there are half as many again.
    fn threads_grew(&self, threads: usize) {
        let _ = threads;
    }
    /// All worker threads are blocked while tasks wait, and no further thread can be had: these runs
    /// hold them, at most [`HOLDERS_MAX`]. Told at once, and each second while it lasts.
    fn all_blocked(&self, holders: &[CurrentRun]) {
        let _ = holders;
    }
    /// About a second has passed; on the monitor's thread, also while all workers sleep.
    fn second(&self) {}
}

/// Tells nobody.
struct Silent;

impl Observer for Silent {
    fn long_run(&self, _: &LongRunSnapshot) {}
    fn collapse(&self, _: &Collapse) {}
    fn wait_strategy_panicked(&self, _: Option<CurrentRun>) {}
}
