//! From which lane the next message is taken.
//!
//! Step 4 of a message's way. Each lane has a batch; in one round it may give that many messages.
//! Every pick takes the highest ready lane that has some of its batch left, and when no ready lane
//! has, the next round begins.
//!
//! ```text
//!   batches 4 2 1, all lanes ready:   0 0 0 0 1 1 2 │ 0 0 0 0 1 1 2 │ ...
//!   lane 0 becomes ready here  ──▶    1 ↓0 0 0 0 1 2 │ ...
//! ```
//!
//! It is a weighted round robin with the round's remainder picked by priority. The plain form, which
//! goes on with a lane's batch once begun, would leave an urgent message behind up to a whole batch
//! of each lower lane; here it goes next, and the shares are the same.

use crate::mailbox::MAX_LANES;

/// The batch of a lane whose user named none: 128 messages at rank 0, halved at each rank below, and
/// never less than 1.
#[must_use]
pub const fn batch_default(rank: usize) -> u32 {
    // 128 has eight bits; a shift by more would be undefined for u32 from 32 on.
    if rank < 8 { 128 >> rank } else { 1 }
}

/// The draining schedule of one mailbox; it remembers where it stopped from run to run.
///
/// Guarantees, for batches `b`:
/// 1. Among lanes that stay ready, lane `i` has `b[i] / sum(b)` of the messages, exactly so in each
///    whole round.
/// 2. A lane that is ready waits for at most what is left of this round and for the higher lanes'
///    batches of the next: fewer than `2 * sum(b)` messages.
/// 3. A lane that becomes ready goes next if it has some of its batch left and no higher lane is
///    ready.
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

    /// The lane to take the next message from, or `None` when no lane is ready.
    ///
    /// `ready(lane)` says whether the lane holds a message; it is asked at most once for each lane,
    /// from the highest down. The message counts as taken when the lane is returned.
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
        // All that is ready has spent its batch: the round is over.
        let lane = highest_spent?;
        self.left = self.batches;
        self.left[lane] -= 1;
        Some(lane)
    }

    /// Takes another message from the lane that [`WeightedRounds::next`] chose last, if that would
    /// choose it again. `false` if not, or if `ready` says that the lane is empty: ask `next` then.
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

    /// How many lanes the schedule is over.
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
