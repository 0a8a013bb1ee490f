//! All living actors of a system, in sixteen shards, so that spawning threads rarely meet.
//!
//! The registry's reference keeps a cell alive while it may be in a run queue.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use slab::Slab;

use crate::{
    cell::AnyCell,
    sync::{AtomicUsize, Ordering},
};

const SHARDS: usize = 16;

/// Where the registry keeps a cell.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    shard: u32,
    slot: u32,
}

type Shard = Slab<Arc<dyn AnyCell>>;

pub(crate) struct Registry {
    shards: [Mutex<Shard>; SHARDS],
}

thread_local! {
    static SHARD: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        // Ordering: Relaxed, it only spreads threads over shards.
        NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS
    };
}

impl Registry {
    pub(crate) fn new() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::new(Slab::new())),
        }
    }

    fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        self.shards[shard]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the cell that `make` makes for its place.
    pub(crate) fn insert<C: AnyCell>(&self, make: impl FnOnce(Place) -> Arc<C>) -> Arc<C> {
        let shard = SHARD.with(|shard| *shard);
        let mut cells = self.lock(shard);
        let entry = cells.vacant_entry();
        let slot = u32::try_from(entry.key()).expect("fewer than 2^32 actors per shard");
        let cell = make(Place {
            shard: shard as u32,
            slot,
        });
        entry.insert(cell.clone());
        cell
    }

    pub(crate) fn remove(&self, place: Place) -> Arc<dyn AnyCell> {
        self.lock(place.shard as usize).remove(place.slot as usize)
    }

    /// All living actors, one shard after the other.
    pub(crate) fn cells(&self) -> Vec<Arc<dyn AnyCell>> {
        let mut cells = Vec::new();
        for shard in 0..SHARDS {
            cells.extend(self.lock(shard).iter().map(|(_, cell)| cell.clone()));
        }
        cells
    }

    /// Lets all actors go. No worker may run any more.
    pub(crate) fn clear(&self) {
        for shard in 0..SHARDS {
            // Dropped without the lock: an actor's drop may look into the registry.
            let cells = std::mem::take(&mut *self.lock(shard));
            drop(cells);
        }
    }
}
