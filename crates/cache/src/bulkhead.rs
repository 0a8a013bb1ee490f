//! A limit of concurrent fetches without Redis.

use std::sync::Arc;

use crate::sync::{AtomicUsize, Ordering};

#[derive(Clone, Debug)]
pub(crate) struct Bulkhead {
    taken: Arc<AtomicUsize>,
    max: usize,
}

/// The permission for one fetch, returned on drop.
#[derive(Debug)]
pub(crate) struct Permit {
    taken: Arc<AtomicUsize>,
}

impl Bulkhead {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            taken: Arc::default(),
            max,
        }
    }

    pub(crate) fn enter(&self) -> Option<Permit> {
        let one_more = |taken: usize| (taken < self.max).then_some(taken + 1);
        // Ordering: Relaxed here and below, the count guards nothing but itself.
        let taken = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        taken.ok().map(|_| Permit {
            taken: self.taken.clone(),
        })
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // Ordering: Relaxed, as above.
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }
}
