//! The bound, watermarks, policy and batch of one lane.
//!
//! ```text
//!   0 ───────── low ───────────── high ──── bound
//!               │                  │          └ the overload policy applies; the depth never exceeds it
//!               │                  └ sampling begins; the lane counts as flooded
//!               └ muted senders are released
//! ```
//!
//! As in OTP's `logger_olp`, the thresholds and the relation between them are defined here: `0 <= low < high <= bound`.
//! Because of the gap between low and high, a muted sender does not wake for every drained message.
//!
//! The overload policy is chosen per lane, because no single one suits commands, ticks and log lines alike. Muting
//! follows Pony's back-pressure (Clebsch et al.); the others are the classic forms of load shedding.

use std::{num::NonZeroU32, time::Duration};

use crate::age::{AgeLaw, CoDel};
use crate::error::{BOUND_MAX, ConfigError};
use crate::rounds::batch_default;

/// The default bound of a lane, in messages.
pub const BOUND_DEFAULT: usize = 65_536;

/// The policy of one lane for messages that arrive while it is full.
///
/// Under each policy the bound holds, and every unhandled message is counted by [`ShedReason`](crate::ShedReason).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Overload {
    /// The sender waits for capacity: an async sender awaits, a thread blocks, and a sending actor is muted until the
    /// receiver has drained to its low watermark. Nothing is lost.
    #[default]
    Wait,
    /// The sender gets its message back at once.
    Reject,
    /// The new message is shed and counted; the sender is not told. For streams whose first messages matter.
    DropNewest,
    /// The oldest queued message is shed in favour of the new one. For streams whose recent messages matter.
    DropOldest,
    /// The new message replaces the queued message with the same key, in its position. When the lane is full and no
    /// key matches, the new message is refused as under `Reject`.
    Coalesce,
    /// From the high watermark on, one message in `one_in` is accepted; at the bound, none. For telemetry, where a
    /// thinned stream keeps its shape.
    Sample {
        /// Offered messages per accepted message; 1 accepts all up to the bound.
        one_in: NonZeroU32,
    },
    /// While the queue stands, messages that waited longer than twice `target` are shed when they reach the actor,
    /// before the handler. A queue stands if every message of an `interval` waited longer than `target`; the first one
    /// that did not ends it. At the bound the new message is refused as under `Reject`. For requests: whoever waits for
    /// the reply gets an error at once.
    ///
    /// `0 < target < interval`. A start: a fifth of the requests' deadline, and the deadline.
    CoDel {
        /// The wait that is acceptable for long.
        target: Duration,
        /// How long every message has to wait longer before messages are shed; it should cover bursts.
        interval: Duration,
    },
    /// Messages that waited longer than this are shed when they reach the actor, before the handler. At the bound the
    /// new message is refused as under `Reject`. For data that ages, as positions and prices.
    MaxAge(Duration),
}

/// The bound, overload policy, watermarks and batch of one lane of a mailbox.
///
/// Written in `usize`, like the sizes of collections; read in `u64`, like depths and counters.
///
/// ```
/// use freeboard_flow::{LaneConfig, Overload};
///
/// const TICKS: LaneConfig = LaneConfig::bounded(4_096)
///     .overload(Overload::DropOldest)
///     .watermarks(1_024, 3_072);
/// assert!(TICKS.validate().is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneConfig {
    bound: u64,
    watermarks: Option<(u64, u64)>,
    overload: Overload,
    batch: Option<u32>,
    is_lifo_when_overloaded: bool,
}

impl LaneConfig {
    /// A lane that holds at most `messages`, with policy [`Overload::Wait`], default watermarks and
    /// the batch of its rank.
    #[must_use]
    pub const fn bounded(messages: usize) -> Self {
        Self {
            bound: messages as u64,
            watermarks: None,
            overload: Overload::Wait,
            batch: None,
            is_lifo_when_overloaded: false,
        }
    }

    /// Sets the policy for messages that arrive while the lane is full.
    #[must_use]
    pub const fn overload(mut self, overload: Overload) -> Self {
        self.overload = overload;
        self
    }

    /// Sets the depths, in messages, at which muted senders are released (`low`) and from which the lane counts as
    /// flooded (`high`).
    ///
    /// Default: half the bound, and the bound. Under [`Overload::Sample`] the default of `high` is three quarters of
    /// the bound, because sampling acts between `high` and the bound.
    #[must_use]
    pub const fn watermarks(mut self, low: usize, high: usize) -> Self {
        self.watermarks = Some((low as u64, high as u64));
        self
    }

