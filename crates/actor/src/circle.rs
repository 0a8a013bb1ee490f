//! A circle of asks: actors that each wait for the reply of the next one.

use std::fmt;

use crate::id::ActorId;

/// Actors that wait for each other's replies in a circle. Its text is
/// `Buyer "north" (#1) -> Seller (#2) -> Buyer "north" (#1)`.
#[derive(Clone, PartialEq, Eq)]
pub struct Circle {
    pub(crate) actors: Vec<CircleActor>,
}

/// An actor of a [`Circle`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CircleActor {
    /// Its id.
    pub id: ActorId,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Name of its type.
    pub actor_type: &'static str,
}

impl Circle {
    /// The actors: the first one is the one whose ask failed, and each one asks the next.
    pub fn actors(&self) -> &[CircleActor] {
        &self.actors
    }
}

impl fmt::Display for Circle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, actor) in self.actors.iter().chain(self.actors.first()).enumerate() {
            let separator = if index == 0 { "" } else { " -> " };
            write!(formatter, "{separator}{}", actor.actor_type)?;
            if let Some(name) = &actor.name {
                write!(formatter, " \"{name}\"")?;
            }
            write!(formatter, " ({})", actor.id)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Circle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Circle({self})")
    }
}
