//! When busy workers poll.

use std::{fmt, str::FromStr, time::Duration};

use freeboard_sched::PollInterval;

/// Default number of runs between two polls of a busy worker under [`Policy::Eager`].
pub const EAGER_RUNS: u32 = 64;
/// Default time between two polls of a busy worker under [`Policy::Eager`].
pub const EAGER_TIME: Duration = Duration::from_micros(200);

/// When busy workers poll. An idle worker waits in the poller under each policy except [`Policy::Dedicated`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// After a number of runs or a time, whichever comes first. The tasks of its events queue behind the waiting tasks.
    Eager {
        /// Runs of actors between two polls, at least 1.
        runs: u32,
        /// Time between two polls.
        time: Duration,
    },
    /// As often, but only when all events of the last poll have been handled. The tasks of its events go before all others.
    /// Erlang's rule without its eager check.
    Drain {
        /// Runs of actors between two polls, at least 1.
        runs: u32,
        /// Time between two polls.
        time: Duration,
    },
    /// A dedicated thread waits in the poller, and workers never poll.
    Dedicated,
    /// Erlang's rule before its eager check, with nothing that softens it, to measure how sockets starve. A busy worker polls
    /// after it has handled twice its budget of messages, however long they take, and only when all events of the last poll
    /// have been handled. The monitor does not poll; it only wakes an idle worker to wait in the poller. While all workers
    /// are busy with long messages, a ready socket waits for many of them.
    ///
    /// It needs the feature `fault-injection`, and has no text that [`FromStr`] reads: no configuration can choose it.
    #[cfg(feature = "fault-injection")]
    Lazy,
}

/// Budgets of messages between two polls of a busy worker under [`Policy::Lazy`].
#[cfg(feature = "fault-injection")]
const LAZY_BUDGETS: u32 = 2;

impl Policy {
    /// [`Policy::Eager`] with its defaults.
    pub const EAGER: Self = Self::Eager {
        runs: EAGER_RUNS,
        time: EAGER_TIME,
    };

    /// [`Policy::Drain`] with the defaults of [`Policy::Eager`].
    pub const DRAIN: Self = Self::Drain {
        runs: EAGER_RUNS,
        time: EAGER_TIME,
    };

    /// Its name: `eager`, `drain`, `dedicated` or `lazy`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Eager { .. } => "eager",
            Self::Drain { .. } => "drain",
            Self::Dedicated => "dedicated",
            #[cfg(feature = "fault-injection")]
            Self::Lazy => "lazy",
        }
    }

    pub(crate) fn interval(&self) -> PollInterval {
        match *self {
            Self::Eager { runs, time } | Self::Drain { runs, time } => PollInterval::Every {
                runs: runs.max(1),
                time_ns: u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
                is_first: matches!(self, Self::Drain { .. }),
            },
            Self::Dedicated => PollInterval::Never,
            #[cfg(feature = "fault-injection")]
            Self::Lazy => PollInterval::Budgets(LAZY_BUDGETS),
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

    /// `eager`, `drain` or `dedicated`. The first two may be followed by the time between two polls in microseconds and the
    /// runs between them: `eager:200:64`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let mut number = |default: u32| match parts.next() {
            None => Ok(default),
            Some(digits) => match digits.parse() {
                Ok(number) if number > 0 => Ok(number),
                _ => Err(format!("`{digits}` is not a number from 1")),
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
