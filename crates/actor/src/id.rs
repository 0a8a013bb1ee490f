//! The identities of actors.

use std::{cmp::Ordering, fmt};

/// Shards of the registry.
pub(crate) const SHARDS: usize = 16;

/// Registry slots of a shard that are read before the next shard. At some 300 ns per uncached actor the shard is locked
/// for 20 us.
pub(crate) const SLOTS_AT_ONCE: usize = 64;

/// Identifies one actor of the process. Ids are never used twice and grow in the order of spawning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActorId(pub(crate) u64);

impl ActorId {
    /// The number itself.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ActorId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "#{}", self.0)
    }
}

/// Identifies an actor and its registry slot, so that it is found without a search. [`crate::System::actor_stats`]
/// returns actors in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActorKey {
    id: u64,
    slot: u32,
}

impl ActorKey {
    /// The key of the actor `id` in this slot of its shard.
    pub(crate) fn new(id: ActorId, slot: u32) -> Self {
        Self { id: id.0, slot }
    }

    /// The actor's id.
    #[must_use]
    pub const fn id(self) -> u64 {
        self.id
    }

    pub(crate) fn actor_id(self) -> ActorId {
        ActorId(self.id)
    }

    pub(crate) fn shard(self) -> usize {
        (self.id % SHARDS as u64) as usize
    }

    pub(crate) fn slot(self) -> usize {
        self.slot as usize
    }
}

/// The order of [`crate::System::actor_stats`].
impl Ord for ActorKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |at: &Self| (at.slot() / SLOTS_AT_ONCE, at.shard(), at.slot, at.id);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for ActorKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
