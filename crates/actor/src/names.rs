//! Names of actors within a system.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{any_ref::AnyActorRef, id::ActorId};

struct Named {
    id: ActorId,
    /// `None` while the name is claimed for an actor that is being spawned.
    actor: Option<AnyActorRef>,
}

#[derive(Default)]
pub(crate) struct Names(Mutex<HashMap<String, Named>>);

impl Names {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Named>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `false` if the name is taken.
    pub(crate) fn claim(&self, name: &str, id: ActorId, actor: Option<AnyActorRef>) -> bool {
        let mut names = self.lock();
        if names.contains_key(name) {
            return false;
        }
        names.insert(name.to_owned(), Named { id, actor });
        true
    }

    /// Transfers a claimed name to the actor that was created for it.
    pub(crate) fn transfer(&self, name: &str, from: ActorId, actor: AnyActorRef) {
        if let Some(named) = self.lock().get_mut(name)
            && named.id == from
        {
            named.id = actor.id();
            named.actor = Some(actor);
        }
    }

    /// Frees the name, if that actor has it.
    pub(crate) fn release(&self, name: &str, id: ActorId) {
        // Dropped without the lock: it may be the last reference.
        let mut _released = None;
        let mut names = self.lock();
        if names.get(name).is_some_and(|named| named.id == id) {
            _released = names.remove(name);
        }
        drop(names);
    }

    pub(crate) fn find(&self, name: &str) -> Option<AnyActorRef> {
        self.lock().get(name)?.actor.clone()
    }

    pub(crate) fn clear(&self) {
        let names = std::mem::take(&mut *self.lock());
        drop(names);
    }
}
