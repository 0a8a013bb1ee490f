//! The groups of a system, so that its snapshot shows them.

use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use freeboard_meter::GroupSnapshot;

/// What can be looked at, whatever its actors' type.
pub(crate) trait Gauged: Send + Sync {
    fn snapshot(&self) -> GroupSnapshot;
}

/// Groups that somebody can still send through.
#[derive(Default)]
pub(crate) struct Groups(Mutex<Vec<Weak<dyn Gauged>>>);

impl Groups {
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<dyn Gauged>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(&self, group: Weak<dyn Gauged>) {
        let mut groups = self.lock();
        groups.retain(|known| known.strong_count() > 0);
        groups.push(group);
    }

    pub(crate) fn snapshot(&self) -> Vec<GroupSnapshot> {
        // Unlocked before any of them is dropped: it may be the last reference to its actors.
        let groups: Vec<_> = self.lock().iter().filter_map(Weak::upgrade).collect();
        groups.iter().map(|group| group.snapshot()).collect()
    }
}
