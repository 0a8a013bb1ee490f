//! The scheduler: its settings, its threads, and the door by which tasks come in.

use std::{
    io,
    sync::{Arc, Condvar, Mutex as StdMutex, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use freeboard_meter::WorkerSnapshot;

use crate::{
    budget::BudgetLimits,
    injector::Injector,
    monitor,
    seat::Seat,
    sleep::Sleep,
    sync::{AtomicBool, AtomicUsize, Ordering},
    task::Task,
    worker::Worker,
};

/// Workers that one scheduler may have.
pub const WORKERS_MAX: usize = 1_024;

/// How a scheduler is set up.
#[derive(Debug, Clone)]
pub struct SchedulerSettings {
    /// Prefix of the threads' names; default `freeboard`.
    pub name: String,
    /// Number of worker threads, 1..=[`WORKERS_MAX`]; default: the cores this process may use.
    pub workers: usize,
    /// What a task may use in one run.
    pub budget: BudgetLimits,
    /// How long an idle worker looks for work before it sleeps, in nanoseconds; default 30,000.
    pub spin_ns: u64,
}

impl Default for SchedulerSettings {
    fn default() -> Self {
        Self {
            name: "freeboard".into(),
            workers: thread::available_parallelism().map_or(1, usize::from),
            budget: BudgetLimits::default(),
            spin_ns: 30_000,
        }
    }
}

/// Why a scheduler could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The number of workers is out of range.
    #[error("a scheduler has 1 to {WORKERS_MAX} workers, not {0}")]
    Workers(usize),
    /// The budget allows no message, or no time.
    #[error("a run's budget allows at least one message and one nanosecond")]
    Budget,
    /// The system refused a thread.
    #[error("cannot start a worker thread: {0}")]
    Thread(#[from] io::Error),
}

pub(crate) struct Shared {
    pub(crate) settings: SchedulerSettings,
    pub(crate) seats: Box<[Seat]>,
    pub(crate) injector: Injector,
    pub(crate) sleep: Sleep,
    is_shut_down: AtomicBool,
    living: Living,
    /// Worker threads that have not come to their end.
    running: AtomicUsize,
    /// Called by the last worker that ends.
    on_end: StdMutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Shared {
    pub(crate) fn is_shut_down(&self) -> bool {
        // Ordering: SeqCst, rare and off the message path.
        self.is_shut_down.load(Ordering::SeqCst)
    }

    /// Whether any counted queue has a task (see `sleep/README.md`).
    pub(crate) fn has_work(&self) -> bool {
        self.is_shut_down()
            || self.injector.len() > 0
            || self.seats.iter().any(|seat| seat.queue.len() > 0)
    }

    pub(crate) fn inject(&self, task: Task) {
        self.injector.push(task);
        self.sleep.wake_one();
    }

    /// A worker's thread is about to end.
    fn leave(&self, index: usize) {
        // Ordering: AcqRel: the last one sees all that the others did.
        if self.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.injector.close();
            let on_end = self
                .on_end
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            if let Some(on_end) = on_end {
                on_end();
            }
        }
        self.living.leave(index);
    }

    /// Wakes a worker on behalf of the worker `waker`, which counts it.
    pub(crate) fn wake_one(&self, waker: usize) {
        if self.sleep.wake_one() {
            self.seats[waker].wakes.bump(1);
        }
    }
}

/// Says that a worker's thread ends, when it is dropped.
struct Leaving<'a> {
    shared: &'a Shared,
    index: usize,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.shared.leave(self.index);
    }
}

/// Threads that have not ended yet, for a shutdown that does not wait for ever.
#[derive(Default)]
struct Living {
    indices: StdMutex<Vec<usize>>,
    changed: Condvar,
}

impl Living {
    fn leave(&self, index: usize) {
        self.indices
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|&living| living != index);
        self.changed.notify_all();
    }

    /// Waits until all have left; who has not by `deadline`.
    fn wait_until(&self, deadline: Instant) -> Vec<usize> {
        let mut indices = self.indices.lock().unwrap_or_else(PoisonError::into_inner);
        while !indices.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            indices = self
                .changed
                .wait_timeout(indices, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        indices.clone()
    }
}

/// Runs tasks on a fixed set of worker threads. Cheap to clone.
#[derive(Clone)]
pub struct Scheduler {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Scheduler")
            .field("name", &self.shared.settings.name)
            .field("workers", &self.shared.seats.len())
            .finish_non_exhaustive()
    }
}

