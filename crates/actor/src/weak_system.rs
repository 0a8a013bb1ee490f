//! A system as those see it who only watch.

use std::sync::{Arc, Weak};

use crate::system::{System, SystemInner};

/// A handle that keeps neither the system nor its threads alive. Cheap to clone.
#[derive(Clone)]
pub struct WeakSystem(Weak<SystemInner>);

impl WeakSystem {
    /// The system, while there is anybody else who holds it. The handle is as an actor's context has it:
    /// the system's threads end all the same when the last owner's is dropped.
    #[must_use]
    pub fn upgrade(&self) -> Option<System> {
        self.0.upgrade().map(System::within)
    }

    /// Whether both are of one system.
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

impl System {
    /// A handle for those who only watch.
    #[must_use]
    pub fn downgrade(&self) -> WeakSystem {
        WeakSystem(Arc::downgrade(self.inner()))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner().name
    }

    /// Whether all of its actors have ended, by [`System::shutdown`].
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.inner().is_shutting_down() && self.actors_alive() == 0
    }

    /// The tokio runtime that is attached to the system.
    #[cfg(feature = "tokio")]
    #[must_use]
    pub fn runtime(&self) -> Option<tokio::runtime::Handle> {
        self.inner().runtime.clone()
    }
}
