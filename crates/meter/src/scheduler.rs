//! The state of a scheduler as plain data: its workers, their time by state, and the counters of its monitor.
//!
//! A *worker* is a slot of the scheduler, of which a fixed number run at once. The thread of a slot changes when a
//! call blocks; the counters stay with the slot.

use serde::{Deserialize, Serialize};

use crate::tally::HistogramSummary;

/// The current activity of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerState {
    /// It runs an actor, or takes the next one from its queue.
    Run,
    /// It searches the queues of others.
    Search,
    /// It found nothing and spins briefly before the next search.
    Spin,
    /// It polls for I/O events.
    Poll,
    /// It sleeps until it is woken.
    Park,
    /// A call of the actor it runs blocks the thread.
    Blocked,
    /// It is offline.
    #[default]
    Offline,
}

impl WorkerState {
    /// All states, in the order of their declaration.
    pub const ALL: [Self; 7] = [
        Self::Run,
        Self::Search,
        Self::Spin,
        Self::Poll,
        Self::Park,
        Self::Blocked,
        Self::Offline,
    ];

    /// The state's name, as in JSON and Prometheus text.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Search => "search",
            Self::Spin => "spin",
            Self::Poll => "poll",
            Self::Park => "park",
            Self::Blocked => "blocked",
            Self::Offline => "offline",
        }
    }
}

/// Wall time that a worker spent in each state, in nanoseconds, up to the moment of the snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StateTimes {
    /// [`WorkerState::Run`].
    pub run_ns: u64,
    /// [`WorkerState::Search`].
    pub search_ns: u64,
    /// [`WorkerState::Spin`].
    pub spin_ns: u64,
    /// [`WorkerState::Poll`].
    pub poll_ns: u64,
    /// [`WorkerState::Park`].
    pub park_ns: u64,
    /// [`WorkerState::Blocked`].
    pub blocked_ns: u64,
    /// [`WorkerState::Offline`].
    pub offline_ns: u64,
}

impl StateTimes {
    /// The time spent in `state`.
    #[must_use]
    pub const fn of(&self, state: WorkerState) -> u64 {
        let mut times = *self;
        *times.of_mut(state)
    }

    /// The time spent in `state`, to be changed.
    pub const fn of_mut(&mut self, state: WorkerState) -> &mut u64 {
        match state {
            WorkerState::Run => &mut self.run_ns,
            WorkerState::Search => &mut self.search_ns,
            WorkerState::Spin => &mut self.spin_ns,
            WorkerState::Poll => &mut self.poll_ns,
            WorkerState::Park => &mut self.park_ns,
            WorkerState::Blocked => &mut self.blocked_ns,
            WorkerState::Offline => &mut self.offline_ns,
        }
    }

    /// Time in all states together.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        let times = WorkerState::ALL.iter().map(|&state| self.of(state));
        times.fold(0, u64::saturating_add)
    }

    /// The time since `earlier`, of the same worker.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut times = Self::default();
        for state in WorkerState::ALL {
            *times.of_mut(state) = self.of(state).saturating_sub(earlier.of(state));
        }
        times
    }

    /// Share of the on-line time in which the worker ran actors, 0 to 1; 0 if it never was on-line.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        let online_ns = self.total_ns().saturating_sub(self.offline_ns);
        if online_ns == 0 {
            return 0.0;
        }
        self.run_ns as f64 / online_ns as f64
    }
}

/// One worker of the scheduler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerSnapshot {
    /// The worker's index.
    pub index: usize,
    /// Its current activity.
    pub state: WorkerState,
    /// How many runnable actors wait in its own queue.
    pub queue_depth: u64,
    /// How many times it ran an actor.
    pub runs: u64,
    /// How many times it took work from another worker.
    pub steals: u64,
    /// How many times it woke another worker.
    pub wakes: u64,
    /// How many times it went to sleep.
    pub parks: u64,
    /// How many runs ended because the budget was spent.
    pub budget_expiries: u64,
    /// Its time by state.
    pub times: StateTimes,
    /// The actor it runs now.
    pub current: Option<CurrentRun>,
}

impl WorkerSnapshot {
    /// Whether the worker is online.
    #[must_use]
    pub fn is_online(&self) -> bool {
        self.state != WorkerState::Offline
    }

    /// Whether the worker neither runs nor searches for an actor.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!(self.state, WorkerState::Spin | WorkerState::Park)
    }
}

/// The actor that a worker runs now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CurrentRun {
    /// The actor's id.
    pub actor: u64,
    /// The type of the actor.
    pub actor_type: String,
    /// The type of the current message; empty if there is none.
    pub message_type: String,
}

/// The scheduler as a whole, and the counters of its monitor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SchedulerSnapshot {
    /// Workers online.
    pub workers_online: u64,
    /// Runnable actors in the global queue.
    pub injector_depth: u64,
    /// Worker threads, including spare and displaced ones.
    pub threads: u64,
    /// Parked threads that can replace a blocked worker's thread.
    pub threads_spare: u64,
    /// Threads in a run whose slot was given to a spare thread.
    pub threads_displaced: u64,
    /// The maximum number of worker threads.
    pub threads_max: u64,
    /// Times the monitor woke a worker that a producer should have woken, or moved actors that were
    /// stuck behind a long run.
    pub forced_wakes: u64,
    /// Times the monitor gave a worker's slot to a spare thread because a call blocked it.
    pub rescues: u64,
    /// Times the monitor gave a worker's slot to a spare thread because all workers computed for long.
    pub reliefs: u64,
    /// Runnable actors taken from the queues of workers that were stuck in a run.
    pub rescued_tasks: u64,
    /// From the earliest possible start of the blocked run until a spare thread worked in its slot.
    pub rescue_delay: Option<HistogramSummary>,
    /// Calls that were announced as blocking.
    pub blocking_calls: u64,
    /// Times a slot could not be given to a spare thread because all allowed threads were in use.
    pub spares_exhausted: u64,
    /// Times workers slept while there was work for them.
    pub collapses: u64,
    /// The longest time until a collapse was detected, in nanoseconds.
    pub collapse_detect_ns_max: u64,
    /// Time that workers slept while there was work for them, in nanoseconds.
    pub wasted_core_ns: u64,
    /// Runs that were longer than the threshold.
    pub long_runs: u64,
    /// Long runs that were not reported, to protect the log.
    pub long_runs_unreported: u64,
    /// Up to 64 runs that occupy the threads while all threads are blocked, actors wait, and no further thread is
    /// allowed; empty otherwise.
    pub all_blocked: Vec<CurrentRun>,
}

/// A reported run that was longer than the threshold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LongRunSnapshot {
    /// The worker whose slot it had; `None` if the slot had been given to a spare thread.
    pub worker: Option<usize>,
    /// The actor and the message.
    pub run: CurrentRun,
    /// Its age when it was detected, in nanoseconds.
    pub elapsed_ns: u64,
    /// The share of that time on a processor, 0 to 1; `None` where the system does not tell.
    pub cpu_share: Option<f64>,
    /// Whether it was blocked rather than computing.
    pub is_blocked: bool,
    /// The call stack, if stacks are enabled and readable.
    pub stack: Option<String>,
    /// Nanoseconds from the start of the system until it was detected.
    pub seen_ns: u64,
}
