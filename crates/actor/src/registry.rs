//! All living actors of a system, in sixteen shards in turn, so that those who spawn and those who
//! end rarely meet.
//!
//! The registry's reference keeps a cell alive while it may be in a run queue.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    ops::Range,
    sync::{Mutex, MutexGuard, PoisonError},
};

use freeboard_meter::TypeSnapshot;
use slab::Slab;

use crate::{
    actor::Actor,
    cell::{Cell, Core},
    cell_ref::{CellRef, CoreRef},
    id::ActorId,
    ledger::Ledger,
};

pub(crate) const SHARDS: usize = 16;

/// Where the registry keeps a cell.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) shard: u32,
    pub(crate) slot: u32,
}

#[derive(Default)]
struct Shard {
    cells: Slab<CoreRef>,
    ended: Ledger,
    is_closed: bool,
}

pub(crate) struct Registry {
    shards: [Mutex<Shard>; SHARDS],
}

impl Registry {
    pub(crate) fn new() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::new(Shard::default())),
        }
    }

    fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        self.shards[shard]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the cell that `make` makes for its place. `false` if the registry is closed: then
    /// nobody will run the cell.
    pub(crate) fn insert<A: Actor>(
        &self,
        id: ActorId,
        make: impl FnOnce(Place) -> Cell<A>,
    ) -> (CellRef<A>, bool) {
        let shard_index = id.get() as usize % SHARDS;
        let mut shard = self.lock(shard_index);
        let is_open = !shard.is_closed;
        let entry = shard.cells.vacant_entry();
        let slot = u32::try_from(entry.key()).expect("fewer than 2^32 actors per shard");
        let cell = CellRef::new(make(Place {
            shard: shard_index as u32,
            slot,
        }));
        if is_open {
            entry.insert(cell.to_core_ref());
        }
        (cell, is_open)
    }

    /// Takes out an actor that has ended.
    pub(crate) fn remove(&self, place: Place) -> CoreRef {
        let mut shard = self.lock(place.shard as usize);
        let cell = shard.cells.remove(place.slot as usize);
        shard.ended.enter(&cell);
        cell
    }

    /// Living actors.
    pub(crate) fn len(&self) -> usize {
        (0..SHARDS).map(|shard| self.lock(shard).cells.len()).sum()
    }

    /// All living actors, one shard after the other.
    pub(crate) fn cells(&self) -> Vec<CoreRef> {
        let mut cells = Vec::new();
        for shard in 0..SHARDS {
            cells.extend(self.lock(shard).cells.iter().map(|(_, cell)| cell.clone()));
        }
        cells
    }

    /// All living actors as [`Registry::cells`] has them, and what all others had counted: each actor is in
    /// one of them.
    pub(crate) fn census(&self) -> (Vec<CoreRef>, Vec<TypeSnapshot>) {
        let mut cells = Vec::new();
        let mut ended: BTreeMap<String, TypeSnapshot> = BTreeMap::new();
        for shard in 0..SHARDS {
            let shard = self.lock(shard);
            cells.extend(shard.cells.iter().map(|(_, cell)| cell.clone()));
            for of_type in shard.ended.snapshots() {
                match ended.entry(of_type.actor_type.clone()) {
                    Entry::Vacant(entry) => _ = entry.insert(of_type),
                    Entry::Occupied(mut entry) => entry.get_mut().add(&of_type),
                }
            }
        }
        (cells, ended.into_values().collect())
    }

    /// Reads the cells in some slots of a shard, under its lock. `false` if there are no slots beyond.
    pub(crate) fn read(
        &self,
        shard: usize,
        slots: Range<usize>,
        mut read: impl FnMut(&Core),
    ) -> bool {
        let shard = self.lock(shard);
        let end = shard.cells.capacity();
        for slot in slots.start..slots.end.min(end) {
            if let Some(cell) = shard.cells.get(slot) {
                read(cell);
            }
        }
        slots.end < end
    }

    /// The cell that is kept there now, whichever that is.
    pub(crate) fn find(&self, place: Place) -> Option<CoreRef> {
        let shard = self.lock(place.shard as usize);
        shard.cells.get(place.slot as usize).cloned()
    }

    /// Ends all actors that are left, and keeps none from here on.
    ///
    /// # Safety
    /// No worker of the system runs any more.
    pub(crate) unsafe fn close(&self) {
        let mut left = Vec::new();
        for shard in 0..SHARDS {
            let mut shard = self.lock(shard);
            shard.is_closed = true;
            left.extend(
                std::mem::take(&mut shard.cells)
                    .into_iter()
                    .map(|(_, cell)| cell),
            );
        }
        // All of them before any: an actor's drop may send to another one, which must not wait.
        for cell in &left {
            cell.close_mailbox();
            cell.waiters.close();
        }
        for cell in left {
            // SAFETY: the caller's promise; the registry gives each cell out once.
            unsafe { cell.abandon() };
            self.lock(cell.place().shard as usize).ended.enter(&cell);
        }
    }
}
