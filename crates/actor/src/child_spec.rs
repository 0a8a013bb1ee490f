//! The children of a [`Supervisor`]: how each is started, restarted and shut down.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    actor::Actor, actor_ref::ActorRef, any_ref::AnyActorRef, context::Context,
    options::SpawnOptions, spawn::SpawnError, supervision::Supervision, supervisor::Supervisor,
};

/// The graceful shutdown of a child takes at most this long, unless its specification says otherwise; as in OTP.
pub const CHILD_SHUTDOWN_DEFAULT: Duration = Duration::from_secs(5);

/// Which exits of a child restart it. An exit is abnormal if the child failed ([`crate::ExitReason::is_abnormal`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Restart {
    /// Every exit. The default.
    #[default]
    Permanent,
    /// Abnormal exits, except that of a [`Supervisor`] that gave up ([`crate::ExitReason::RestartLimit`]).
    Transient,
    /// None. Once it has terminated, the supervisor forgets it.
    Temporary,
}

/// How a supervisor terminates a child. It always waits for the child's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// Gracefully; after this time at once.
    Within(Duration),
    /// At once: its queued messages are shed.
    Brutal,
    /// Gracefully, however long it takes. The default of supervisors.
    Infinity,
}

impl Default for Shutdown {
    /// Within [`CHILD_SHUTDOWN_DEFAULT`].
    fn default() -> Self {
        Self::Within(CHILD_SHUTDOWN_DEFAULT)
    }
}

/// Access to a supervised actor, which has a new [`ActorRef`] after each restart. Cheap to clone.
pub struct ChildRef<A: Actor>(Arc<Mutex<Option<ActorRef<A>>>>);

impl<A: Actor> ChildRef<A> {
    /// Without an actor, until a supervisor starts one for a specification with this reference.
    pub fn new() -> Self {
        Self(Arc::default())
    }

    fn lock(&self) -> MutexGuard<'_, Option<ActorRef<A>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current actor, if it has not terminated.
    pub fn get(&self) -> Option<ActorRef<A>> {
        self.lock().clone().filter(ActorRef::is_alive)
    }

    fn set(&self, actor: &ActorRef<A>) {
        // The old one is dropped without the lock.
        let _old = self.lock().replace(actor.clone());
    }
}

impl<A: Actor> Default for ChildRef<A> {
    fn default() -> Self {
        Self::new()
    }
}

impl<A: Actor> Clone for ChildRef<A> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<A: Actor> fmt::Debug for ChildRef<A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ChildRef({:?})", self.get())
    }
}

type Make<A> = Arc<dyn Fn() -> Result<A, String> + Send + Sync>;

/// One child of a [`Supervisor`]: an id that is unique in its supervisor, a factory, and what to do at its exit.
#[must_use = "give it to a supervisor"]
pub struct ChildSpec<A: Actor> {
    terms: Terms,
    options: SpawnOptions,
    make: Make<A>,
    reference: Option<ChildRef<A>>,
}

impl<A: Actor> fmt::Debug for ChildSpec<A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.terms.fmt(formatter)
    }
}

/// The part of a specification that does not depend on the actor's type.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) id: String,
    pub(crate) restart: Restart,
    pub(crate) shutdown: Shutdown,
    pub(crate) is_significant: bool,
    pub(crate) is_supervisor: bool,
}

impl<A: Actor> ChildSpec<A> {
    /// A permanent child. Supervisors are shut down with [`Shutdown::Infinity`].
    pub fn new(id: impl Into<String>, factory: impl Fn() -> A + Send + Sync + 'static) -> Self {
        Self::with_make(id.into(), Arc::new(move || Ok(factory())))
    }

    /// With a factory that may fail.
    pub fn fallible<E: fmt::Display>(
        id: impl Into<String>,
        factory: impl Fn() -> Result<A, E> + Send + Sync + 'static,
    ) -> Self {
        let make = move || factory().map_err(|error| format!("{error:#}"));
        Self::with_make(id.into(), Arc::new(make))
    }

    fn with_make(id: String, make: Make<A>) -> Self {
        let is_supervisor = std::any::TypeId::of::<A>() == std::any::TypeId::of::<Supervisor>();
        let shutdown = if is_supervisor {
            Shutdown::Infinity
        } else {
            Shutdown::default()
        };
        Self {
            terms: Terms {
                id,
                restart: Restart::Permanent,
                shutdown,
                is_significant: false,
                is_supervisor,
            },
            options: SpawnOptions::new(),
            make,
            reference: None,
        }
    }

    /// Which exits restart it.
    pub fn restart(mut self, restart: Restart) -> Self {
        self.terms.restart = restart;
        self
    }

    /// How it is terminated.
    pub fn shutdown(mut self, shutdown: Shutdown) -> Self {
        self.terms.shutdown = shutdown;
        self
    }

    /// Its exit may terminate the supervisor: see [`crate::AutoShutdown`]. Without effect on permanent children, and in
    /// supervisors with [`crate::AutoShutdown::Never`]; OTP refuses both.
    pub fn significant(mut self) -> Self {
        self.terms.is_significant = true;
        self
    }

    /// Mailbox, name and threads. Their supervision is ignored: the supervisor decides.
    pub fn options(mut self, options: SpawnOptions) -> Self {
        self.options = options.supervision(Supervision::stop());
        self
    }

    /// Keeps `reference` up to date.
    pub fn reference(mut self, reference: &ChildRef<A>) -> Self {
        self.reference = Some(reference.clone());
        self
    }

    pub(crate) fn erase(self) -> AnyChild {
        let Self {
            terms,
            options,
            make,
            reference,
        } = self;
        let spawn = move |cx: &Context<Supervisor>| {
            let make = make.clone();
            let child = cx.try_spawn_with(options.clone(), move || make())?;
            if let Some(reference) = &reference {
                reference.set(&child);
            }
            Ok(child.any())
        };
        AnyChild {
            terms,
            spawn: Box::new(spawn),
            actor: None,
        }
    }
}

type SpawnFn = dyn Fn(&Context<Supervisor>) -> Result<AnyActorRef, SpawnError> + Send + Sync;

/// A child in its supervisor.
pub(crate) struct AnyChild {
    pub(crate) terms: Terms,
    pub(crate) spawn: Box<SpawnFn>,
    /// While it runs.
    pub(crate) actor: Option<AnyActorRef>,
}
