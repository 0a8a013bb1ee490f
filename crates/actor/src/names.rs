//! Names of actors within a system.

use std::{
    any::Any,
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::id::ActorId;

struct Named {
    id: ActorId,
    /// An `ActorRef` of the actor's own type.
    actor: Arc<dyn Any + Send + Sync>,
}

#[derive(Default)]
pub(crate) struct Names(Mutex<HashMap<String, Named>>);

impl Names {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Named>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `false` if the name is taken.
    pub(crate) fn claim<R: Any + Send + Sync>(&self, name: &str, id: ActorId, actor: R) -> bool {
        let mut names = self.lock();
        if names.contains_key(name) {
            return false;
        }
        let actor = Arc::new(actor);
        names.insert(name.to_owned(), Named { id, actor });
        true
    }

    /// Transfers a claimed name to the actor that was created for it.
    pub(crate) fn transfer<R: Any + Send + Sync>(
        &self,
        name: &str,
        from: ActorId,
        to: ActorId,
        actor: R,
    ) {
        if let Some(named) = self.lock().get_mut(name)
            && named.id == from
        {
            let actor = Arc::new(actor);
            *named = Named { id: to, actor };
        }
    }

    /// Frees the name, if that actor has it.
    pub(crate) fn release(&self, name: &str, id: ActorId) {
        let mut names = self.lock();
        if names.get(name).is_some_and(|named| named.id == id) {
            names.remove(name);
        }
    }

    pub(crate) fn find<R: Any + Clone>(&self, name: &str) -> Option<R> {
        self.lock().get(name)?.actor.downcast_ref::<R>().cloned()
    }

    pub(crate) fn clear(&self) {
        let names = std::mem::take(&mut *self.lock());
        drop(names);
    }
}
