//! References to actors of any type: to watch, to stop, to find.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use crate::{
    actor::Actor,
    actor_ref::ActorRef,
    cell::CellRef,
    context::Context,
    core::{self, Core},
    core_ref::CoreRef,
    id::ActorId,
    receives::{self, Receives},
    relations::Watcher,
    reply::NoReply,
    start::Start,
    system::System,
    termination::{ExitReason, Terminated},
};

/// A reference to an actor of any type. Cheap to clone; made by [`ActorRef::any`], [`System::find`] and
/// [`System::find_name`].
#[derive(Clone)]
pub struct AnyActorRef(CoreRef);

impl PartialEq for AnyActorRef {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for AnyActorRef {}

impl Hash for AnyActorRef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

impl fmt::Debug for AnyActorRef {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "AnyActorRef({} {})",
            self.actor_type(),
            self.id()
        )
    }
}

impl AnyActorRef {
    pub(crate) fn core(&self) -> &Core {
        &self.0
    }

    /// The actor's id.
    pub fn id(&self) -> ActorId {
        self.0.id()
    }

    /// The name it was spawned with.
    pub fn name(&self) -> Option<&str> {
        self.0.options().name.as_deref()
    }

    /// Name of its type.
    pub fn actor_type(&self) -> &'static str {
        self.0.type_name()
    }

    /// The typed reference, if the actor is of type `A`.
    pub fn downcast<A: Actor>(&self) -> Option<ActorRef<A>> {
        CellRef::downcast(&self.0).map(ActorRef::new)
    }

    /// As [`ActorRef::stop`].
    pub fn stop(&self) {
        self.0.signal(core::STOP);
    }

    /// As [`ActorRef::stop_gracefully`].
    pub fn stop_gracefully(&self) {
        self.0.drain();
    }

    /// As [`ActorRef::is_alive`].
    pub fn is_alive(&self) -> bool {
        self.0.end_reason().is_none()
    }

    /// As [`ActorRef::wait_started`].
    pub fn wait_started(&self) -> Start {
        self.0.wait_started()
    }

    /// The current values of its counters.
    pub fn snapshot(&self) -> freeboard_meter::ActorSnapshot {
        self.0.snapshot()
    }
}

impl<A: Actor> ActorRef<A> {
    /// A reference that hides the actor's type.
    pub fn any(&self) -> AnyActorRef {
        AnyActorRef(self.cell().core_ref().clone())
    }
}

impl System {
    /// The living actor with this id. Its cost grows with the number of actors; [`System::find_name`] does not.
    pub fn find(&self, id: ActorId) -> Option<AnyActorRef> {
        self.inner().registry.find_id(id).map(AnyActorRef)
    }

    /// The living actor of that name.
    pub fn find_name(&self, name: &str) -> Option<AnyActorRef> {
        self.inner().names.find(name)
    }
}

impl<A: Actor> Context<A> {
    /// [`Context::watch`] for an actor of any type.
    pub fn watch_any(&self, other: &AnyActorRef)
    where
        A: Receives<Terminated>,
    {
        self.watch_core(other.core());
    }

    /// [`Context::unwatch`] for an actor of any type.
    pub fn unwatch_any(&self, other: &AnyActorRef) {
        other.core().forget_watcher(Watcher::Actor(self.id()));
    }

    /// [`Context::watch`] for the actor of that name. If there is none, a [`Terminated`] with
    /// [`ExitReason::NotFound`] and the id 0 comes at once.
    pub fn watch_name(&self, name: &str)
    where
        A: Receives<Terminated>,
    {
        match self.system().find_name(name) {
            Some(other) => self.watch_any(&other),
            None => self.notify_not_found(ActorId(0), Some(name.to_owned())),
        }
    }

    /// [`Context::watch`] for the actor with that id, in this system. If it is not alive, a [`Terminated`] with
    /// [`ExitReason::NotFound`] comes at once. Its cost grows with the number of actors, as [`System::find`]'s.
    pub fn watch_id(&self, id: ActorId)
    where
        A: Receives<Terminated>,
    {
        match self.system().find(id) {
            Some(other) => self.watch_any(&other),
            None => self.notify_not_found(id, None),
        }
    }

    fn notify_not_found(&self, actor: ActorId, name: Option<String>)
    where
        A: Receives<Terminated>,
    {
        let reason = ExitReason::NotFound;
        self.notify_self(Terminated {
            actor,
            name,
            reason,
        });
    }

    /// Sends a notice to this actor.
    pub(crate) fn notify_self<M: Send + 'static>(&self, notice: M)
    where
        A: Receives<M>,
    {
        let notice = receives::envelope::<A, M, NoReply>(notice, NoReply);
        self.core().notify(notice);
    }

    /// Links this actor and another one: if one of them terminates because it failed, the other one fails, too, with
    /// "the linked actor .. terminated". Its supervision decides, so it may restart; the link is then gone. If `other`
    /// has failed already, this actor fails. A stop, graceful or not, and a restart do not fail the other one. Linking
    /// twice is linking once.
    ///
    /// This is Erlang's link, with one difference: a restarted actor is still the same actor, so it keeps its links. If
    /// the other one fails while it waits for its restart, it fails instead of starting, and its supervision decides
    /// again.
    pub fn link<B: Actor>(&self, other: &ActorRef<B>) {
        self.link_any(&other.any());
    }

    /// [`Context::link`] with an actor of any type.
    pub fn link_any(&self, other: &AnyActorRef) {
        let (own, other) = (self.core(), other.core());
        if own.id() == other.id() {
            return;
        }
        self.unlink_core(other);
        link_to(own, other);
        link_to(other, own);
    }

    /// Removes the link between this actor and another one.
    pub fn unlink<B: Actor>(&self, other: &ActorRef<B>) {
        self.unlink_core(other.cell().core());
    }

    /// [`Context::unlink`] for an actor of any type.
    pub fn unlink_any(&self, other: &AnyActorRef) {
        self.unlink_core(other.core());
    }

    fn unlink_core(&self, other: &Core) {
        let own = self.core();
        own.forget_watcher(Watcher::Link(other.id()));
        other.forget_watcher(Watcher::Link(own.id()));
    }
}

/// When `from` terminates, removes the other half of the link; if it failed, fails `to`.
fn link_to(from: &Core, to: &Core) {
    let (to_id, weak, text) = (to.id(), CoreRef::of(to).downgrade(), describe(from));
    let from_id = from.id();
    let on_end = move |ended: Terminated| {
        let Some(to) = weak.upgrade() else { return };
        to.forget_watcher(Watcher::Link(from_id));
        if ended.reason.is_abnormal() {
            let reason = format!("the linked actor {text} terminated: {:?}", ended.reason);
            to.fail_by_link(reason);
        }
    };
    from.on_end(Watcher::Link(to_id), Box::new(on_end));
}

fn describe(core: &Core) -> String {
    match &core.options().name {
        Some(name) => format!("{} \"{name}\" ({})", core.type_name(), core.id()),
        None => format!("{} ({})", core.type_name(), core.id()),
    }
}
