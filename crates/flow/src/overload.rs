//! What a lane does with a message that it has no room for.
//!
//! Chosen per lane when a mailbox is configured, consulted by [`admit`](crate::admit) on every send.
//! Muting follows Pony's back-pressure (Clebsch et al.); the others are the classic load-shedding
//! answers, made selectable because no single one suits a command, a tick and a log line alike.

use std::num::NonZeroU32;

/// The policy of one lane for messages that arrive while it is full.
///
/// Whatever the policy, the bound holds, and whatever is not handled is counted by
/// [`ShedReason`](crate::ShedReason).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Overload {
    /// The sender waits for room: an async sender awaits, a thread blocks, and an actor that sends
    /// is muted until the receiver has drained to its low watermark. Nothing is lost.
    #[default]
    Wait,
    /// The sender gets its message back at once and decides itself.
    Reject,
    /// The new message is shed; the sender is not told, the counters are. Suits streams in which
    /// what came first matters.
    DropNewest,
    /// The oldest queued message is shed to make room for the new one. Suits streams in which
    /// only the recent past matters.
    DropOldest,
    /// A queued message with the same key is replaced by the new one, in its place in the queue.
    /// When the lane is full and no key matches, the new message is refused as by `Reject`.
    Coalesce,
    /// From the lane's high watermark on, only one message in `one_in` is accepted; past the bound,
    /// none. Suits telemetry, where a thinned stream keeps its shape.
    Sample {
        /// How many offered messages make one accepted message; 1 accepts all up to the bound.
        one_in: NonZeroU32,
    },
}