impl Scheduler {
    /// Starts the workers and the monitor. `on_end` is called once, by the last worker, when none
    /// runs a task any more: from then on no task is touched, so whatever holds them may go.
    ///
    /// # Errors
    /// [`StartError`] for settings out of range or a thread that cannot be started.
    pub fn start(
        settings: SchedulerSettings,
        on_end: impl FnOnce() + Send + 'static,
    ) -> Result<Self, StartError> {
        if !(1..=WORKERS_MAX).contains(&settings.workers) {
            return Err(StartError::Workers(settings.workers));
        }
        if settings.budget.messages == 0 || settings.budget.time_ns == 0 {
            return Err(StartError::Budget);
        }
        let workers = settings.workers;
        let scheduler = Self {
            shared: Arc::new(Shared {
                seats: (0..workers).map(|_| Seat::new()).collect(),
                injector: Injector::new(),
                sleep: Sleep::new(workers),
                is_shut_down: AtomicBool::new(false),
                living: Living::default(),
                running: AtomicUsize::new(workers),
                on_end: StdMutex::new(Some(Box::new(on_end))),
                settings,
            }),
        };
        for index in 0..workers {
            if let Err(error) = scheduler.start_worker(index) {
                // Those that will not be started need not be waited for.
                let missing = workers - index - 1;
                // Ordering: Relaxed, the failed one has not left yet and orders it.
                scheduler
                    .shared
                    .running
                    .fetch_sub(missing, Ordering::Relaxed);
                scheduler.shared.leave(index);
                scheduler.request_shutdown();
                return Err(error.into());
            }
        }
        if let Err(error) = monitor::start(&scheduler.shared) {
            scheduler.request_shutdown();
            return Err(error.into());
        }
        Ok(scheduler)
    }

    fn start_worker(&self, index: usize) -> io::Result<JoinHandle<()>> {
        let shared = self.shared.clone();
        let enter = |shared: &Shared| {
            let mut indices = shared
                .living
                .indices
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            indices.push(index);
        };
        enter(&shared);
        thread::Builder::new()
            .name(format!("{}-{index}", shared.settings.name))
            .spawn(move || {
                // A task must not panic, and the actor floor's do not; should one all the same, the
                // others still learn that this thread has ended.
                let _leaving = Leaving {
                    shared: &shared,
                    index,
                };
                Worker::new(index, shared.clone()).work();
            })
    }

    /// Puts a task into a run queue: the current worker's own, or the global one if the caller is
    /// no worker of this scheduler.
    ///
    /// The caller has moved the task's [`crate::RunState`] to queued, and keeps what
    /// [`Task::from_header`] asks for.
    #[inline]
    pub fn schedule(&self, task: Task) {
        if Worker::with_current(&self.shared, |worker| worker.schedule(task)).is_none() {
            self.shared.inject(task);
        }
    }

    /// Whether the calling thread is one of this scheduler's workers.
    pub fn is_current(&self) -> bool {
        Worker::with_current(&self.shared, |_| ()).is_some()
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.shared.seats.len()
    }

    /// Tasks in the global queue.
    pub fn injector_depth(&self) -> usize {
        self.shared.injector.len()
    }

    /// Each worker's queue and counters as of now.
    pub fn snapshot(&self) -> Vec<WorkerSnapshot> {
        self.shared
            .seats
            .iter()
            .enumerate()
            .map(|(index, seat)| WorkerSnapshot {
                index,
                queue_depth: u64::from(seat.queue.len()) + u64::from(!seat.next_slot.is_empty()),
                runs: seat.runs.get(),
                steals: seat.steals.get(),
                wakes: seat.wakes.get(),
                parks: seat.parks.get(),
                budget_expiries: seat.budget_expiries.get(),
                ..WorkerSnapshot::default()
            })
            .collect()
    }

    /// Tells the workers to end after their present run; queued tasks are not run any more.
    pub fn request_shutdown(&self) {
        // Ordering: SeqCst, before the workers are woken to see it.
        self.shared.is_shut_down.store(true, Ordering::SeqCst);
        self.shared.sleep.wake_all();
    }

    /// [`Scheduler::request_shutdown`], then waits for the workers up to `timeout`. Returns the
    /// numbers of those that are still in a run. Called on a worker, that one is not waited for.
    pub fn shutdown(&self, timeout: Duration) -> Vec<usize> {
        self.request_shutdown();
        if self.is_current() {
            return Vec::new();
        }
        self.shared.living.wait_until(Instant::now() + timeout)
    }
}
