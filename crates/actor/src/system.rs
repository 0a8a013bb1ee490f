//! The system: workers, timers and the registry of its actors.

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
    time::Duration,
};

use freeboard_flow::ConfigError;
use freeboard_meter::{
    Counter, ReasonCount, SchedulerSnapshot, SystemSnapshot, WorkerSnapshot, clock,
};
use freeboard_sched::{OnlineError, Scheduler, StartError, Timers};

use crate::{
    actor::{Actor, ActorId},
    actor_ref::ActorRef,
    block::BlockedHandlers,
    body::Factory,
    builder::SystemBuilder,
    catch_panic,
    cell::{Cell, CellParts},
    cell_ref::{CellRef, CoreRef},
    dead_letter::DeadLetters,
    group::Groups,
    life,
    names::Names,
    options::SpawnOptions,
    registry::Registry,
    relations::Watcher,
    shutdown::{self, FAILURES_MAX, Failures, ShutdownReport},
    supervision::Failure,
    sync::{AtomicBool, AtomicU64, Ordering},
};

pub(crate) type FailureObserver = Box<dyn Fn(&Failure) + Send + Sync>;

/// The next actor id, for all systems of the process; 0 is no actor.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// The state that all actors of a system share.
pub(crate) struct SystemInner {
    pub(crate) name: String,
    pub(crate) scheduler: Scheduler,
    pub(crate) timers: Timers,
    pub(crate) registry: Arc<Registry>,
    pub(crate) names: Arc<Names>,
    pub(crate) dead_letters: DeadLetters,
    pub(crate) groups: Groups,
    pub(crate) blocked_handlers: Arc<BlockedHandlers>,
    pub(crate) default_options: SpawnOptions,
    pub(crate) on_failure: OnceLock<FailureObserver>,
    #[cfg(feature = "tokio")]
    pub(crate) runtime: Option<tokio::runtime::Handle>,
    ended: Counter,
    restarted: Counter,
    is_shutting_down: AtomicBool,
    is_past_deadline: AtomicBool,
    pub(crate) shutdown_failures: Mutex<Failures>,
    /// Messages in outboxes that were given up, or whose receiver was terminated by the shutdown.
    pub(crate) undelivered: Counter,
    started_ns: u64,
}

/// The parts that the builder creates.
pub(crate) struct Foundation {
    pub(crate) name: String,
    pub(crate) scheduler: Scheduler,
    pub(crate) registry: Arc<Registry>,
    pub(crate) names: Arc<Names>,
    pub(crate) dead_letters: DeadLetters,
    pub(crate) on_failure: Option<FailureObserver>,
    #[cfg(feature = "tokio")]
    pub(crate) runtime: Option<tokio::runtime::Handle>,
}

/// Why an actor could not be spawned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The mailbox or the supervision is out of range.
    #[error("bad spawn options: {0}")]
    Options(#[from] ConfigError),
    /// Another living actor has this name.
    #[error("the name \"{0}\" is taken")]
    NameTaken(String),
    /// The system is shutting down.
    #[error("the system is shutting down")]
    ShuttingDown,
    /// A pinned actor got no thread, or not on the requested core.
    #[error("no thread for a pinned actor: {0}")]
    Thread(String),
}

/// Why a system could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The scheduler could not be started.
    #[error(transparent)]
    Scheduler(#[from] StartError),
}

/// No tokio runtime is attached to the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no tokio runtime is attached to the system: build it inside one, or with `tokio(handle)`")]
pub struct NoRuntime;

impl SystemInner {
    pub(crate) fn new(foundation: Foundation) -> Self {
        let on_failure = OnceLock::new();
        if let Some(observer) = foundation.on_failure {
            let _ = on_failure.set(observer);
        }
        Self {
            name: foundation.name,
            scheduler: foundation.scheduler,
            timers: Timers::new(),
            registry: foundation.registry,
            names: foundation.names,
            dead_letters: foundation.dead_letters,
            groups: Groups::default(),
            blocked_handlers: Arc::default(),
            default_options: SpawnOptions::new(),
            on_failure,
            #[cfg(feature = "tokio")]
            runtime: foundation.runtime,
            ended: Counter::new(),
            restarted: Counter::new(),
            is_shutting_down: AtomicBool::new(false),
            is_past_deadline: AtomicBool::new(false),
            shutdown_failures: Mutex::default(),
            undelivered: Counter::new(),
            started_ns: clock::now_ns(),
        }
    }

