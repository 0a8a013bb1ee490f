//! Settings of a system.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use freeboard_meter::{Counter, LongRunSnapshot, Striped, clock};
use freeboard_sched::{
    BudgetLimits, Collapse, Driver, Scheduler, SchedulerSettings, StartError, Timers,
};

use crate::{
    dead_letter::{DeadLetter, DeadLetterObserver, DeadLetters},
    listed::Listed,
    names::Names,
    observer::Observers,
    options::SpawnOptions,
    registry::Registry,
    supervision::{Failure, saturating_ns},
    sync::AtomicBool,
    system::{BuildError, System},
    system_inner::{FailureObserver, SystemInner},
};

#[cfg(feature = "tokio")]
use crate::system_inner::in_runtime;

/// Called when no worker runs any more.
type OnEnd = Box<dyn FnOnce() + Send>;

/// Builds a [`System`]. Every setting has a default.
#[must_use]
pub struct SystemBuilder {
    settings: SchedulerSettings,
    on_dead_letter: Option<DeadLetterObserver>,
    on_failure: Option<FailureObserver>,
    observers: Observers,
    ask_timeout: Option<Duration>,
    #[cfg(feature = "tokio")]
    runtime: Option<tokio::runtime::Handle>,
}

impl std::fmt::Debug for SystemBuilder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SystemBuilder")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl SystemBuilder {
    pub(crate) fn new() -> Self {
        Self {
            settings: SchedulerSettings::default(),
            on_dead_letter: None,
            on_failure: None,
            observers: Observers::default(),
            ask_timeout: None,
            #[cfg(feature = "tokio")]
            runtime: None,
        }
    }

    /// Name of the system, and prefix of its threads' names; default `freeboard`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = name.into();
        self
    }

    /// Number of workers; default: the cores this process may use.
    pub fn workers(mut self, workers: usize) -> Self {
        self.settings.workers = workers;
        self
    }

    /// Messages that an actor handles before other actors run; default 64.
    pub fn budget_messages(mut self, messages: u32) -> Self {
        self.settings.budget.messages = messages;
        self
    }

    /// Time that an actor runs before other actors run, unless one message takes longer; default 500 us.
    pub fn budget_time(mut self, time: Duration) -> Self {
        self.settings.budget = BudgetLimits {
            time_ns: saturating_ns(time),
            ..self.settings.budget
        };
        self
    }

    /// How long an idle worker searches for work before it sleeps; default 30 us.
    pub fn spin(mut self, time: Duration) -> Self {
        self.settings.spin_ns = saturating_ns(time);
        self
    }

    /// The maximum number of worker threads. Each call that blocks a worker needs one thread beyond the workers. When
    /// all are in use, [`Ask::wait`](crate::Ask::wait) and
    /// [`ActorRef::tell_blocking`](crate::ActorRef::tell_blocking) fail in handlers, so that a thread is left to run
    /// the actors that would answer. Other blocking calls (a socket, a lock) cannot be refused: while all threads are
    /// blocked in them, an error event per second names the blocking actors, and [`System::scheduler_snapshot`]
    /// lists them.
    ///
    /// Default: 10,000, or fewer if memory or the operating system's limits require it. Each doubling of the number
    /// of threads beyond twice the workers logs a `tracing` warning.
    pub fn threads_max(mut self, threads: usize) -> Self {
        self.settings.threads_max = Some(threads);
        self
    }

    /// The timeout of asks to this system's actors that set neither [`Ask::timeout`](crate::Ask::timeout) nor
    /// [`Ask::deadline`](crate::Ask::deadline), so that no forgotten reply is awaited for ever. Default: none.
    ///
    /// An ask with a deadline reads the clock when it is sent and when it is handled, some 25 ns each. One that has to
    /// wait also sets a timer and cancels it, some 100 ns.
    pub fn ask_timeout(mut self, timeout: Duration) -> Self {
        self.ask_timeout = Some(timeout);
        self
    }

    /// Stack size of the worker threads, in bytes; default: the standard library's, 2 MiB. Only the used part takes
    /// memory.
    pub fn thread_stack(mut self, bytes: usize) -> Self {
        self.settings.stack_bytes = Some(bytes);
        self
    }

    /// Handler runs longer than this are reported as a `tracing` event, to [`SystemBuilder::on_long_run`] and in
    /// [`System::snapshot`], at most five per minute; default 100 ms.
    pub fn long_run(mut self, time: Duration) -> Self {
        self.settings.long_run_ns = saturating_ns(time);
        self
    }

    /// Whether the report of a long run contains the call stack of its thread, innermost call first. Off by
    /// default. It needs the feature `stacks` and Linux on x86-64 or AArch64 with glibc 2.35 or later;
    /// elsewhere reports have no stack.
    ///
    /// The stuck thread receives SIGURG, which programs ignore by default. A signal handler that was installed
    /// before the first report is still called; one installed later must call ours. A blocking call that the
    /// kernel does not restart (`nanosleep`, `poll`, `epoll_wait`) returns EINTR in that thread. The standard
    /// library retries such calls; foreign code called from handlers must do so, too.
    /// Names and lines need symbols and debug information (`debug = "line-tables-only"` is enough).
    /// Assembly with wrong unwind tables can crash the trace, as it would crash a profiler.
    pub fn stacks_of_long_runs(mut self, has_stacks: bool) -> Self {
        self.settings.has_stacks = has_stacks;
        self
    }

    /// Observes every reported long run. It is called on a scheduler thread, so it must be quick.
    pub fn on_long_run(
        mut self,
        observer: impl Fn(&LongRunSnapshot) + Send + Sync + 'static,
    ) -> Self {
        self.observers.on_long_run = Some(Box::new(observer));
        self
    }

    /// Observes every time that workers were found asleep while there was work; called as
    /// [`SystemBuilder::on_long_run`]. None is expected: it would be a defect of this runtime.
    pub fn on_collapse(mut self, observer: impl Fn(&Collapse) + Send + Sync + 'static) -> Self {
        self.observers.on_collapse = Some(Box::new(observer));
        self
    }

    /// The driver that makes actors ready besides messages, such as the poller of `freeboard-net`. Idle workers
    /// wait in it.
    pub fn driver(mut self, driver: Arc<dyn Driver>) -> Self {
        self.settings.driver = Some(driver);
        self
    }

    /// Makes the scheduler do something wrong, for tests of its detection.
    #[cfg(feature = "fault-injection")]
    pub fn fault(mut self, fault: freeboard_sched::Fault) -> Self {
        self.settings.fault = Some(fault);
        self
    }

    /// Observes every message that no handler receives. It runs on the thread that sheds the message, so it must
    /// be quick.
    pub fn on_dead_letter(mut self, observer: impl Fn(DeadLetter) + Send + Sync + 'static) -> Self {
        self.on_dead_letter = Some(Box::new(observer));
        self
    }

    /// Observes every panic of an actor, before its supervision decides.
    pub fn on_failure(mut self, observer: impl Fn(&Failure) + Send + Sync + 'static) -> Self {
        self.on_failure = Some(Box::new(observer));
        self
    }

    /// Attaches a tokio runtime. Default: the runtime that the system is built in, if any. All handlers run in it, so
    /// tokio's timers and `tokio::spawn` work there.
    #[cfg(feature = "tokio")]
    pub fn tokio(mut self, runtime: tokio::runtime::Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Starts the system.
    ///
    /// # Errors
    /// [`BuildError`] for settings out of range, or when a thread cannot be started.
    pub fn build(self) -> Result<System, BuildError> {
        #[cfg(feature = "tokio")]
        let this = Self {
            runtime: self
                .runtime
                .or_else(|| tokio::runtime::Handle::try_current().ok()),
            ..self
        };
        #[cfg(not(feature = "tokio"))]
        let this = self;
        this.build_on(Timers::new(), |settings, on_end| {
            Scheduler::start(settings, on_end)
        })
    }

    /// A system whose actors and timers the kit's executor runs.
    #[cfg(feature = "testing")]
    pub(crate) fn build_manual(mut self, kit: &crate::testing::Kit) -> Result<System, BuildError> {
        if self.settings.budget == BudgetLimits::default() {
            self.settings.budget.messages = 1;
        }
        self.on_dead_letter = Some(kit.observe_dead_letters(self.on_dead_letter));
        self.on_failure = Some(kit.observe_failures(self.on_failure));
        let executor = kit.executor().here();
        self.build_on(Timers::manual(&executor), |settings, on_end| {
            Scheduler::manual(&executor, settings, on_end)
        })
    }

    fn build_on(
        self,
        timers: Timers,
        start: impl FnOnce(SchedulerSettings, OnEnd) -> Result<Scheduler, StartError>,
    ) -> Result<System, BuildError> {
        let registry = Registry::new();
        let names = Arc::new(Names::default());
        let name = self.settings.name.clone();
        let settings = SchedulerSettings {
            observer: Arc::new(self.observers),
            #[cfg(feature = "tokio")]
            thread_scope: self.runtime.clone().map(in_runtime),
            ..self.settings
        };
        let on_end = {
            let (registry, names) = (registry.clone(), names.clone());
            move || {
                // SAFETY: the scheduler calls this when no worker runs any more.
                unsafe { registry.close() };
                names.clear();
            }
        };
        let scheduler = start(settings, Box::new(on_end))?;
        Ok(System::owning(SystemInner {
            name,
            scheduler,
            timers,
            registry,
            names,
            dead_letters: DeadLetters::new(self.on_dead_letter),
            groups: Listed::default(),
            topics: Listed::default(),
            directories: Listed::default(),
            blocked_handlers: Arc::default(),
            default_options: SpawnOptions::new(),
            ask_timeout: self.ask_timeout,
            on_failure: self.on_failure,
            #[cfg(feature = "tokio")]
            runtime: self.runtime,
            ended: Striped::new(),
            restarted: Counter::new(),
            is_shutting_down: AtomicBool::new(false),
            is_past_deadline: AtomicBool::new(false),
            shutdown_failures: Mutex::default(),
            undelivered: Counter::new(),
            started_ns: clock::now_ns(),
        }))
    }
}
