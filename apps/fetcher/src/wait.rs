//! How a thread that belongs to one actor waits for messages.

use std::{fmt, str::FromStr};

use freeboard::{Blocking, BusySpin, Dispatcher, Sleeping, Yielding};

/// A wait strategy by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// On a lock and a condition.
    Blocking,
    /// Spins, then yields, then parks.
    Sleeping,
    /// Spins, then yields.
    Yielding,
    /// Spins.
    BusySpin,
}

impl Wait {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Blocking,
        Self::Sleeping,
        Self::Yielding,
        Self::BusySpin,
    ];

    /// A thread of the actor's own that waits like this.
    #[must_use]
    pub fn dispatcher(self) -> Dispatcher {
        match self {
            Self::Blocking => Dispatcher::pinned(Blocking::default()),
            Self::Sleeping => Dispatcher::pinned(Sleeping::default()),
            Self::Yielding => Dispatcher::pinned(Yielding::default()),
            Self::BusySpin => Dispatcher::pinned(BusySpin),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Blocking => "blocking",
            Self::Sleeping => "sleeping",
            Self::Yielding => "yielding",
            Self::BusySpin => "busy-spin",
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// No wait strategy of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no wait strategy is called \"{0}\": blocking, sleeping, yielding and busy-spin are")]
pub struct UnknownWait(String);

impl FromStr for Wait {
    type Err = UnknownWait;

    fn from_str(name: &str) -> Result<Self, UnknownWait> {
        let found = Self::ALL.into_iter().find(|wait| wait.name() == name);
        found.ok_or_else(|| UnknownWait(name.to_owned()))
    }
}