    pub(crate) fn spawn<A: Actor>(
        self: &Arc<Self>,
        options: Option<Box<SpawnOptions>>,
        parent: Option<CoreRef>,
        actor: Option<A>,
        factory: Option<Factory<A>>,
    ) -> ActorRef<A> {
        self.spawn_known(options, parent, actor, factory, |_| ())
    }

    /// Spawns; `make_known` is called with the reference before the actor can run.
    fn spawn_known<A: Actor>(
        self: &Arc<Self>,
        options: Option<Box<SpawnOptions>>,
        parent: Option<CoreRef>,
        actor: Option<A>,
        factory: Option<Factory<A>>,
        make_known: impl FnOnce(&ActorRef<A>),
    ) -> ActorRef<A> {
        // Ordering: Relaxed, each caller gets its own number.
        let id = ActorId(NEXT_ID.fetch_add(1, Ordering::Relaxed));
        let parts = CellParts {
            id,
            system: self.clone(),
            options,
            parent,
        };
        // Before the registry is locked: large rings allocate their memory here.
        let cell = CellRef::new(Cell::new(parts, actor, factory));
        let is_kept = self.registry.insert(&cell);
        let actor_ref = ActorRef::new(cell);
        make_known(&actor_ref);
        let cell = actor_ref.cell();
        if !is_kept {
            // SAFETY: a closed registry means that no worker runs any more; only this function has the cell.
            unsafe { life::abandon(cell) };
            return actor_ref;
        }
        let core = cell.core();
        let is_wanted = core.parent().is_none_or(|parent| parent.adopt(core));
        if !is_wanted || self.is_shutting_down() {
            // Nothing would wait for it any more: it is spawned stopped, and terminates in its first run.
            core.close_mailbox();
            let _ = core.state.signal(crate::cell::STOP);
        }
        core.enqueue();
        actor_ref
    }

    pub(crate) fn spawn_with<A: Actor>(
        self: &Arc<Self>,
        mut options: SpawnOptions,
        parent: Option<CoreRef>,
        actor: Option<A>,
        factory: Option<Factory<A>>,
    ) -> Result<ActorRef<A>, SpawnError> {
        options.validate()?;
        if self.is_shutting_down() {
            return Err(SpawnError::ShuttingDown);
        }
        options
            .start_thread(&self.scheduler)
            .map_err(|error| SpawnError::Thread(error.to_string()))?;
        let Some(name) = options.name.clone() else {
            return Ok(self.spawn(Some(Box::new(options)), parent, actor, factory));
        };
        // Claimed before the actor exists, so that no actor is created for a name that is taken.
        let claim = ActorId(0);
        if !self.names.claim(&name, claim, ()) {
            return Err(SpawnError::NameTaken(name.to_string()));
        }
        let options = Some(Box::new(options));
        let make_known = |actor: &ActorRef<A>| {
            self.names.transfer(&name, claim, actor.id(), actor.clone());
        };
        Ok(self.spawn_known(options, parent, actor, factory, make_known))
    }

    pub(crate) fn count_end(&self) {
        self.ended.add(1);
    }

    pub(crate) fn count_restart(&self) {
        self.restarted.add(1);
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        // Ordering: SeqCst, rare.
        self.is_shutting_down.load(Ordering::SeqCst)
    }

    /// `true` for the first caller.
    pub(crate) fn begin_shutdown(&self) -> bool {
        // Ordering: SeqCst, rare.
        !self.is_shutting_down.swap(true, Ordering::SeqCst)
    }

    /// Whether a shutdown stops the actors that are left.
    pub(crate) fn is_past_deadline(&self) -> bool {
        // Ordering: SeqCst, rare.
        self.is_past_deadline.load(Ordering::SeqCst)
    }

    pub(crate) fn pass_deadline(&self) {
        // Ordering: SeqCst, rare; before any receiver is closed, so that senders which are refused then see it.
        self.is_past_deadline.store(true, Ordering::SeqCst);
    }

