//! The systems of a board, the oldest first.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use freeboard_actor::{System, WeakSystem};

/// The most systems of one board. A further one replaces the oldest that has ended, or the oldest if all are
/// alive.
pub const SYSTEMS_MAX: usize = 16;

/// One system.
#[derive(Clone, Debug)]
pub(crate) struct WatchedSystem {
    /// Unique within the board; never reused.
    pub(crate) number: u64,
    /// Its name on the board.
    pub(crate) name: Arc<str>,
    system: WeakSystem,
}

impl WatchedSystem {
    /// The system, if it has not ended.
    pub(crate) fn alive(&self) -> Option<System> {
        self.system.upgrade().filter(|system| !system.has_ended())
    }
}

/// All systems of a board.
#[derive(Debug, Default)]
pub(crate) struct Systems {
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    next: u64,
    systems: Vec<WatchedSystem>,
}

impl Systems {
    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a system, unless it is present.
    pub(crate) fn add(&self, system: &System) {
        // Checked without the lock, as in `find`.
        let ended: Vec<u64> = (self.all().iter())
            .filter(|it| it.alive().is_none())
            .map(|it| it.number)
            .collect();
        let weak = system.downgrade();
        let mut list = self.lock();
        if list.systems.iter().any(|it| it.system.is_same(&weak)) {
            return;
        }
        if list.systems.len() == SYSTEMS_MAX {
            let has_ended = |it: &WatchedSystem| ended.contains(&it.number);
            let oldest = list.systems.iter().position(has_ended);
            list.systems.remove(oldest.unwrap_or(0));
        }
        let is_taken = |name: &str| list.systems.iter().any(|it| &*it.name == name);
        let name = if is_taken(system.name()) {
            (2..)
                .map(|number| format!("{} {number}", system.name()))
                .find(|name| !is_taken(name))
                .expect("some number is free")
        } else {
            system.name().to_owned()
        };
        let number = list.next;
        list.next += 1;
        list.systems.push(WatchedSystem {
            number,
            name: name.into(),
            system: weak,
        });
    }

    /// All of them, the oldest first.
    pub(crate) fn all(&self) -> Vec<WatchedSystem> {
        self.lock().systems.clone()
    }

    /// The system of that name; without a name the newest alive, or else the newest.
    pub(crate) fn find(&self, name: Option<&str>) -> Option<WatchedSystem> {
        // Without the lock: `alive` may briefly hold, and then drop, the last handle.
        let mut systems = self.all();
        match name {
            Some(name) => systems.into_iter().find(|it| &*it.name == name),
            None => {
                let alive = systems.iter().rposition(|it| it.alive().is_some());
                match alive {
                    Some(index) => Some(systems.swap_remove(index)),
                    None => systems.pop(),
                }
            }
        }
    }
}
