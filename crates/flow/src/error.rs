//! The limits of configurations, and the errors that name a violated limit or relation.
//!
//! Returned when a mailbox, a dam or a supervisor is built, never on the message path.

use std::time::Duration;

/// The largest bound of a lane, in messages: 2^48, so that depths and indices never wrap.
pub const BOUND_MAX: u64 = 1 << 48;

/// The most lanes of a mailbox.
pub const MAX_LANES: usize = 8;

/// The largest restart limit. A history takes 8 bytes per restart.
pub const RESTARTS_MAX: u32 = 1_024;

/// An invalid configuration, with the values that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A lane's bound is 0: it could never accept a message.
    #[error("lane bound is 0, it must be at least 1")]
    BoundZero,
    /// A lane's bound is above [`BOUND_MAX`].
    #[error("lane bound is {bound}, it must be at most {BOUND_MAX}")]
    BoundTooLarge {
        /// The configured bound, in messages.
        bound: u64,
    },
    /// The lane of a pinned actor is a ring, which allocates all its memory at the start.
    #[error("lane bound is {bound}, a pinned actor's must be at most {bound_max}")]
    RingTooLarge {
        /// The configured bound, in messages.
        bound: u64,
        /// The largest bound of a ring.
        bound_max: u64,
    },
    /// The low watermark is not below the high one.
    #[error("low watermark is {low}, it must be below the high watermark {high}")]
    LowNotBelowHigh {
        /// The low watermark, in messages.
        low: u64,
        /// The high watermark, in messages.
        high: u64,
    },
    /// The high watermark is above the bound.
    #[error("high watermark is {high}, it must be at most the lane bound {bound}")]
    HighAboveBound {
        /// The high watermark, in messages.
        high: u64,
        /// The lane's bound, in messages.
        bound: u64,
    },
    /// A lane's batch is 0: it would never be drained.
    #[error("lane batch is 0, it must be at least 1")]
    BatchZero,
    /// A CoDel lane whose target is 0, or not below its interval: no message could be the exception in a burst.
    #[error("CoDel target is {target:?}, it must be above 0 and below the interval {interval:?}")]
    TargetNotBelowInterval {
        /// The configured target.
        target: Duration,
        /// The configured interval.
        interval: Duration,
    },
    /// A maximum age of 0: it would shed every message.
    #[error("maximum age is 0, it must be above 0")]
    MaxAgeZero,
    /// A lane that hands out the newest message first while it is overloaded, without the policy that finds out.
    #[error("newest first while overloaded needs the policy CoDel")]
    LifoWithoutCoDel,
    /// One lane of a mailbox is invalid.
    #[error("lane {lane}: {error}")]
    Lane {
        /// The lane's rank; 0 is the highest priority.
        lane: usize,
        /// The lane's error.
        error: Box<ConfigError>,
    },
    /// A mailbox has no lanes, or more than [`MAX_LANES`].
    #[error("mailbox has {count} lanes, it must have 1 to {MAX_LANES}")]
    LaneCount {
        /// The configured number of lanes.
        count: usize,
    },
    /// A lane of lower priority has a larger batch than the one above it.
    #[error(
        "batch of lane {lane} is {batch}, it must be at most the batch {batch_above} of lane {}",
        .lane - 1
    )]
    BatchIncreases {
        /// The rank of the lane with the larger batch, at least 1.
        lane: usize,
        /// Its batch, in messages.
        batch: u32,
        /// The batch of the lane above it, in messages.
        batch_above: u32,
    },
    /// A reservoir with a bound of 0.
    #[error("reservoir bound in {unit} is 0, it must be at least 1")]
    ReservoirZero {
        /// The bound's unit: `messages` or `bytes`.
        unit: &'static str,
    },
    /// An adaptive limit whose range is empty, or whose first value lies outside of it.
    #[error(
        "adaptive limit is {min} to {max} from {initial}, it must be 1 <= min <= initial <= max <= {}",
        crate::adaptive::LIMIT_MAX
    )]
    LimitRange {
        /// The smallest limit, in messages.
        min: u64,
        /// The first limit, in messages.
        initial: u64,
        /// The largest limit, in messages.
        max: u64,
    },
    /// An adaptive limit with windows of no time.
    #[error("window of the adaptive limit is 0, it must be above 0")]
    LimitWindowZero,
    /// A back-off whose first delay is above its longest.
    #[error("back-off minimum is {min_ns} ns, it must be at most the maximum {max_ns} ns")]
    BackoffMinAboveMax {
        /// The first delay, in nanoseconds.
        min_ns: u64,
        /// The longest delay, in nanoseconds.
        max_ns: u64,
    },
    /// A back-off with the factor 0.
    #[error("back-off factor is 0, it must be at least 1")]
    BackoffFactorZero,
    /// A restart limit with a time of 0: it would allow every restart.
    #[error("time of the restart limit is 0, it must be above 0")]
    RestartTimeZero,
    /// A restart limit above [`RESTARTS_MAX`].
    #[error("restart limit is {max}, it must be at most {RESTARTS_MAX}")]
    RestartsTooMany {
        /// The configured limit.
        max: u32,
    },
}
