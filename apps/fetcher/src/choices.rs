//! Settings with names: how a look-up is routed, and how a thread waits.

use std::fmt;

use clap::ValueEnum;
use freeboard::{Blocking, BusySpin, Dispatcher, Router, Sleeping, Yielding, redis::Routing};

/// How a look-up finds its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Route {
    /// By a hash of the key: a hot key is hot for one connection.
    Hash,
    /// At random.
    Random,
    /// Of two random connections, the less busy one.
    P2c,
}

impl Route {
    const SEED: u64 = 1;

    pub(crate) const fn router(self) -> Router {
        match self {
            Self::Hash => Router::HashOfKey,
            Self::Random => Router::Random { seed: Self::SEED },
            Self::P2c => Router::PowerOfTwoChoices { seed: Self::SEED },
        }
    }

    /// The same route for the connections of one Redis client.
    #[must_use]
    pub const fn routing(self) -> Routing {
        match self {
            Self::Hash => Routing::Hash,
            Self::Random => Routing::Random,
            Self::P2c => Routing::PowerOfTwoChoices,
        }
    }
}

/// How the thread of a pinned actor waits for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Wait {
    /// Polls a few times, then parks.
    Blocking,
    /// Spins, then yields, then parks.
    Sleeping,
    /// Spins, then yields.
    Yielding,
    /// Spins.
    #[value(alias = "busyspin")]
    BusySpin,
}

impl Wait {
    /// The dispatcher of an actor with a thread of its own that waits like this.
    #[must_use]
    pub fn dispatcher(self) -> Dispatcher {
        match self {
            Self::Blocking => Dispatcher::pinned(Blocking::default()),
            Self::Sleeping => Dispatcher::pinned(Sleeping::default()),
            Self::Yielding => Dispatcher::pinned(Yielding::default()),
            Self::BusySpin => Dispatcher::pinned(BusySpin),
        }
    }
}

fn show(choice: &impl ValueEnum, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    let value = choice.to_possible_value().expect("no value is skipped");
    formatter.write_str(value.get_name())
}

impl fmt::Display for Route {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(self, formatter)
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(self, formatter)
    }
}
