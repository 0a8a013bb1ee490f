//! The choice of the lane from which the next message is taken.
//!
//! Each lane has a batch: the messages that one round may take from it. Each pick takes the highest ready lane with some
//! of its batch left. When no ready lane has any left, the next round begins.
//!
//! ```text
//!   batches 4 2 1, all lanes ready:   0 0 0 0 1 1 2 │ 0 0 0 0 1 1 2 │ ...
//!   lane 0 becomes ready here  ──▶    1 ↓0 0 0 0 1 2 │ ...
//! ```
//!
//! This is weighted round robin with priority within the round. Plain weighted round robin finishes a batch once begun,
//! so that an urgent message waits for up to a whole batch of a lower lane. Here it is next, and the shares are the same.

use crate::error::MAX_LANES;

/// The default batch: 128 messages at rank 0, halved at each lower rank, at least 1.
#[must_use]
pub const fn batch_default(rank: usize) -> u32 {
    if rank < 8 { 128 >> rank } else { 1 }
}

/// The draining schedule of one mailbox; it keeps its position between runs.
///
/// Guarantees, for batches `b`:
/// 1. Among lanes that stay ready, lane `i` gets `b[i] / sum(b)` of the messages, exactly so in each whole round.
/// 2. A ready lane waits at most for the rest of this round and the higher lanes' batches of the next: fewer than
///    `2 * sum(b)` messages.
/// 3. A lane that becomes ready is next if it has some of its batch left and no higher lane is ready.
///
/// ```
/// use freeboard_flow::WeightedRounds;
///
/// let mut rounds = WeightedRounds::new(&[2, 1]);
/// let order: Vec<_> = (0..6).filter_map(|_| rounds.next(|_| true)).collect();
/// assert_eq!(order, [0, 0, 1, 0, 0, 1]);
/// assert_eq!(rounds.next(|_| false), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightedRounds {
    batches: [u32; MAX_LANES],
    left: [u32; MAX_LANES],
    lane_count: u8,
}

impl WeightedRounds {
    /// A schedule that takes at most `batches[i]` messages from lane `i` in one round.
    ///
    /// # Panics
    ///
    /// If there are no lanes or more than [`MAX_LANES`], or a batch is 0.
    #[must_use]
    pub fn new(batches: &[u32]) -> Self {
        assert!(
            (1..=MAX_LANES).contains(&batches.len()),
            "a schedule needs 1 to {MAX_LANES} lanes, got {}",
            batches.len()
        );
        let mut copy = [0; MAX_LANES];
        for (rank, &batch) in batches.iter().enumerate() {
            assert!(batch > 0, "batch of lane {rank} is 0: it would starve");
            copy[rank] = batch;
        }
        Self {
            batches: copy,
            left: copy,
            lane_count: batches.len() as u8,
        }
    }

    /// The lane of the next message, or `None` when no lane is ready. The message counts as taken.
    ///
    /// `ready(lane)` tells whether the lane holds a message; it is called at most once per lane, from the highest down.
    #[inline]
    #[must_use]
    pub fn next(&mut self, mut ready: impl FnMut(usize) -> bool) -> Option<usize> {
        let lane_count = self.lane_count();
        let mut highest_spent = None;
        for lane in 0..lane_count {
            let spent = self.left[lane] == 0;
            if spent && highest_spent.is_some() {
                continue;
            }
            if !ready(lane) {
                continue;
            }
            if !spent {
                self.left[lane] -= 1;
                return Some(lane);
            }
            highest_spent = Some(lane);
        }
        // All ready lanes have spent their batches: the round is over.
        let lane = highest_spent?;
        self.left = self.batches;
        self.left[lane] -= 1;
        Some(lane)
    }

    /// Takes another message from the lane that [`WeightedRounds::next`] chose last, if `next` would choose it again.
    /// Otherwise returns `false`: call `next` then.
    #[inline]
    #[must_use]
    pub fn again(&mut self, lane: usize, mut ready: impl FnMut(usize) -> bool) -> bool {
        if self.left[lane] == 0 || !ready(lane) {
            return false;
        }
        for higher in 0..lane {
            if self.left[higher] > 0 && ready(higher) {
                return false;
            }
        }
        self.left[lane] -= 1;
        true
    }

    /// The number of lanes.
    #[must_use]
    pub const fn lane_count(&self) -> usize {
        self.lane_count as usize
    }

    /// The lanes' batches, highest priority first, in messages.
    #[must_use]
    pub fn batches(&self) -> &[u32] {
        &self.batches[..self.lane_count()]
    }
}
