//! The bound, watermarks, policy and batch of one lane.
//!
//! ```text
//!   0 ───────── low ───────────── high ──── bound
//!               │                  │          └ the policy decides; nothing gets past
//!               │                  └ sampling begins; the lane counts as flooded
//!               └ muted senders go on
//! ```
//!
//! As OTP's `logger_olp` does, the thresholds are kept in one place together with the relation that
//! must hold between them: `0 <= low < high <= bound`. The gap between low and high is what keeps a
//! muted sender from waking for every single message that is drained.

use crate::error::ConfigError;
use crate::overload::Overload;
use crate::rounds::batch_default;

/// The bound of a lane whose user named none, in messages.
pub const BOUND_DEFAULT: usize = 65_536;

/// The largest bound a lane may have, in messages: 2^48, so that depths and tickets never wrap.
pub const BOUND_MAX: u64 = 1 << 48;

/// How one lane of a mailbox is bounded, drained and what it does when it is full.
///
/// Set in `usize`, as collections are; read in `u64`, as depths and counters are.
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
        }
    }

    /// Sets what happens to messages that arrive while the lane is full.
    #[must_use]
    pub const fn overload(mut self, overload: Overload) -> Self {
        self.overload = overload;
        self
    }

    /// Sets the depths, in messages, at which muted senders go on (`low`) and at which the lane
    /// counts as flooded (`high`).
    ///
    /// Unset, low is half the bound and high is the bound; under [`Overload::Sample`] high is three
    /// quarters of the bound, since sampling needs room between the two to act in.
    #[must_use]
    pub const fn watermarks(mut self, low: usize, high: usize) -> Self {
        self.watermarks = Some((low as u64, high as u64));
        self
    }

    /// Sets how many messages one round takes from the lane at most.
    ///
    /// Unset, it follows from the lane's rank: [`batch_default`].
    #[must_use]
    pub const fn batch(mut self, messages: u32) -> Self {
        self.batch = Some(messages);
        self
    }

    /// The most messages that the lane holds.
    #[must_use]
    #[inline]
    pub const fn bound(&self) -> u64 {
        self.bound
    }

    /// The depth, in messages, at which muted senders go on.
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

    /// What happens to messages that arrive while the lane is full.
    #[must_use]
    #[inline]
    pub const fn overload_policy(&self) -> Overload {
        self.overload
    }

    /// The batch that was set, in messages, or `None` if it follows from the lane's rank.
    #[must_use]
    pub const fn batch_size(&self) -> Option<u32> {
        self.batch
    }

    /// The batch, in messages, that the lane has at `rank`, 0 being the highest priority.
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

    /// Whether a lane at this depth lets muted senders go on: at its low watermark or below.
    ///
    /// "At" and not "below" only, since a lane with a bound of 1 has its low watermark at 0.
    #[must_use]
    #[inline]
    pub const fn releases_at(&self, depth: u64) -> bool {
        depth <= self.low()
    }

    /// Checks the relations between bound, watermarks and batch.
    ///
    /// # Errors
    ///
    /// The first relation that does not hold: bound within 1..=[`BOUND_MAX`], low < high <= bound,
    /// batch at least 1.
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
        Ok(())
    }
}

impl Default for LaneConfig {
    /// [`BOUND_DEFAULT`] messages, [`Overload::Wait`].
    fn default() -> Self {
        Self::bounded(BOUND_DEFAULT)
    }
}
