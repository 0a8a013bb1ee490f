//! The counters of a group: per member, and the router's turns.

use freeboard_meter::{Counter, GroupSnapshot};

use crate::sync::{AtomicU64, Ordering};

/// The counters of one member, on cache lines of their own: a sender writes only those of its receiver.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct MemberGauges {
    pub(super) routed: Counter,
    pub(super) redirected: Counter,
    pub(super) taken_over: Counter,
    pub(super) refused: Counter,
}

/// Counts the choices of a router that is not by key: the turn, or the position in a random sequence. One counter
/// for all senders, so that turns are exact.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Turns(AtomicU64);

impl Turns {
    #[inline]
    pub(super) fn next(&self) -> u64 {
        // Ordering: Relaxed, each caller gets its own number; nothing hangs on their order.
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// A group of any actor type, for snapshots.
pub(crate) trait Gauged: Send + Sync {
    fn snapshot(&self) -> GroupSnapshot;
}
