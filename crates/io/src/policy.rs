//! When workers that are busy look at the poller.

use std::{fmt, str::FromStr, time::Duration};

use freeboard_sched::Cadence;

/// Runs after which a busy worker looks under [`Policy::Eager`], by default.
pub const EAGER_RUNS: u32 = 64;
/// Time after which a busy worker looks under [`Policy::Eager`], by default.
pub const EAGER_TIME: Duration = Duration::from_micros(200);

/// When workers that are busy look at the poller. Idle ones wait in it under each policy but
/// [`Policy::Dedicated`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// After so many runs or so much time, whichever comes first. What is found queues behind what
    /// waits already.
    Eager {
        /// Runs of actors between two looks, at least 1.
        runs: u32,
        /// Time between two looks.
        time: Duration,
    },
    /// As often, but only when all that the last look found has been handled; what is found goes
    /// before everything else. Erlang's rule without its eager check.
    Drain {
        /// Runs of actors between two looks, at least 1.
        runs: u32,
        /// Time between two looks.
        time: Duration,
    },
    /// A thread of its own waits in the poller, and no worker ever looks.
    Dedicated,
}

impl Policy {
    /// [`Policy::Eager`] with its default numbers.
    pub const EAGER: Self = Self::Eager {
        runs: EAGER_RUNS,
        time: EAGER_TIME,
    };

    /// [`Policy::Drain`] with the default numbers of [`Policy::Eager`].
    pub const DRAIN: Self = Self::Drain {
        runs: EAGER_RUNS,
        time: EAGER_TIME,
    };

    /// One word for it: `eager`, `drain` or `dedicated`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Eager { .. } => "eager",
            Self::Drain { .. } => "drain",
            Self::Dedicated => "dedicated",
        }
    }

    pub(crate) fn cadence(&self) -> Cadence {
        match *self {
            Self::Eager { runs, time } | Self::Drain { runs, time } => Cadence {
                // The largest number says never.
                runs: runs.clamp(1, u32::MAX - 1),
                time_ns: u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
                is_first: matches!(self, Self::Drain { .. }),
            },
            Self::Dedicated => Cadence::NEVER,
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::EAGER
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Policy {
    type Err = String;

    /// The policy with its default numbers.
    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "eager" => Ok(Self::EAGER),
            "drain" => Ok(Self::DRAIN),
            "dedicated" => Ok(Self::Dedicated),
            other => Err(format!("`{other}` is none of eager, drain and dedicated")),
        }
    }
}
