//! Whether a message may enter a lane.
//!
//! The one decision on every send. It sees the lane's depth as the sender saw it; the queue's own
//! reservation is what makes the bound hard, so that two senders who saw the same depth cannot both
//! take the last place.

use crate::lane::LaneConfig;
use crate::overload::Overload;
use crate::shed::ShedReason;

/// What is to be done with a message that is offered to a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Admission {
    /// Queue it.
    Accept,
    /// The sender waits until there is room, then offers it again.
    Wait,
    /// Give it back to the sender, counted as [`ShedReason::Full`].
    Refuse,
    /// Drop it, counted under this reason; the sender goes on.
    ShedNewest(ShedReason),
    /// Take the oldest out of the lane, counted as [`ShedReason::DroppedOldest`], then queue it.
    EvictOldest,
}

/// Decides on a message offered to `lane`, which holds `depth` messages.
///
/// `above_high_ordinal` says how many messages were offered before this one while the lane was at
/// its high watermark or above; only [`Overload::Sample`] looks at it, and accepts those at 0, n,
/// 2n and so on.
///
/// Under [`Overload::Coalesce`] the caller looks for a queued message of the same key first and asks
/// only when there is none: what is replaced in place needs no room.
#[inline]
pub fn admit(lane: &LaneConfig, depth: u64, above_high_ordinal: u64) -> Admission {
    if depth < lane.bound() {
        return match lane.overload_policy() {
            Overload::Sample { one_in }
                if lane.is_flooded_at(depth)
                    && !above_high_ordinal.is_multiple_of(u64::from(one_in.get())) =>
            {
                Admission::ShedNewest(ShedReason::Sampled)
            }
            _ => Admission::Accept,
        };
    }
    match lane.overload_policy() {
        Overload::Wait => Admission::Wait,
        Overload::Reject | Overload::Coalesce => Admission::Refuse,
        Overload::DropNewest => Admission::ShedNewest(ShedReason::DroppedNewest),
        Overload::DropOldest => Admission::EvictOldest,
        // Counted apart from `Sampled`: a sampled lane that fills up is sampled too little.
        Overload::Sample { .. } => Admission::ShedNewest(ShedReason::Full),
    }
}
