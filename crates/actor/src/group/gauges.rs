//! What a group counts: per member, and the turns that its router has given out.

use freeboard_meter::{Counter, MemberSnapshot};

use crate::{
    actor::Actor,
    actor_ref::ActorRef,
    sync::{AtomicU64, Ordering},
};

/// The counters of one member, away from those of the others: each sender writes only those of the
/// member that it sends to.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct MemberGauges {
    pub(super) routed: Counter,
    pub(super) redirected: Counter,
    pub(super) taken_over: Counter,
    pub(super) refused: Counter,
}

impl MemberGauges {
    pub(super) fn snapshot<A: Actor>(&self, actor: &ActorRef<A>) -> MemberSnapshot {
        MemberSnapshot {
            id: actor.id().get(),
            name: actor.name().map(str::to_owned),
            routed: self.routed.get(),
            redirected: self.redirected.get(),
            taken_over: self.taken_over.get(),
            refused: self.refused.get(),
            depth: actor.depth(),
            is_alive: actor.is_alive(),
        }
    }
}

/// Counts the choices of a router that does not go by key: whose turn it is, or which number of a
/// random sequence. One counter for all senders, so that turns are exact.
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
