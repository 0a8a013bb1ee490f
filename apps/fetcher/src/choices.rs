//! Settings with names: how a look-up is routed, and how a thread waits.

use std::{fmt, str::FromStr};

use freeboard::{Blocking, BusySpin, Dispatcher, Router, Sleeping, Yielding, redis::Routing};

/// An enum whose variants have names, to be parsed and shown.
macro_rules! named {
    (
        $(#[$meta:meta])*
        $choice:ident, $unknown:ident, $what:literal, $names:literal;
        $( $(#[$doc:meta])* $variant:ident = $name:literal, )+
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $choice {
            $( $(#[$doc])* $variant, )+
        }

        impl $choice {
            const fn name(self) -> &'static str {
                match self {
                    $( Self::$variant => $name, )+
                }
            }
        }

        impl fmt::Display for $choice {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(self.name())
            }
        }

        #[doc = concat!("An unknown name of a ", $what, ".")]
        #[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
        #[error("no {what} is called \"{0}\": {names} are", what = $what, names = $names)]
        pub struct $unknown(String);

        impl FromStr for $choice {
            type Err = $unknown;

            fn from_str(name: &str) -> Result<Self, $unknown> {
                let found = [$( Self::$variant ),+].into_iter().find(|choice| choice.name() == name);
                found.ok_or_else(|| $unknown(name.to_owned()))
            }
        }
    };
}

named! {
    /// How a look-up finds its connection.
    Route, UnknownRoute, "route", "hash, random and p2c";
    /// By a hash of the key: a hot key is hot for one connection.
    Hash = "hash",
    /// At random.
    Random = "random",
    /// Of two random connections, the less busy one.
    P2c = "p2c",
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

named! {
    /// How the thread of a pinned actor waits for messages.
    Wait, UnknownWait, "wait strategy", "blocking, sleeping, yielding and busy-spin";
    /// On a lock and a condition.
    Blocking = "blocking",
    /// Spins, then yields, then parks.
    Sleeping = "sleeping",
    /// Spins, then yields.
    Yielding = "yielding",
    /// Spins.
    BusySpin = "busy-spin",
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
