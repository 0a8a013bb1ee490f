//! The scheduler's public interface: start, schedule, snapshots, shutdown.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use freeboard_meter::{
    LongRunSnapshot, PollerSnapshot, SchedulerSnapshot, WorkerSnapshot, WorkerState,
};

use crate::{
    driver, monitor,
    pinned::{Pinned, WaitStrategy},
    settings::{SchedulerSettings, THREADS_MAX, WORKERS_MAX},
    shared::Shared,
    task::Task,
    worker::{self, Worker},
    worker_slots::WorkerSlotReading,
};

/// Why a scheduler could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The number of workers is out of range.
    #[error("a scheduler has 1 to {WORKERS_MAX} workers, not {0}")]
    Workers(usize),
    /// The number of threads is out of range.
    #[error(
        "a scheduler of {workers} workers has {workers} to {THREADS_MAX} threads, not {threads}"
    )]
    Threads {
        /// Configured workers.
        workers: usize,
        /// Configured threads.
        threads: usize,
    },
    /// The budget allows no message, or no time.
    #[error("a run's budget allows at least one message and one nanosecond")]
    Budget,
    /// The system refused to start a thread.
    #[error("cannot start a worker thread: {0}")]
    Thread(#[from] io::Error),
}

/// The requested number of on-line workers is out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("1 to {workers} workers can be on-line, not {online}")]
pub struct OnlineError {
    /// The requested number.
    pub online: usize,
    /// The scheduler's workers.
    pub workers: usize,
}

/// Runs tasks on a fixed number of workers. Cheap to clone.
#[derive(Clone)]
pub struct Scheduler {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Scheduler")
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}

impl Scheduler {
    /// Starts the workers and the monitor. After a shutdown the last thread calls `on_end` once. From then on no thread
    /// touches a task, so the tasks may be freed.
    ///
    /// # Errors
    /// [`StartError`] for settings out of range or a thread that cannot be started.
    pub fn start(
        mut settings: SchedulerSettings,
        on_end: impl FnOnce() + Send + 'static,
    ) -> Result<Self, StartError> {
        let (workers, threads) = (settings.workers, settings.threads_max());
        // The default is read from the system once.
        settings.threads_max = Some(threads);
        if !(1..=WORKERS_MAX).contains(&workers) {
            return Err(StartError::Workers(workers));
        }
        if !(workers..=THREADS_MAX).contains(&threads) {
            return Err(StartError::Threads { workers, threads });
        }
        if settings.budget.messages == 0 || settings.budget.time_ns == 0 {
            return Err(StartError::Budget);
        }
        let shared = Arc::new(Shared::new(settings, on_end));
        let scheduler = Self { shared };
        // One more than workers: the first spare is parked in advance.
        let threads = threads.min(workers + 1);
        let started = (0..threads)
            .try_for_each(|_| worker::start_thread(&scheduler.shared).map(drop))
            .and_then(|()| monitor::start(&scheduler.shared));
        if let Err(error) = started {
            scheduler.request_shutdown();
            return Err(error.into());
        }
        Ok(scheduler)
    }

    /// A scheduler without threads: the executor runs the tasks. Workers, threads and the driver of the settings are
    /// ignored.
    ///
    /// # Errors
    /// [`StartError::Budget`].
    #[cfg(feature = "manual")]
    pub fn manual(
        executor: &crate::manual::Executor,
        settings: SchedulerSettings,
        on_end: impl FnOnce() + Send + 'static,
    ) -> Result<Self, StartError> {
        use crate::manual::{THREAD, without_threads};
        if settings.budget.messages == 0 || settings.budget.time_ns == 0 {
            return Err(StartError::Budget);
        }
        let mut shared = Shared::new(without_threads(settings), on_end);
        shared.manual = Some(executor.clone());
        // Until its shutdown.
        shared.enter(THREAD);
        let shared = Arc::new(shared);
        Ok(Self { shared })
    }

    /// The executor that runs the tasks, of a scheduler without threads.
    #[cfg(feature = "manual")]
    pub fn executor(&self) -> Option<&crate::manual::Executor> {
        self.shared.manual.as_ref()
    }

    /// Puts a task into a run queue: the current worker's, or the injector if the caller is not a worker of this
    /// scheduler.
    ///
    /// The caller has moved the task's [`crate::RunState`] to queued, and fulfils the contract of
    /// [`Task::from_header`].
    #[inline]
    pub fn schedule(&self, task: Task) {
        #[cfg(feature = "manual")]
        if let Some(executor) = &self.shared.manual {
            return executor.push(task, &self.shared);
        }
        if Worker::with_current(&self.shared, |worker| worker.schedule(task)).is_none() {
            if driver::is_dispatching() {
                self.shared.inject_io(task);
            } else {
                self.shared.inject(task);
            }
        }
    }

