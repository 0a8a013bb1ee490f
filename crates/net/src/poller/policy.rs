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

    /// `eager`, `drain` or `dedicated`; the first two may be followed by the time between two looks in
    /// microseconds and the runs between them, as `eager:200:64`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let mut number = |default: u32| match parts.next() {
            None => Ok(default),
            Some(digits) => match digits.parse() {
                Ok(number) if number > 0 => Ok(number),
                _ => Err(format!("`{digits}` is no number from 1")),
            },
        };
        let time = Duration::from_micros(number(EAGER_TIME.as_micros() as u32)?.into());
        let runs = number(EAGER_RUNS)?;
        let is_over = parts.next().is_none();
        match name {
            "eager" if is_over => Ok(Self::Eager { runs, time }),
            "drain" if is_over => Ok(Self::Drain { runs, time }),
            "dedicated" if text == name => Ok(Self::Dedicated),
            _ => Err(format!(
                "`{text}` is none of eager[:US[:RUNS]], drain[:US[:RUNS]] and dedicated"
            )),
        }
    }
}
