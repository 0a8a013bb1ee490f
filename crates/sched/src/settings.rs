//! The settings of a scheduler, its observer, and the default number of threads.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    thread,
};

use freeboard_meter::{CurrentRun, LongRunSnapshot};

use crate::{budget::BudgetLimits, driver::Driver};

/// The most workers of a scheduler.
pub const WORKERS_MAX: usize = 1_024;
/// The most threads that a scheduler has by default.
pub const THREADS_DEFAULT: usize = 10_000;
/// The most threads of a scheduler.
pub const THREADS_MAX: usize = 16_384;

/// The most runs that [`Observer::all_blocked`] and the snapshot report.
pub const HOLDERS_MAX: usize = 64;

/// The settings of a scheduler.
#[derive(Clone)]
pub struct SchedulerSettings {
    /// Prefix of the threads' names; default `freeboard`.
    pub name: String,
    /// Number of workers, 1..=[`WORKERS_MAX`]; default: the cores this process may use.
    pub workers: usize,
    /// The most worker threads, `workers`..=[`THREADS_MAX`]: each blocking call needs one beyond the workers. Default:
    /// [`threads_max_default`].
    pub threads_max: Option<usize>,
    /// Stack size of a worker thread. Default: the standard library's 2 MiB, which takes memory only as it is used.
    pub stack_bytes: Option<usize>,
    /// The limits of one run.
    pub budget: BudgetLimits,
    /// How long an idle worker searches before it sleeps, in nanoseconds; default 30,000.
    pub spin_ns: u64,
    /// Runs longer than this are reported, in nanoseconds; default 100 ms.
    pub long_run_ns: u64,
    /// Whether the report of a long run has the call stack of its thread; default no. Needs the feature `stacks`.
    pub has_stacks: bool,
    /// Makes tasks ready for outside reasons, such as network events; default none.
    pub driver: Option<Arc<dyn Driver>>,
    /// What surrounds the work of each worker and pinned thread; default nothing.
    pub thread_scope: Option<Arc<ThreadScope>>,
    /// A fault for tests; default none.
    pub fault: Option<Fault>,
    /// Receives the findings of the monitor.
    pub observer: Arc<dyn Observer>,
}

/// Calls the function that it gets, once, on a thread of the scheduler: the function returns when the thread ends. What
/// the scope sets for its thread is there for all tasks that run on it.
pub type ThreadScope = dyn Fn(&mut dyn FnMut()) + Send + Sync;

impl SchedulerSettings {
    /// Does a thread's work in its scope.
    pub(crate) fn run_thread(&self, work: &mut dyn FnMut()) {
        match &self.thread_scope {
            Some(scope) => scope(work),
            None => work(),
        }
    }

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
            thread_scope: None,
            fault: None,
            observer: Arc::new(Silent),
        }
    }
}

/// A fault that tests inject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Producers wake no worker: a sleeping worker stays asleep while there is work, until the collapse detector wakes
    /// it.
    DropWakes,
}

/// Workers slept while there was work; the monitor woke one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collapse {
    /// Workers that slept.
    pub sleeping: u64,
    /// Tasks that waited in queues.
    pub queued: u64,
    /// From the monitor's last check without findings to the detection, in nanoseconds.
    pub detect_ns: u64,
}

/// Receives findings, most of them on the monitor's thread, where it must return soon. It is called under no lock. If it
/// panics, the caller continues.
pub trait Observer: Send + Sync {
    /// A run was longer than the threshold.
    fn long_run(&self, run: &LongRunSnapshot);
    /// Workers slept while there was work.
    fn collapse(&self, collapse: &Collapse);
    /// The wait strategy of this task's thread panicked; the thread continues as under `Blocking`.
    fn wait_strategy_panicked(&self, task: Option<CurrentRun>);
    /// The number of worker threads has passed a power of two above twice the number of workers. Reported once per
    /// power, and again after the number has halved.
    fn threads_grew(&self, threads: usize) {
        let _ = threads;
    }
    /// All worker threads are blocked while tasks wait, and no further thread can be started. `holders` are the runs that
    /// hold them, at most [`HOLDERS_MAX`]. Reported at once, and each second while it lasts.
    fn all_blocked(&self, holders: &[CurrentRun]) {
        let _ = holders;
    }
    /// About a second has passed, also while all workers sleep.
    fn second(&self) {}
}

/// Ignores all findings.
struct Silent;

impl Observer for Silent {
    fn long_run(&self, _: &LongRunSnapshot) {}
    fn collapse(&self, _: &Collapse) {}
    fn wait_strategy_panicked(&self, _: Option<CurrentRun>) {}
}

/// Threads beyond the workers that the default allows on any system.
const SPARES_LEAST: usize = 8;

/// The default of `SchedulerSettings::threads_max` for a number of workers.
///
/// It is [`THREADS_DEFAULT`], lowered to a share of the system's limits, so that the program keeps the rest. Half of
/// - memory (the machine's, or the control group's if that is less) at 64 KiB per thread, of which a blocked thread with
///   its kernel stack uses about a third,
/// - the user's processes (`RLIMIT_NPROC`), the control group's (`pids.max`) and the system's threads
///   (`kernel.threads-max`, `kernel.pid_max`);
///
/// and three quarters of the memory mappings (`vm.max_map_count`) at 4 per thread: stack, signal stack, and a guard of
/// each.
///
/// At least 8 more than the workers. On systems other than Linux, [`THREADS_DEFAULT`].
pub fn threads_max_default(workers: usize) -> usize {
    static ALLOWED: OnceLock<usize> = OnceLock::new();
    let allowed = *ALLOWED.get_or_init(|| usize::try_from(allowed()).unwrap_or(usize::MAX));
    THREADS_DEFAULT
        .min(allowed)
        .max(workers.saturating_add(SPARES_LEAST))
}

#[cfg(target_os = "linux")]
fn allowed() -> u64 {
    use std::fs;

    use rustix::process::{Resource, getrlimit};
    use rustix::system::sysinfo;

    const THREAD_BYTES: u64 = 64 << 10;
    const THREAD_MAPPINGS: u64 = 4;

    // "max" and a missing file mean no limit.
    let number = |path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let info = sysinfo();
    let memory_bytes = Some(info.totalram as u64 * u64::from(info.mem_unit));
    let group_bytes = number("/sys/fs/cgroup/memory.max");
    let threads = [
        memory_bytes.map(|bytes| bytes / THREAD_BYTES),
        group_bytes.map(|bytes| bytes / THREAD_BYTES),
        getrlimit(Resource::Nproc).current,
        number("/sys/fs/cgroup/pids.max"),
        number("/proc/sys/kernel/threads-max"),
        number("/proc/sys/kernel/pid_max"),
    ];
    let mappings = number("/proc/sys/vm/max_map_count");
    let threads = threads.into_iter().flatten().map(|threads| threads / 2);
    let by_mappings = mappings.map(|mappings| mappings / THREAD_MAPPINGS / 4 * 3);
    threads.chain(by_mappings).min().unwrap_or(u64::MAX)
}

#[cfg(not(target_os = "linux"))]
fn allowed() -> u64 {
    u64::MAX
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn there_are_always_spares_and_never_too_many() {
        for workers in [1, 2, 64, 1_024] {
            let threads = threads_max_default(workers);
            assert!(threads >= workers + SPARES_LEAST, "{threads}");
            assert!(
                threads <= THREADS_DEFAULT.max(workers + SPARES_LEAST),
                "{threads}"
            );
        }
    }
}
