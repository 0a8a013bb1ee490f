//! Why a message was not handled.
//!
//! Invariant 4 of the house: nothing that was offered vanishes silently. Each message that does not
//! reach a handler is counted under exactly one of these, so that
//! `offered = accepted + refused or shed on entry` and `accepted = handled + shed later + queued`.

use std::fmt;

/// The reason under which a message is counted that was not handled, or not handled to its end.
///
/// The discriminants are dense from 0, so that counters can be kept in an array of [`COUNT`]
/// elements at [`index`].
///
/// [`COUNT`]: ShedReason::COUNT
/// [`index`]: ShedReason::index
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ShedReason {
    /// The lane was at its bound and the message was refused, or sampling had no room left.
    Full,
    /// The lane was full and its policy is to drop what is new.
    DroppedNewest,
    /// It was the oldest in a full lane and made room for a newer one.
    DroppedOldest,
    /// A newer message with the same key took its place.
    Coalesced,
    /// The lane was above its high watermark and it was not the one in n.
    Sampled,
    /// Its deadline had passed before a handler saw it.
    Expired,
    /// It was a request whose asker no longer waits for the reply.
    AskerGone,
    /// The actor had stopped, or stopped while it was queued.
    Stopped,
    /// Its handler panicked.
    HandlerPanicked,
    /// The sending actor's outbox was full.
    OutboxFull,
    /// Nobody was registered to receive it: an unknown name, an empty router.
    NoReceiver,
    /// The actor that had told it terminated, and its receiver had no capacity before the shutdown's deadline.
    SenderStopped,
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
    ];

    /// How many reasons there are.
    pub const COUNT: usize = Self::SenderStopped as usize + 1;

    /// The reason's place in [`ALL`](Self::ALL), for counters kept in an array.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The reason's stable name in snake case, as snapshots and metrics carry it.
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
        }
    }
}

impl fmt::Display for ShedReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}
