//! The adaptive limit of a group: how many messages and asks may be in flight.
//!
//! ```text
//!   route ──▶ admit(lane): in flight < share of the lane? ──▶ Admitted travels with the message, or with the ask
//!                 │ no                                            │ reply: latency ──▶ GradientLimit ──▶ limit
//!                 ▼                                               ▼ drop: in flight - 1
//!             Full(msg), counted
//! ```
//!
//! The count goes up before it is compared, so it exceeds the limit only by messages that are refused at once, or after
//! the limit has become smaller. Nothing waits for the count, so all its accesses are Relaxed.

use std::sync::Arc;

use freeboard_flow::AdaptiveLimit;
use freeboard_meter::{Counter, clock};

use crate::{
    metered::{InFlight, SharedLimit},
    sync::{AtomicBool, AtomicU64, Ordering},
};

pub(super) struct Limiter {
    law: SharedLimit,
    limit: AtomicU64,
    in_flight: AtomicU64,
    has_refused: AtomicBool,
    refused: Counter,
}

impl Limiter {
    pub(super) fn new(limit: AdaptiveLimit) -> Self {
        let (law, initial) = SharedLimit::new(limit);
        Self {
            law,
            limit: AtomicU64::new(initial),
            in_flight: AtomicU64::new(0),
            has_refused: AtomicBool::new(false),
            refused: Counter::new(),
        }
    }

    pub(super) fn limit(&self) -> u64 {
        // Ordering: Relaxed, see the module's text.
        self.limit.load(Ordering::Relaxed)
    }

    pub(super) fn in_flight(&self) -> u64 {
        // Ordering: Relaxed, see the module's text.
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Messages that the limit has refused.
    pub(super) fn refused(&self) -> u64 {
        self.refused.get()
    }

    /// Lets a message for this lane through, or refuses it. Told, it has this deadline.
    pub(super) fn admit(self: &Arc<Self>, lane: usize, deadline_ns: u64) -> Option<Admitted> {
        // Ordering: Relaxed, see the module's text.
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        // From here on its drop counts down.
        let admitted = Admitted {
            limiter: self.clone(),
            since_ns: clock::now_ns(),
            deadline_ns,
        };
        if before < AdaptiveLimit::share(self.limit(), lane) {
            return Some(admitted);
        }
        // Ordering: Relaxed, an estimate.
        self.has_refused.store(true, Ordering::Relaxed);
        self.refused.add(1);
        None
    }

    fn sample(&self, since_ns: u64) {
        let is_used = || {
            // Ordering: Relaxed, an estimate.
            self.has_refused.swap(false, Ordering::Relaxed) || 2 * self.in_flight() >= self.limit()
        };
        // Ordering: Relaxed, see the module's text.
        let publish = |limit| self.limit.store(limit, Ordering::Relaxed);
        self.law.sample(since_ns, is_used, publish);
    }
}

/// A message or an ask in flight, until it is dropped. Travels with a told message as its reply port.
pub(super) struct Admitted {
    limiter: Arc<Limiter>,
    since_ns: u64,
    /// On the clock: tells inherit it.
    deadline_ns: u64,
}

impl InFlight for Admitted {
    fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }

    fn measure(&self) {
        self.limiter.sample(self.since_ns);
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        // Ordering: Relaxed, see the module's text.
        self.limiter.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
