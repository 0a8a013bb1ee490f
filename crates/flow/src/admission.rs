//! Whether a message may enter a lane, and the reasons for which messages are not handled.
//!
//! Every send makes this decision, from the depth that the sender saw. The queue's reservation makes the bound hard: two
//! senders that saw the same depth cannot both take the last slot.
//!
//! No message vanishes silently. Each message that does not reach a handler is counted under exactly one [`ShedReason`]:
//! `offered = accepted + refused or shed on entry` and `accepted = handled + shed later + queued`.

use std::fmt;

use crate::lane::{LaneConfig, Overload};

/// The decision on a message that is offered to a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Admission {
    /// Queue it.
    Accept,
    /// The sender waits for capacity, then offers it again.
    Wait,
    /// Return it to the sender, counted as [`ShedReason::Full`].
    Refuse,
    /// Drop it, counted under this reason; the sender is not told.
    ShedNewest(ShedReason),
    /// Remove the oldest message, counted as [`ShedReason::DroppedOldest`], then queue the new one.
    EvictOldest,
}

/// Decides on a message offered to `lane`, which holds `depth` messages.
///
/// `above_high_ordinal` is the number of messages offered before this one while the lane was at its high watermark or
/// above. Only [`Overload::Sample`] uses it, and accepts the messages at 0, n, 2n and so on.
///
/// Under [`Overload::Coalesce`] the caller first searches for a queued message with the same key, and asks only when there
/// is none: a replacement needs no capacity.
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
        Overload::Reject | Overload::Coalesce | Overload::CoDel { .. } | Overload::MaxAge(_) => {
            Admission::Refuse
        }
        Overload::DropNewest => Admission::ShedNewest(ShedReason::DroppedNewest),
        Overload::DropOldest => Admission::EvictOldest,
        // Not counted as `Sampled`: a sampled lane that fills up is sampled too little.
        Overload::Sample { .. } => Admission::ShedNewest(ShedReason::Full),
    }
}

/// The reason why a message was not handled, or not to its end.
///
/// The discriminants are dense from 0: counters can be an array of [`COUNT`] elements, indexed by [`index`].
///
/// [`COUNT`]: ShedReason::COUNT
/// [`index`]: ShedReason::index
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ShedReason {
    /// The lane was at its bound.
    Full,
    /// The lane was full, and its policy drops new messages.
    DroppedNewest,
    /// It was the oldest message of a full lane, and a new one took its slot.
    DroppedOldest,
    /// A newer message with the same key replaced it.
    Coalesced,
    /// The lane was at or above its high watermark, and it was not the one in n.
    Sampled,
    /// Its deadline passed before it was handled.
    Expired,
    /// It was a request whose sender no longer waits for the reply.
    AskerGone,
    /// The actor had stopped, or stopped while the message was queued.
    Stopped,
    /// Its handler panicked.
    HandlerPanicked,
    /// The sending actor's outbox was full.
    OutboxFull,
    /// It had no receiver: an unknown name, an empty router.
    NoReceiver,
    /// Its sender terminated, and its receiver had no capacity before the shutdown's deadline.
    SenderStopped,
    /// Its lane was overloaded, and it had waited longer than twice the lane's target.
    CoDel,
    /// It had waited longer than the lane's maximum age.
    TooOld,
}

impl ShedReason {
    /// All reasons, in the order of their index.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Full,
        Self::DroppedNewest,
        Self::DroppedOldest,
        Self::Coalesced,
        Self::Sampled,
        Self::Expired,
        Self::AskerGone,
        Self::Stopped,
        Self::HandlerPanicked,
        Self::OutboxFull,
        Self::NoReceiver,
        Self::SenderStopped,
        Self::CoDel,
        Self::TooOld,
    ];

    /// How many reasons there are.
    pub const COUNT: usize = Self::TooOld as usize + 1;

    /// The reason's position in [`ALL`](Self::ALL).
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The reason's stable name in snake case, for snapshots and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::DroppedNewest => "dropped_newest",
            Self::DroppedOldest => "dropped_oldest",
            Self::Coalesced => "coalesced",
            Self::Sampled => "sampled",
            Self::Expired => "expired",
            Self::AskerGone => "asker_gone",
            Self::Stopped => "stopped",
            Self::HandlerPanicked => "handler_panicked",
            Self::OutboxFull => "outbox_full",
            Self::NoReceiver => "no_receiver",
            Self::SenderStopped => "sender_stopped",
            Self::CoDel => "codel",
            Self::TooOld => "too_old",
        }
    }
}

impl fmt::Display for ShedReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}