    /// Updates the failures of the shutdown report, if a shutdown is under way.
    fn note_for_shutdown(&self, note: impl FnOnce(&mut Failures)) {
        if self.is_shutting_down() {
            let failures = self.shutdown_failures.lock();
            note(&mut failures.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Counts an actor that a panic has terminated.
    pub(crate) fn count_failed_actor(&self) {
        self.note_for_shutdown(|failures| failures.actors_ended += 1);
    }

    /// Passes a failure to the observer and the log.
    pub(crate) fn report(&self, failure: &Failure) {
        self.note_for_shutdown(|failures| {
            failures.count += 1;
            if failures.first.len() < FAILURES_MAX {
                failures.first.push(failure.clone());
            }
        });
        catch_panic::call(|| {
            tracing::error!(
                actor = failure.actor.get(),
                actor_type = failure.actor_type,
                message_type = failure.message_type,
                "{failure}"
            );
        });
        if let Some(observer) = self.on_failure.get()
            && catch_panic::call(|| observer(failure)).is_none()
        {
            catch_panic::call(|| tracing::error!("the observer of failures panicked"));
        }
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn enter_runtime(&self) -> Option<tokio::runtime::EnterGuard<'_>> {
        self.runtime.as_ref().map(tokio::runtime::Handle::enter)
    }

    #[cfg(not(feature = "tokio"))]
    pub(crate) fn enter_runtime(&self) -> Option<()> {
        None
    }

    fn snapshot(&self) -> SystemSnapshot {
        let (cells, ended_by_type) = self.registry.census();
        let mut actors: Vec<_> = cells.iter().map(|cell| cell.snapshot()).collect();
        actors.sort_unstable_by_key(|actor| actor.id);
        SystemSnapshot {
            actors,
            ended_by_type,
            ..self.overview(cells.len())
        }
    }

    /// Everything except the actors, of which `alive` exist.
    fn overview(&self, alive: usize) -> SystemSnapshot {
        let ended = self.ended.get();
        SystemSnapshot {
            name: self.name.clone(),
            uptime_ns: clock::now_ns() - self.started_ns,
            workers: self.scheduler.workers_snapshot(),
            scheduler: self.scheduler.snapshot(),
            poller: self.scheduler.poller_snapshot(),
            long_runs: self.scheduler.long_runs(),
            actors_alive: alive as u64,
            actors_spawned: alive as u64 + ended,
            actors_ended: ended,
            actors_restarted: self.restarted.get(),
            dead_letters: self.dead_letters.counts(),
            actors: Vec::new(),
            ended_by_type: Vec::new(),
            groups: self.groups.snapshot(),
        }
    }
}

/// Stops the system's threads when the last owning handle is dropped.
struct Owner {
    scheduler: Scheduler,
    timers: Timers,
    blocked_handlers: Arc<BlockedHandlers>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.scheduler.request_shutdown();
        self.blocked_handlers.end();
        self.timers.shutdown();
    }
}

/// A system of actors: worker threads, timers, names. Cheap to clone. Its threads stop after their current
/// message when the last handle from [`SystemBuilder::build`] is dropped; for an orderly stop call
/// [`System::shutdown`]. Handlers that block in [`Ask::wait`](crate::Ask::wait) or
/// [`ActorRef::tell_blocking`] then get an error.
#[derive(Clone)]
pub struct System {
    inner: Arc<SystemInner>,
    /// `None` in handles from an actor's context: they must not keep the system alive.
    _owner: Option<Arc<Owner>>,
}

impl std::fmt::Debug for System {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "System({})", self.inner.name)
    }
}

impl System {
    /// Settings for a new system.
    pub fn builder() -> SystemBuilder {
        SystemBuilder::new()
    }

    pub(crate) fn owning(inner: SystemInner) -> Self {
        let owner = Owner {
            scheduler: inner.scheduler.clone(),
            timers: inner.timers.clone(),
            blocked_handlers: inner.blocked_handlers.clone(),
        };
        Self {
            inner: Arc::new(inner),
            _owner: Some(Arc::new(owner)),
        }
    }

    pub(crate) fn inner(&self) -> &Arc<SystemInner> {
        &self.inner
    }

    pub(crate) fn within(inner: Arc<SystemInner>) -> Self {
        Self {
            inner,
            _owner: None,
        }
    }

    /// Spawns an actor with the default options. During a shutdown the actor is stopped at once.
    pub fn spawn<A: Actor>(&self, actor: A) -> ActorRef<A> {
        self.inner.spawn(None, None, Some(actor), None)
    }

    /// Spawns an actor with options and a factory. The factory runs on a worker, and runs again for each
    /// restart.
    ///
    /// # Errors
    /// [`SpawnError`] for options out of range, a name that is taken, or during shutdown.
    pub fn spawn_with<A: Actor>(
        &self,
        options: SpawnOptions,
        factory: impl FnMut() -> A + Send + 'static,
    ) -> Result<ActorRef<A>, SpawnError> {
        self.inner
            .spawn_with(options, None, None, Some(Box::new(factory)))
    }

    /// Spawns an actor with options, from a value: it cannot be restarted.
    ///
    /// # Errors
    /// As [`System::spawn_with`].
    pub fn spawn_once<A: Actor>(
        &self,
        options: SpawnOptions,
        actor: A,
    ) -> Result<ActorRef<A>, SpawnError> {
        self.inner.spawn_with(options, None, Some(actor), None)
    }

