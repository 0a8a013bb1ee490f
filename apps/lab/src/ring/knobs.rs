//! The scene's knobs: what each one may be set to.

use clap::ValueEnum;
use serde::Serialize;

/// How the consumer waits for its ring, and the producers for room in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Wait {
    /// On a lock: costs nothing while it waits, most when it is woken
    Blocking,
    /// Spins, then yields, then sleeps a little
    Sleeping,
    /// Spins, then yields its core again and again
    Yielding,
    /// Spins on, and takes its core for itself
    Busyspin,
}

impl Wait {
    /// Its name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Blocking => "blocking",
            Self::Sleeping => "sleeping",
            Self::Yielding => "yielding",
            Self::Busyspin => "busyspin",
        }
    }
}

/// What may be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WaitChoice {
    /// On a lock: costs nothing while it waits, most when it is woken
    Blocking,
    /// Spins, then yields, then sleeps a little
    Sleeping,
    /// Spins, then yields its core again and again
    Yielding,
    /// Spins on, and takes its core for itself
    Busyspin,
    /// One after the other
    All,
}

impl WaitChoice {
    /// The ways, in order.
    pub(crate) const fn waits(self) -> &'static [Wait] {
        match self {
            Self::Blocking => &[Wait::Blocking],
            Self::Sleeping => &[Wait::Sleeping],
            Self::Yielding => &[Wait::Yielding],
            Self::Busyspin => &[Wait::Busyspin],
            Self::All => &[
                Wait::Blocking,
                Wait::Sleeping,
                Wait::Yielding,
                Wait::Busyspin,
            ],
        }
    }
}
