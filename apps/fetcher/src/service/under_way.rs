//! How many notifications a fetcher has in its hands.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Counts tickets.
#[derive(Clone, Debug, Default)]
pub(super) struct UnderWay(Arc<AtomicU64>);

/// Goes with a notification; counts until it is dropped, whoever drops it.
#[derive(Debug)]
pub(super) struct Ticket(UnderWay);

impl UnderWay {
    pub(super) fn ticket(&self) -> Ticket {
        // Ordering: Relaxed here and below: only the number matters.
        self.0.fetch_add(1, Ordering::Relaxed);
        Ticket(self.clone())
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