    /// Sets the most messages that one round takes from the lane. Default: [`batch_default`] of the lane's rank.
    #[must_use]
    pub const fn batch(mut self, messages: u32) -> Self {
        self.batch = Some(messages);
        self
    }

    /// Hands out the newest message first while [`Overload::CoDel`] finds the lane overloaded ("adaptive LIFO" of "Fail
    /// at Scale", ACM Queue 2015): the requests that are handled are then those whose senders most likely still wait.
    /// Messages of one sender are reordered meanwhile. The lane has a lock, as under [`Overload::DropOldest`].
    #[must_use]
    pub const fn lifo_when_overloaded(mut self) -> Self {
        self.is_lifo_when_overloaded = true;
        self
    }

    /// The most messages that the lane holds.
    #[must_use]
    #[inline]
    pub const fn bound(&self) -> u64 {
        self.bound
    }

    /// The depth, in messages, at which muted senders are released.
    #[must_use]
    #[inline]
    pub const fn low(&self) -> u64 {
        match self.watermarks {
            Some((low, _)) => low,
            None => self.bound / 2,
        }
    }

    /// The depth, in messages, from which the lane counts as flooded.
    #[must_use]
    #[inline]
    pub const fn high(&self) -> u64 {
        match (self.watermarks, self.overload) {
            (Some((_, high)), _) => high,
            (None, Overload::Sample { .. }) => self.bound - self.bound / 4,
            (None, _) => self.bound,
        }
    }

    /// The policy for messages that arrive while the lane is full.
    #[must_use]
    #[inline]
    pub const fn overload_policy(&self) -> Overload {
        self.overload
    }

    /// Whether the lane hands out the newest message first while it is overloaded.
    #[must_use]
    pub const fn is_lifo_when_overloaded(&self) -> bool {
        self.is_lifo_when_overloaded
    }

    /// The law by which the lane sheds old messages, if it does.
    #[must_use]
    pub fn age_law(&self) -> Option<AgeLaw> {
        match self.overload {
            Overload::CoDel { target, interval } => Some(AgeLaw::CoDel(CoDel::new(
                saturating_ns(target),
                saturating_ns(interval),
            ))),
            Overload::MaxAge(max) => Some(AgeLaw::MaxAge {
                max_ns: saturating_ns(max),
            }),
            _ => None,
        }
    }

    /// The lane's batch at `rank`, in messages; rank 0 is the highest priority.
    #[must_use]
    pub const fn batch_at(&self, rank: usize) -> u32 {
        match self.batch {
            Some(batch) => batch,
            None => batch_default(rank),
        }
    }

    /// Whether a lane at this depth is flooded: at its high watermark or above.
    #[must_use]
    #[inline]
    pub const fn is_flooded_at(&self, depth: u64) -> bool {
        depth >= self.high()
    }

    /// Whether a lane at this depth releases muted senders: at its low watermark or below. A lane with a bound of 1 has
    /// its low watermark at 0.
    #[must_use]
    #[inline]
    pub const fn releases_at(&self, depth: u64) -> bool {
        depth <= self.low()
    }

    /// Checks the relations between bound, watermarks, batch and the policy's times.
    ///
    /// # Errors
    ///
    /// The first violated relation: bound within 1..=[`BOUND_MAX`], low < high <= bound, batch at least 1,
    /// 0 < target < interval, 0 < maximum age; newest first only under [`Overload::CoDel`].
    pub fn validate(&self) -> Result<(), ConfigError> {
        let (bound, low, high) = (self.bound, self.low(), self.high());
        if bound == 0 {
            return Err(ConfigError::BoundZero);
        }
        if bound > BOUND_MAX {
            return Err(ConfigError::BoundTooLarge { bound });
        }
        if low >= high {
            return Err(ConfigError::LowNotBelowHigh { low, high });
        }
        if high > bound {
            return Err(ConfigError::HighAboveBound { high, bound });
        }
        if self.batch == Some(0) {
            return Err(ConfigError::BatchZero);
        }
        match self.overload {
            Overload::CoDel { target, interval } if target.is_zero() || target >= interval => {
                return Err(ConfigError::TargetNotBelowInterval { target, interval });
            }
            Overload::MaxAge(Duration::ZERO) => return Err(ConfigError::MaxAgeZero),
            Overload::CoDel { .. } => {}
            _ if self.is_lifo_when_overloaded => return Err(ConfigError::LifoWithoutCoDel),
            _ => {}
        }
        Ok(())
    }
}

fn saturating_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Default for LaneConfig {
    /// [`BOUND_DEFAULT`] messages, [`Overload::Wait`].
    fn default() -> Self {
        Self::bounded(BOUND_DEFAULT)
    }
}
