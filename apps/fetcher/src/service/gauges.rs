//! What a main actor counts. It alone writes, and restarts keep it.

use std::sync::atomic::{AtomicU32, Ordering};

use freeboard::meter::{Counter, Histogram};

use super::job::Passing;

/// Of one main actor, over all its lives.
#[derive(Default)]
pub(super) struct Gauges {
    lives: AtomicU32,
    pub(super) received: Counter,
    pub(super) malformed: Counter,
    pub(super) completed: Counter,
    pub(super) dead_lettered: Counter,
    pub(super) expired: Counter,
    pub(super) misses: Counter,
    retried: [Counter; Passing::COUNT],
    /// From when it was due, or else published, to the start.
    pub(super) wait: Histogram,
    /// From the start to the confirm.
    pub(super) lifetime: Histogram,
    /// In the mailbox.
    pub(super) in_queue: Histogram,
}

impl Gauges {
    /// Counts a life of the actor, and returns its number.
    pub(super) fn begin_life(&self) -> u32 {
        // Ordering: Relaxed: only the number matters.
        self.lives.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn retried(&self, by: Passing) -> &Counter {
        &self.retried[by as usize]
    }
}

impl std::fmt::Debug for Gauges {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Gauges")
            .field("received", &self.received.get())
            .field("completed", &self.completed.get())
            .finish_non_exhaustive()
    }
}
