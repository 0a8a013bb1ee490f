//! The scheduler: its settings, its threads, and the door by which tasks come in.

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
    places::PlaceReading,
    settings::{SchedulerSettings, THREADS_MAX, WORKERS_MAX},
    shared::Shared,
    task::Task,
    worker::Worker,
};

/// Why a scheduler could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The number of workers is out of range.
    #[error("a scheduler has 1 to {WORKERS_MAX} workers, not {0}")]
    Workers(usize),
    /// Fewer threads than workers, or too many.
    #[error(
        "a scheduler of {workers} workers has {workers} to {THREADS_MAX} threads, not {threads}"
    )]
    Threads {
        /// Workers that were asked for.
        workers: usize,
        /// Threads that were allowed.
        threads: usize,
    },
    /// The budget allows no message, or no time.
    #[error("a run's budget allows at least one message and one nanosecond")]
    Budget,
    /// The system refused a thread.
    #[error("cannot start a worker thread: {0}")]
    Thread(#[from] io::Error),
}

/// The number of workers to be on-line is out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("1 to {workers} workers can be on-line, not {online}")]
pub struct OnlineError {
    /// What was asked for.
    pub online: usize,
    /// Workers that the scheduler has.
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
    /// Starts the workers and the monitor. `on_end` is called once, by the last thread, when none
    /// runs a task any more: from then on no task is touched, so whatever holds them may go.
    ///
    /// # Errors
    /// [`StartError`] for settings out of range or a thread that cannot be started.
    pub fn start(
        mut settings: SchedulerSettings,
        on_end: impl FnOnce() + Send + 'static,
    ) -> Result<Self, StartError> {
        let (workers, threads) = (settings.workers, settings.threads_max());
        // The default is read from the system, once.
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
        // One more than workers: the first spare is parked before it is needed.
        let threads = threads.min(workers + 1);
        let started = (0..threads)
            .try_for_each(|_| scheduler.shared.start_thread().map(drop))
            .and_then(|()| monitor::start(&scheduler.shared));
        if let Err(error) = started {
            scheduler.request_shutdown();
            return Err(error.into());
        }
        Ok(scheduler)
    }

    /// Puts a task into a run queue: the current worker's own, or the global one if the caller is
    /// no worker of this scheduler.
    ///
    /// The caller has moved the task's [`crate::RunState`] to queued, and keeps what
    /// [`Task::from_header`] asks for.
    #[inline]
    pub fn schedule(&self, task: Task) {
        if Worker::with_current(&self.shared, |worker| worker.schedule(task)).is_none() {
            if driver::is_finding() {
                self.shared.inject_found(task);
            } else {
                self.shared.inject(task);
            }
        }
    }

    /// Calls `block`, which may block the thread for long. On a worker that is in a run, the worker's
    /// place and its queue first go to another thread, if one can be had; elsewhere it is just called.
    /// [`enter_blocking`](crate::enter_blocking) fails instead if none can be had.
    pub fn blocking<R>(&self, block: impl FnOnce() -> R) -> R {
        Worker::with_current(&self.shared, |worker| {
            worker.count_blocking_call();
            if !worker.give_place_away() {
                worker.give_queue_away();
            }
        });
        block()
    }

    /// Starts a thread for one task, bound to `core` if given. It ends at shutdown, too.
    ///
    /// # Errors
    /// If the thread cannot be started, the core cannot be used, or the scheduler is shutting down.
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

    /// The worker that the calling thread is, or was until its place was taken over.
    pub fn current_worker(&self) -> Option<usize> {
        Worker::with_current(&self.shared, Worker::index)
    }

    /// Number of workers, on-line or not.
    pub fn workers(&self) -> usize {
        self.shared.settings.workers
    }

    /// Number of workers that are on-line.
    pub fn workers_online(&self) -> usize {
        self.shared.places.census().online
    }

    /// Takes workers off-line or brings them back, while everything runs: from now on the first
    /// `online` take part. One that is in a run finishes it first; what it had queued goes to the
    /// others.
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

    /// Each worker's queue, counters and times as of now.
    pub fn workers_snapshot(&self) -> Vec<WorkerSnapshot> {
        let seats = &self.shared.seats;
        let places = self.shared.places.read();
        let snapshot = |(index, place): (usize, PlaceReading)| {
            let seat = place.occupant.map(|seat| seats.get(seat));
            let state = match seat {
                _ if !place.is_online => WorkerState::Offline,
                _ if place.is_blocked => WorkerState::Blocked,
                Some(seat) => seat.accounting.now().0,
                None => WorkerState::Park,
            };
            let is_running = matches!(state, WorkerState::Run | WorkerState::Blocked);
            WorkerSnapshot {
                index,
                state,
                queue_depth: seat.map_or(0, |seat| seat.depth()),
                runs: place.tally.runs,
                steals: place.tally.steals,
                wakes: place.tally.wakes,
                parks: place.tally.parks,
                budget_expiries: place.tally.budget_expiries,
                times: place.tally.times,
                current: seat
                    .filter(|_| is_running)
                    .and_then(|seat| seat.label.read()),
            }
        };
        places.into_iter().enumerate().map(snapshot).collect()
    }

    /// Threads, rescues, collapses and long runs so far.
    pub fn snapshot(&self) -> SchedulerSnapshot {
        let census = self.shared.places.census();
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

    /// What the driver has counted, if there is one.
    pub fn poller_snapshot(&self) -> Option<PollerSnapshot> {
        let driver = self.shared.settings.driver.as_ref()?;
        Some(driver.snapshot())
    }

    /// The latest long runs, oldest first.
    pub fn long_runs(&self) -> Vec<LongRunSnapshot> {
        self.shared.gauges.long_runs()
    }

    /// Tells the workers to end after their present run; queued tasks are not run any more.
    pub fn request_shutdown(&self) {
        self.shared.request_shutdown();
    }

    /// [`Scheduler::request_shutdown`], then waits for the threads up to `timeout`. Returns the
    /// numbers of those that are still in a run. Called on a worker, that one is not waited for.
    pub fn shutdown(&self, timeout: Duration) -> Vec<usize> {
        self.request_shutdown();
        if self.is_current() {
            return Vec::new();
        }
        self.shared.living.wait_until(Instant::now() + timeout)
    }
}
