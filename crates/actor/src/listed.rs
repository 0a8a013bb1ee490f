//! The groups, topics and directories of a system, for snapshots: those that still have a handle.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::sync::{AtomicU64, Ordering};

/// The number of the next topic, subscriber or directory of this process.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

pub(crate) fn next_id() -> u64 {
    // Ordering: Relaxed, each caller gets its own number.
    NEXT_ID.fetch_add(1, Ordering::Relaxed)
}

pub(crate) struct Listed<T: ?Sized>(Mutex<Vec<Weak<T>>>);

impl<T: ?Sized> Default for Listed<T> {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

impl<T: ?Sized> Listed<T> {
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(&self, entry: Weak<T>) {
        let mut entries = self.lock();
        entries.retain(|known| known.strong_count() > 0);
        entries.push(entry);
    }

    pub(crate) fn map<S>(&self, read: impl Fn(&T) -> S) -> Vec<S> {
        // Unlocked before any of them is dropped: it may be the last reference to its actors.
        let entries: Vec<Arc<T>> = self.lock().iter().filter_map(Weak::upgrade).collect();
        entries.iter().map(|entry| read(entry)).collect()
    }
}
