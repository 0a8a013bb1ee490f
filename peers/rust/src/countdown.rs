//! Counts how many of many actors have come to a certain point, and reports when all have.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::finish::Finish;

/// Shared by all the actors.
#[derive(Clone, Debug)]
pub struct Countdown {
    done_count: Arc<AtomicU64>,
    count: u64,
    finish: Finish,
}

impl Countdown {
    pub fn new(count: u64, finish: Finish) -> Self {
        Self {
            done_count: Arc::new(AtomicU64::new(0)),
            count,
            finish,
        }
    }

    pub fn one_is_done(&self) {
        // Ordering: only the number matters; the report travels by a channel.
        if self.done_count.fetch_add(1, Ordering::Relaxed) + 1 == self.count {
            self.finish.report(self.count, 0);
        }
    }
}