    /// Registers an actor under a further name, which is freed when the actor terminates.
    ///
    /// # Errors
    /// [`SpawnError::NameTaken`].
    pub fn register<A: Actor>(
        &self,
        name: impl Into<String>,
        actor: &ActorRef<A>,
    ) -> Result<(), SpawnError> {
        let name = name.into();
        if !self.inner.names.claim(&name, actor.id(), actor.clone()) {
            return Err(SpawnError::NameTaken(name));
        }
        let names = Arc::downgrade(&self.inner.names);
        let id = actor.id();
        actor.on_end(
            Watcher::System,
            Box::new(move |_| {
                if let Some(names) = names.upgrade() {
                    names.release(&name, id);
                }
            }),
        );
        Ok(())
    }

    /// The living actor of that name, if it is of type `A`.
    pub fn whereis<A: Actor>(&self, name: &str) -> Option<ActorRef<A>> {
        self.inner.names.find(name)
    }

    /// All current counters as plain data; [`freeboard_meter::render`] formats them as Prometheus text.
    /// Reading them never blocks the message path.
    pub fn snapshot(&self) -> SystemSnapshot {
        self.inner.snapshot()
    }

    /// All counters except those of single actors: its cost does not grow with the number of actors.
    pub fn overview(&self) -> SystemSnapshot {
        self.inner.overview(self.inner.registry.len())
    }

    /// Messages that no handler received, by reason.
    pub fn dead_letters(&self) -> Vec<ReasonCount> {
        self.inner.dead_letters.counts()
    }

    /// Actors that have not terminated.
    pub fn actors_alive(&self) -> u64 {
        self.inner.registry.len() as u64
    }

    /// Number of workers, on-line or not.
    pub fn workers(&self) -> usize {
        self.inner.scheduler.workers()
    }

    /// Number of workers that are on-line.
    pub fn workers_online(&self) -> usize {
        self.inner.scheduler.workers_online()
    }

    /// Takes workers off-line or brings them back without a stop: from now on the first `online` workers run
    /// actors. A worker in a handler finishes its run first; its queued actors move to the others.
    ///
    /// # Errors
    /// [`OnlineError`] for none, or more than the system has.
    pub fn set_workers_online(&self, online: usize) -> Result<(), OnlineError> {
        self.inner.scheduler.set_workers_online(online)
    }

    /// The workers alone, as of now: a part of [`System::snapshot`] that costs the same however many
    /// actors there are.
    pub fn workers_snapshot(&self) -> Vec<WorkerSnapshot> {
        self.inner.scheduler.workers_snapshot()
    }

    /// The scheduler's counters alone, as of now; see [`System::workers_snapshot`].
    pub fn scheduler_snapshot(&self) -> SchedulerSnapshot {
        self.inner.scheduler.snapshot()
    }

    /// Stops the system in order: top-level actors in the reverse order of spawning (senders are usually spawned
    /// last), each once it has handled its messages and its outbox is empty. At the deadline the remaining actors
    /// are stopped at once. The report lists actors that still have not terminated, undelivered messages in
    /// outboxes, and panics. Then the threads stop.
    ///
    /// An actor without progress (it awaits something, or blocks) delays the actors spawned before it by at most a
    /// quarter of the timeout; each further such actor by half as long. It has until the deadline itself.
    ///
    /// Do not call it in a handler: it waits for the actor that calls it.
    pub fn shutdown(&self, timeout: Duration) -> ShutdownReport {
        shutdown::shutdown(&self.inner, timeout)
    }

    /// A weak handle, for observers.
    #[must_use]
    pub fn downgrade(&self) -> WeakSystem {
        WeakSystem(Arc::downgrade(&self.inner))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Whether [`System::shutdown`] has terminated all actors.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.inner.is_shutting_down() && self.actors_alive() == 0
    }

    /// The tokio runtime that is attached to the system.
    #[cfg(feature = "tokio")]
    #[must_use]
    pub fn runtime(&self) -> Option<tokio::runtime::Handle> {
        self.inner.runtime.clone()
    }
}

/// A handle that keeps neither the system nor its threads alive. Cheap to clone.
#[derive(Clone)]
pub struct WeakSystem(Weak<SystemInner>);

impl WeakSystem {
    /// The system, while another handle exists. The result does not own the system: its threads stop when the last
    /// owning handle is dropped.
    #[must_use]
    pub fn upgrade(&self) -> Option<System> {
        self.0.upgrade().map(System::within)
    }

    /// Whether both refer to the same system.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

impl std::fmt::Debug for WeakSystem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("WeakSystem")
    }
}
