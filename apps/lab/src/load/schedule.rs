//! Which request is next, when it is due, and what became of it.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use freeboard::meter::Histogram;

use super::{Load, LoadArgs};

/// What all clients share.
pub(super) struct Schedule {
    requests: u64,
    rate: Option<f64>,
    begun: Instant,
    next: AtomicU64,
    latency: Histogram,
    errors: AtomicU64,
}

impl Schedule {
    pub(super) fn new(args: &LoadArgs) -> Self {
        Self {
            requests: args.requests,
            rate: args.rate,
            begun: Instant::now(),
            next: AtomicU64::new(0),
            latency: Histogram::new(),
            errors: AtomicU64::new(0),
        }
    }

    /// When the next request is due; `None` if there is none.
    pub(super) fn next(&self) -> Option<Instant> {
        // Ordering: Relaxed, only that each number is drawn once.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.requests).then(|| match self.rate {
            Some(rate) => self.begun + Duration::from_secs_f64(number as f64 / rate),
            None => Instant::now(),
        })
    }

    pub(super) fn answered(&self, due: Instant) {
        let time = u64::try_from(due.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.latency.record_shared(time);
    }

    pub(super) fn failed(&self) {
        // Ordering: Relaxed, a count.
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// What came of it, after all clients have ended.
    pub(super) fn load(&self) -> Load {
        let latency = self.latency.summary();
        Load {
            answered: latency.count,
            // Ordering: Relaxed, the clients have ended.
            errors: self.errors.load(Ordering::Relaxed),
            seconds: self.begun.elapsed().as_secs_f64(),
            latency,
        }
    }
}
