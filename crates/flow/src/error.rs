//! What is wrong with a configuration, named by value and relation.
//!
//! Raised once, where a mailbox, a dam or a supervisor is built; never on a message's way.

use crate::lane::BOUND_MAX;
use crate::mailbox::MAX_LANES;
use crate::restart::RESTARTS_MAX;

/// A configuration that cannot hold, with the values that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A lane's bound is 0: it could never accept a message.
    #[error("lane bound is 0, it must be at least 1")]
    BoundZero,
    /// A lane's bound is above [`BOUND_MAX`].
    #[error("lane bound is {bound}, it must be at most {BOUND_MAX}")]
    BoundTooLarge {
        /// The bound that was asked for, in messages.
        bound: u64,
    },
    /// The lane of an actor with a thread of its own is a ring, and its memory is taken at once.
    #[error("lane bound is {bound}, a pinned actor's must be at most {bound_max}")]
    RingTooLarge {
        /// The bound that was asked for, in messages.
        bound: u64,
        /// The largest bound of a ring.
        bound_max: u64,
    },
    /// The watermarks do not leave a gap to drain.
    #[error("low watermark is {low}, it must be below the high watermark {high}")]
    LowNotBelowHigh {
        /// The low watermark, in messages.
        low: u64,
        /// The high watermark, in messages.
        high: u64,
    },
    /// The high watermark could never be reached.
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
    /// One lane of a mailbox is wrong.
    #[error("lane {lane}: {error}")]
    Lane {
        /// The lane's rank, 0 being the highest priority.
        lane: usize,
        /// What is wrong with it.
        error: Box<ConfigError>,
    },
    /// A mailbox has no lanes, or more than [`MAX_LANES`].
    #[error("mailbox has {count} lanes, it must have 1 to {MAX_LANES}")]
    LaneCount {
        /// How many lanes were given.
        count: usize,
    },
    /// A lane of lower priority would be drained faster than the one above it.
    #[error(
        "batch of lane {lane} is {batch}, it must be at most the batch {batch_above} of lane {}",
        .lane - 1
    )]
    BatchIncreases {
        /// The rank of the lane whose batch is too large, at least 1.
        lane: usize,
        /// Its batch, in messages.
        batch: u32,
        /// The batch of the lane ranked just above it, in messages.
        batch_above: u32,
    },
    /// A reservoir that could never hold anything.
    #[error("reservoir bound in {unit} is 0, it must be at least 1")]
    ReservoirZero {
        /// Which of the two bounds: `messages` or `bytes`.
        unit: &'static str,
    },
    /// A back-off whose first delay is longer than its longest.
    #[error("back-off minimum is {min_ns} ns, it must be at most the maximum {max_ns} ns")]
    BackoffMinAboveMax {
        /// The first delay, in nanoseconds.
        min_ns: u64,
        /// The longest delay, in nanoseconds.
        max_ns: u64,
    },
    /// A back-off that would shrink to nothing.
    #[error("back-off factor is 0, it must be at least 1")]
    BackoffFactorZero,
    /// A restart limit whose history would not fit in bounded memory.
    #[error("restart limit is {max}, it must be at most {RESTARTS_MAX}")]
    RestartsTooMany {
        /// The limit that was asked for.
        max: u32,
    },
}
