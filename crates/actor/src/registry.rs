//! All living actors of a system, in sixteen shards, so that spawning and terminating threads rarely contend.
//!
//! The registry's reference keeps a cell alive while it may be in a run queue. Terminated actors whose outbox is
//! not empty are kept separately and do not count as alive.

use std::{
    collections::{BTreeMap, HashMap, btree_map::Entry},
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use freeboard_meter::{Padded, TypeSnapshot};
use slab::Slab;

use crate::{
    core::Core,
    core_ref::CoreRef,
    id::{ActorId, ActorKey, SHARDS},
    ledger::Ledger,
    sync::{AtomicUsize, Ordering},
};

/// The registries of all systems of the process.
static ALL: Mutex<Vec<Weak<Registry>>> = Mutex::new(Vec::new());

/// The living actor with this key, in whichever system it is.
pub(crate) fn find_anywhere(key: ActorKey) -> Option<CoreRef> {
    let all = ALL.lock().unwrap_or_else(PoisonError::into_inner).clone();
    all.iter()
        .find_map(|registry| registry.upgrade()?.find(key))
}

#[derive(Default)]
struct Shard {
    cells: Slab<CoreRef>,
    /// Terminated actors that still send their outbox.
    delivering: HashMap<ActorId, CoreRef>,
    ended: Ledger,
    is_closed: bool,
}

pub(crate) struct Registry {
    /// Consecutive spawns lock neighbouring shards.
    shards: [Padded<Mutex<Shard>>; SHARDS],
    /// Cells in all shards' `delivering`.
    delivering: AtomicUsize,
}

impl Shard {
    /// Enters a terminated actor into the ledger.
    fn enter(&mut self, cell: &Core) {
        let (mailbox, handling) = (&cell.mailbox, cell.handling());
        self.ended
            .enter(cell.type_name(), cell.restarts(), mailbox, handling);
    }

    /// Moves a terminated actor from the living ones to the ledger.
    fn remove(&mut self, core: &Core) -> CoreRef {
        let cell = self.cells.remove(core.key().slot());
        self.enter(&cell);
        cell
    }
}

impl Registry {
    pub(crate) fn new() -> Arc<Self> {
        let new = Arc::new(Self {
            shards: std::array::from_fn(|_| Padded::default()),
            delivering: AtomicUsize::new(0),
        });
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|registry| registry.strong_count() > 0);
        all.push(Arc::downgrade(&new));
        new
    }

    fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        self.shards[shard]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the cell. `false` if the registry is closed: then no worker will run the cell.
    pub(crate) fn insert(&self, cell: &CoreRef) -> bool {
        let mut shard = self.lock(cell.key().shard());
        if shard.is_closed {
            return false;
        }
        let slot = shard.cells.insert(cell.clone());
        cell.set_slot(u32::try_from(slot).expect("fewer than 2^32 actors per shard"));
        true
    }

    /// Removes a terminated actor.
    pub(crate) fn remove(&self, core: &Core) -> CoreRef {
        self.lock(core.key().shard()).remove(core)
    }

    /// Moves a terminated actor whose outbox is not empty from the living to the delivering ones.
    pub(crate) fn keep_delivering(&self, core: &Core) {
        let mut shard = self.lock(core.key().shard());
        let cell = shard.remove(core);
        shard.delivering.insert(core.id(), cell);
        // Ordering: Relaxed, a gauge; readers poll it.
        self.delivering.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a terminated actor whose outbox is empty now.
    pub(crate) fn end_delivering(&self, core: &Core) -> CoreRef {
        let mut shard = self.lock(core.key().shard());
        let cell = shard.delivering.remove(&core.id());
        // Ordering: Relaxed, as above.
        self.delivering.fetch_sub(1, Ordering::Relaxed);
        cell.expect("kept since its termination")
    }

    /// Terminated actors that still send.
    pub(crate) fn delivering(&self) -> Vec<CoreRef> {
        let mut cells = Vec::new();
        for shard in 0..SHARDS {
            cells.extend(self.lock(shard).delivering.values().cloned());
        }
        // In the order of spawning, so that a seeded test repeats it.
        cells.sort_unstable_by_key(|cell| cell.id());
        cells
    }

    /// Number of terminated actors that still send.
    pub(crate) fn delivering_len(&self) -> usize {
        // Ordering: Relaxed, as above.
        self.delivering.load(Ordering::Relaxed)
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

    /// The first living actor for which `find` returns something.
    #[cfg(feature = "testing")]
    pub(crate) fn find_map<T>(
        &self,
        mut find: impl FnMut(&Core) -> Option<T>,
    ) -> Option<(CoreRef, T)> {
        (0..SHARDS).find_map(|shard| {
            let shard = self.lock(shard);
            let mut cells = shard.cells.iter();
            cells.find_map(|(_, cell)| find(cell).map(|found| (cell.clone(), found)))
        })
    }

    /// All living actors, and the totals of the terminated ones by type: each actor is in exactly one of them.
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

    /// The living actor with this key.
    pub(crate) fn find(&self, key: ActorKey) -> Option<CoreRef> {
        let shard = self.lock(key.shard());
        let cell = shard.cells.get(key.slot())?;
        // Another actor may have the slot by now.
        (cell.key() == key).then(|| cell.clone())
    }

    /// The living actor with this id; reads up to all slots of its shard.
    pub(crate) fn find_id(&self, id: ActorId) -> Option<CoreRef> {
        let shard = self.lock(ActorKey::new(id, 0).shard());
        let found = shard.cells.iter().find(|(_, cell)| cell.id() == id);
        found.map(|(_, cell)| cell.clone())
    }

    /// Terminates the remaining actors, and accepts none from here on.
    ///
    /// # Safety
    /// No worker of the system runs any more.
    pub(crate) unsafe fn close(&self) {
        let (mut left, mut delivering) = (Vec::new(), Vec::new());
        for shard in 0..SHARDS {
            let mut shard = self.lock(shard);
            shard.is_closed = true;
            delivering.extend(std::mem::take(&mut shard.delivering).into_values());
            // Under the lock: an ask that is dropped elsewhere removes its edge through `find_anywhere`, or it is here.
            for (_, cell) in &shard.cells {
                cell.asking.take();
            }
            left.extend(
                std::mem::take(&mut shard.cells)
                    .into_iter()
                    .map(|(_, cell)| cell),
            );
        }
        // All mailboxes are closed first: an actor's drop may send to another actor, and must not wait.
        for cell in &left {
            cell.mailbox.close();
            cell.waiters.close();
        }
        for cell in left {
            // SAFETY: the caller's promise; the registry gives each cell out once.
            unsafe { cell.abandon() };
            self.lock(cell.key().shard()).enter(&cell);
        }
        for cell in delivering {
            // SAFETY: as above.
            unsafe { cell.abandon() };
        }
    }
}
