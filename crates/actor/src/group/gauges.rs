//! The counters of a group: per member, and the router's turns; and the list of a system's groups.

use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

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

/// The groups that still have a handle.
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
