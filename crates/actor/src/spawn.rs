//! Spawning: from options and an actor to a scheduled cell.

use std::sync::Arc;

use freeboard_flow::ConfigError;

use crate::{
    actor::Actor,
    actor_ref::ActorRef,
    cell::{Cell, CellRef},
    core::{self, CellParts},
    core_ref::CoreRef,
    id::ActorId,
    life,
    options::SpawnOptions,
    run::{AtEnd, Body, TryFactory},
    sync::{AtomicU64, Ordering},
    system_inner::SystemInner,
};

/// The next actor id, for all systems of the process; 0 is no actor.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Why an actor could not be spawned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The mailbox or the supervision is out of range.
    #[error("bad spawn options: {0}")]
    Options(#[from] ConfigError),
    /// The supervision restarts the actor, but `spawn_once` has no factory for a new state.
    #[error("an actor that is restarted needs a factory: use spawn_with")]
    NoFactory,
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

impl SystemInner {
    pub(crate) fn spawn<A: Actor>(
        self: &Arc<Self>,
        options: Option<Box<SpawnOptions>>,
        parent: Option<CoreRef>,
        actor: Option<A>,
        factory: Option<TryFactory<A>>,
    ) -> ActorRef<A> {
        self.spawn_known(options, parent, actor, factory, |_| (), |_| ())
            .0
    }

    /// Spawns an activation of a directory: see [`Body::become_activation`]. In a system that was dropped it is an error,
    /// not a terminated actor, because the directory would try again.
    pub(crate) fn spawn_activation<A: Actor>(
        self: &Arc<Self>,
        mut options: SpawnOptions,
        factory: TryFactory<A>,
        at_end: AtEnd<A>,
        is_deferred: bool,
    ) -> Result<ActorRef<A>, SpawnError> {
        if self.is_shutting_down() {
            return Err(SpawnError::ShuttingDown);
        }
        options
            .start_thread(&self.scheduler)
            .map_err(|error| SpawnError::Thread(error.to_string()))?;
        let prepare = |body: &mut Body<A>| body.become_activation(at_end, is_deferred);
        let options = Some(Box::new(options));
        let (actor, is_kept) =
            self.spawn_known(options, None, None, Some(factory), prepare, |_| ());
        is_kept.then_some(actor).ok_or(SpawnError::ShuttingDown)
    }

    /// Spawns; `prepare` gets the body before anyone else has the cell, and `make_known` is called with the reference
    /// before the actor can run. `false` if the system has ended, and with it the actor.
    fn spawn_known<A: Actor>(
        self: &Arc<Self>,
        options: Option<Box<SpawnOptions>>,
        parent: Option<CoreRef>,
        actor: Option<A>,
        factory: Option<TryFactory<A>>,
        prepare: impl FnOnce(&mut Body<A>),
        make_known: impl FnOnce(&ActorRef<A>),
    ) -> (ActorRef<A>, bool) {
        // Ordering: Relaxed, each caller gets its own number.
        let id = ActorId(NEXT_ID.fetch_add(1, Ordering::Relaxed));
        let parts = CellParts {
            id,
            system: self.clone(),
            options,
            parent,
        };
        // Before the registry is locked: large rings allocate their memory here.
        let mut cell = Cell::new(parts, actor, factory);
        prepare(cell.body_mut());
        let cell = CellRef::new(cell);
        let is_kept = self.registry.insert(cell.core_ref());
        let actor_ref = ActorRef::new(cell);
        make_known(&actor_ref);
        let cell = actor_ref.cell();
        if !is_kept {
            // SAFETY: a closed registry means that no worker runs any more; only this function has the cell.
            unsafe { life::abandon(cell) };
            return (actor_ref, false);
        }
        let core = cell.core();
        let is_wanted = core.parent().is_none_or(|parent| parent.adopt(core));
        if !is_wanted || self.is_shutting_down() {
            // Nothing would wait for it any more: it is spawned stopped, and terminates in its first run.
            core.mailbox.close();
            let _ = core.state.signal(core::STOP);
        }
        core.enqueue();
        (actor_ref, true)
    }

    pub(crate) fn spawn_with<A: Actor>(
        self: &Arc<Self>,
        mut options: SpawnOptions,
        parent: Option<CoreRef>,
        actor: Option<A>,
        factory: Option<TryFactory<A>>,
    ) -> Result<ActorRef<A>, SpawnError> {
        options.validate()?;
        if factory.is_none() && options.supervision.always_restarts() {
            return Err(SpawnError::NoFactory);
        }
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
        if !self.names.claim(&name, claim, None) {
            return Err(SpawnError::NameTaken(name.to_string()));
        }
        let options = Some(Box::new(options));
        let make_known = |actor: &ActorRef<A>| {
            self.names.transfer(&name, claim, actor.any());
        };
        let spawned = self.spawn_known(options, parent, actor, factory, |_| (), make_known);
        Ok(spawned.0)
    }
}