    /// Calls `block`, which may block the thread for long. On a worker in a run, it first hands over the worker slot and
    /// the queue to another thread, if one is available. [`enter_blocking`](crate::enter_blocking) fails if none is.
    pub fn blocking<R>(&self, block: impl FnOnce() -> R) -> R {
        Worker::with_current(&self.shared, |worker| {
            worker.count_blocking_call();
            if !worker.give_slot_away() {
                worker.give_queue_away();
            }
        });
        block()
    }

    /// Starts a thread for one task, bound to `core` if given. The thread terminates at shutdown, too.
    ///
    /// # Errors
    /// If the thread cannot be started, the core is not available, or the scheduler is shutting down.
    pub fn start_pinned(
        &self,
        wait: Arc<dyn WaitStrategy>,
        core: Option<usize>,
    ) -> io::Result<Pinned> {
        Pinned::start(&self.shared, wait, core)
    }

    /// Whether the calling thread is one of this scheduler's workers.
    pub fn is_current(&self) -> bool {
        Worker::with_current(&self.shared, |_| ()).is_some()
    }

    /// The worker that the calling thread is, or was until its worker slot was handed over.
    pub fn current_worker(&self) -> Option<usize> {
        Worker::with_current(&self.shared, Worker::index)
    }

    /// Number of workers, on-line or not.
    pub fn workers(&self) -> usize {
        self.shared.settings.workers
    }

    /// Number of workers that are on-line.
    pub fn workers_online(&self) -> usize {
        self.shared.worker_slots.census().online
    }

    /// Takes workers off-line or back on-line at run time: from now on the first `online` run tasks. A worker in a run
    /// finishes it; its queue goes to the others.
    ///
    /// # Errors
    /// [`OnlineError`] for none, or more than there are.
    pub fn set_workers_online(&self, online: usize) -> Result<(), OnlineError> {
        let workers = self.workers();
        if !(1..=workers).contains(&online) {
            return Err(OnlineError { online, workers });
        }
        self.shared.set_online(online);
        Ok(())
    }

    /// Each worker's queue, counters and times.
    pub fn workers_snapshot(&self) -> Vec<WorkerSnapshot> {
        let threads = &self.shared.threads;
        let snapshot = |(index, worker): (usize, WorkerSlotReading)| {
            let slot = worker.occupant.map(|thread| threads.get(thread));
            let state = match slot {
                _ if !worker.is_online => WorkerState::Offline,
                _ if worker.is_blocked => WorkerState::Blocked,
                Some(slot) => slot.accounting.now().0,
                None => WorkerState::Park,
            };
            let is_running = matches!(state, WorkerState::Run | WorkerState::Blocked);
            WorkerSnapshot {
                index,
                state,
                queue_depth: slot.map_or(0, |slot| slot.depth()),
                runs: worker.tally.runs,
                steals: worker.tally.steals,
                wakes: worker.tally.wakes,
                parks: worker.tally.parks,
                budget_expiries: worker.tally.budget_expiries,
                times: worker.tally.times,
                current: slot
                    .filter(|_| is_running)
                    .and_then(|slot| slot.label.read()),
            }
        };
        let workers = self.shared.worker_slots.read();
        workers.into_iter().enumerate().map(snapshot).collect()
    }

    /// Threads, rescues, collapses and long runs so far.
    pub fn snapshot(&self) -> SchedulerSnapshot {
        let census = self.shared.worker_slots.census();
        SchedulerSnapshot {
            workers_online: census.online as u64,
            injector_depth: self.shared.injector.len() as u64,
            threads: census.threads as u64,
            threads_spare: census.spares as u64,
            threads_displaced: census.displaced as u64,
            threads_max: self.shared.settings.threads_max() as u64,
            ..self.shared.gauges.snapshot()
        }
    }

    /// The driver's counters, if there is a driver.
    pub fn poller_snapshot(&self) -> Option<PollerSnapshot> {
        let driver = self.shared.settings.driver.as_ref()?;
        Some(driver.snapshot())
    }

    /// The latest long runs, oldest first.
    pub fn long_runs(&self) -> Vec<LongRunSnapshot> {
        self.shared.gauges.long_runs()
    }

    /// Tells the workers to terminate after their present run; queued tasks are not run.
    pub fn request_shutdown(&self) {
        #[cfg(feature = "manual")]
        if let Some(executor) = &self.shared.manual {
            return executor.close(&self.shared);
        }
        self.shared.request_shutdown();
    }

    /// Calls [`Scheduler::request_shutdown`], then waits up to `timeout` for the threads. Returns the numbers of those
    /// that are still in a run. On a worker it does not wait.
    pub fn shutdown(&self, timeout: Duration) -> Vec<usize> {
        self.request_shutdown();
        #[cfg(feature = "manual")]
        if self.shared.manual.is_some() {
            return Vec::new();
        }
        if self.is_current() {
            return Vec::new();
        }
        self.shared
            .live_threads
            .wait_until(Instant::now() + timeout)
    }
}
