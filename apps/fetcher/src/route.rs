//! By what a look-up finds its connection.

use std::{fmt, str::FromStr};

use freeboard::{Router, redis::Routing};

/// By what a look-up finds its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// A hash of the key: a hot key is hot for one of them.
    Hash,
    /// Chance.
    Random,
    /// Of two by chance, the one with less to do.
    P2c,
}

impl Route {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Hash, Self::Random, Self::P2c];

    const SEED: u64 = 1;

    pub(crate) const fn router(self) -> Router {
        match self {
            Self::Hash => Router::HashOfKey,
            Self::Random => Router::Random { seed: Self::SEED },
            Self::P2c => Router::PowerOfTwoChoices { seed: Self::SEED },
        }
    }

    /// The same for the connections of one client.
    #[must_use]
    pub const fn routing(self) -> Routing {
        match self {
            Self::Hash => Routing::Hash,
            Self::Random => Routing::Random,
            Self::P2c => Routing::PowerOfTwoChoices,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Random => "random",
            Self::P2c => "p2c",
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// No route of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no route is called \"{0}\": hash, random and p2c are")]
pub struct UnknownRoute(String);

impl FromStr for Route {
    type Err = UnknownRoute;

    fn from_str(name: &str) -> Result<Self, UnknownRoute> {
        let found = Self::ALL.into_iter().find(|route| route.name() == name);
        found.ok_or_else(|| UnknownRoute(name.to_owned()))
    }
}
