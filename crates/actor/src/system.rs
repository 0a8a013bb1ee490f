//! The system: the handle by which users spawn actors, read counters and shut down.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use freeboard_meter::{ReasonCount, SchedulerSnapshot, SystemSnapshot, WorkerSnapshot};
use freeboard_sched::{OnlineError, Scheduler, StartError, Timers};

use crate::{
    actor::Actor,
    actor_ref::ActorRef,
    block::BlockedHandlers,
    builder::SystemBuilder,
    options::SpawnOptions,
    relations::Watcher,
    shutdown::{self, ShutdownReport},
    spawn::SpawnError,
    start,
    system_inner::SystemInner,
};

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

/// A system of actors: worker threads, timers, names. Cheap to clone. When the last handle from
/// [`SystemBuilder::build`] is dropped, its threads stop after their current run: at most the budget, 64 messages or 500 us by
/// default, and one message more. For an orderly stop call [`System::shutdown`]. Handlers that block in [`Ask::wait`](crate::Ask::wait) or
/// [`ActorRef::tell_blocking`] then get an error.
#[derive(Clone)]
pub struct System {
    inner: Arc<SystemInner>,
    /// `None` in handles from an actor's context: they must not keep the system alive.
    _owner: Option<Arc<Owner>>,
}

impl fmt::Debug for System {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
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
            .spawn_with(options, None, None, Some(start::infallible(factory)))
    }

    /// [`System::spawn_with`] with a factory that may fail. An error fails the actor: its supervision decides, and
    /// [`ActorRef::wait_started`] returns the error.
    ///
    /// # Errors
    /// As [`System::spawn_with`]; an error of the factory comes later.
    pub fn try_spawn_with<A: Actor, E: fmt::Display>(
        &self,
        options: SpawnOptions,
        factory: impl FnMut() -> Result<A, E> + Send + 'static,
    ) -> Result<ActorRef<A>, SpawnError> {
        self.inner
            .spawn_with(options, None, None, Some(start::fallible(factory)))
    }

    /// Spawns an actor with options, from a value: it cannot be restarted.
    ///
    /// # Errors
    /// As [`System::spawn_with`]; [`SpawnError::NoFactory`] if its supervision is [`crate::Supervision::restart`].
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
        if !self.inner.names.claim(&name, actor.id(), Some(actor.any())) {
            return Err(SpawnError::NameTaken(name));
        }
        let names = Arc::downgrade(&self.inner.names);
        let id = actor.id();
        actor.cell().core().on_end(
            Watcher::Name,
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
        self.inner.names.find(name)?.downcast()
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

impl fmt::Debug for WeakSystem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("WeakSystem")
    }
}
