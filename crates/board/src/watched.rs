//! The systems that a board can show, from the oldest to the newest.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use freeboard_actor::{System, WeakSystem};

/// The most systems of one board. The oldest that has ended makes room for a new one; if all are alive,
/// the oldest.
pub const SYSTEMS_MAX: usize = 16;

/// One system.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    /// Unique among those of the board, however many come and go.
    pub(crate) number: u64,
    /// Its name on the board.
    pub(crate) name: Arc<str>,
    system: WeakSystem,
}

impl Watched {
    /// The system, unless it has ended.
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
    systems: Vec<Watched>,
}

impl Systems {
    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a system; one that is there already stays what it is.
    pub(crate) fn add(&self, system: &System) {
        // Asked without the lock, as in `find`.
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
            let has_ended = |it: &Watched| ended.contains(&it.number);
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
        list.systems.push(Watched {
            number,
            name: name.into(),
            system: weak,
        });
    }

    /// All of them, the oldest first.
    pub(crate) fn all(&self) -> Vec<Watched> {
        self.lock().systems.clone()
    }

    /// The one of that name; without a name the newest that is alive, or else the newest.
    pub(crate) fn find(&self, name: Option<&str>) -> Option<Watched> {
        // Without the lock: whoever asks whether a system is alive may be the last to hold it.
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
