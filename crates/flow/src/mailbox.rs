//! The lanes of one mailbox, highest priority first.
//!
//! Each lane has its own bound and policy, so that a flood of low priority takes no capacity from other lanes.

use std::slice;

use crate::error::{ConfigError, MAX_LANES};
use crate::lane::LaneConfig;
use crate::rounds::WeightedRounds;

/// The lanes of a mailbox: rank 0 is drained first.
///
/// ```
/// use freeboard_flow::{LaneConfig, MailboxConfig, Overload};
///
/// let mailbox = MailboxConfig::lanes(vec![
///     LaneConfig::bounded(256),
///     LaneConfig::bounded(65_536).overload(Overload::DropOldest),
/// ]);
/// mailbox.validate()?;
/// # Ok::<(), freeboard_flow::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailboxConfig {
    lanes: Lanes,
}

/// One lane needs no allocation: it is the common case, and there may be a million actors.
#[derive(Clone, Debug)]
enum Lanes {
    One(LaneConfig),
    Many(Vec<LaneConfig>),
}

impl PartialEq for Lanes {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Lanes {}

impl Lanes {
    fn as_slice(&self) -> &[LaneConfig] {
        match self {
            Self::One(lane) => slice::from_ref(lane),
            Self::Many(lanes) => lanes,
        }
    }
}

impl MailboxConfig {
    /// A mailbox with one lane; needs no allocation.
    #[must_use]
    pub const fn single(lane: LaneConfig) -> Self {
        Self {
            lanes: Lanes::One(lane),
        }
    }

    /// A mailbox with the given lanes, highest priority first.
    #[must_use]
    pub const fn lanes(lanes: Vec<LaneConfig>) -> Self {
        Self {
            lanes: Lanes::Many(lanes),
        }
    }

    /// The lanes, highest priority first.
    #[must_use]
    pub fn as_slice(&self) -> &[LaneConfig] {
        self.lanes.as_slice()
    }

    /// The number of lanes.
    #[must_use]
    pub fn lane_count(&self) -> usize {
        self.as_slice().len()
    }

    /// The lane of this rank, if the mailbox has it.
    #[must_use]
    pub fn lane(&self, rank: usize) -> Option<&LaneConfig> {
        self.as_slice().get(rank)
    }

    /// Checks every lane and their order.
    ///
    /// # Errors
    ///
    /// The first violated rule: 1 to [`MAX_LANES`] lanes, each valid, and no batch larger than that of the lane above it,
    /// which would reverse the priorities.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let lanes = self.as_slice();
        if lanes.is_empty() || lanes.len() > MAX_LANES {
            return Err(ConfigError::LaneCount { count: lanes.len() });
        }
        let mut batch_above = u32::MAX;
        for (lane, config) in lanes.iter().enumerate() {
            config.validate().map_err(|error| ConfigError::Lane {
                lane,
                error: Box::new(error),
            })?;
            let batch = config.batch_at(lane);
            if batch > batch_above {
                return Err(ConfigError::BatchIncreases {
                    lane,
                    batch,
                    batch_above,
                });
            }
            batch_above = batch;
        }
        Ok(())
    }

    /// The draining schedule over these lanes.
    ///
    /// # Panics
    ///
    /// If the configuration is invalid: call [`validate`](Self::validate) first.
    #[must_use]
    pub fn rounds(&self) -> WeightedRounds {
        let lanes = self.as_slice();
        let mut batches = [0; MAX_LANES];
        assert!(
            lanes.len() <= MAX_LANES,
            "mailbox has {} lanes, at most {MAX_LANES} are allowed",
            lanes.len()
        );
        for (rank, config) in lanes.iter().enumerate() {
            batches[rank] = config.batch_at(rank);
        }
        WeightedRounds::new(&batches[..lanes.len()])
    }
}

impl Default for MailboxConfig {
    /// One default lane.
    fn default() -> Self {
        Self::single(LaneConfig::default())
    }
}

impl From<LaneConfig> for MailboxConfig {
    fn from(lane: LaneConfig) -> Self {
        Self::single(lane)
    }
}
