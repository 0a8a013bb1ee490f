//! The adaptive limit of a group: how many messages and asks may be in flight.
//!
//! ```text
//!   route ──▶ admit(lane): in flight < share of the lane? ──▶ Admitted travels with the message, or with the ask
//!                 │ no                                            │ reply: latency ──▶ GradientLimit ──▶ limit
//!                 ▼                                               ▼ drop: in flight - 1
//!             Full(msg), counted
//! ```
//!
//! [`InFlightLimit`] has the proof that the count is exact. So a flood of messages that are refused takes no capacity from
//! the urgent ones, not even for a moment.

use std::sync::Arc;

use freeboard_flow::AdaptiveLimit;
use freeboard_meter::{Counter, clock};
use freeboard_queue::InFlightLimit;

use crate::{
    metered::{InFlight, SharedLimit},
    sync::{AtomicBool, Ordering},
};

pub(super) struct Limiter {
    law: SharedLimit,
    limit: InFlightLimit,
    has_refused: AtomicBool,
    refused: Counter,
}

impl Limiter {
    pub(super) fn new(limit: AdaptiveLimit) -> Self {
        let (law, initial) = SharedLimit::new(limit);
        Self {
            law,
            limit: InFlightLimit::new(initial),
            has_refused: AtomicBool::new(false),
            refused: Counter::new(),
        }
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit.get()
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.limit.in_flight()
    }

    /// Messages that the limit has refused.
    pub(super) fn refused(&self) -> u64 {
        self.refused.get()
    }

    /// Lets a message for this lane through, or refuses it. Told, it has this deadline.
    pub(super) fn admit(self: &Arc<Self>, lane: usize, deadline_ns: u64) -> Option<Admitted> {
        let part = |limit| AdaptiveLimit::share(limit, lane);
        if self.limit.try_enter(part) {
            return Some(Admitted {
                limiter: self.clone(),
                since_ns: clock::now_ns(),
                deadline_ns,
            });
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
        self.law
            .sample(since_ns, is_used, |limit| self.limit.set(limit));
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
        self.limiter.limit.leave();
    }
}
