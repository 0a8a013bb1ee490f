//! The part of a proxy that senders, routers and metrics read: its status, its credit and its counters.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use freeboard_flow::{LaneConfig, Overload};
use freeboard_meter::Counter;
use parking_lot::Mutex;

use crate::{error::Failure, wire::NodeId};

/// Whether messages can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Status {
    Opening,
    Open,
    /// Nobody answers: messages fail at once.
    Unreachable,
    /// The name is unknown, or has another type.
    Refused,
    /// The reference has ended.
    Ended,
}

/// What senders and metrics read.
#[derive(Debug)]
pub(crate) struct ProxyShared {
    pub(crate) name: String,
    /// Messages at the bound are shed as those that [`Overload::Sample`] sheds: no sender gets them back.
    pub(crate) is_sampled: bool,
    status: AtomicU8,
    why: Mutex<String>,
    /// Messages that may be sent now.
    pub(crate) credit: AtomicU64,
    /// Messages that have left the lane, and are not sent.
    pub(super) held: AtomicU64,
    /// Messages that were returned to their senders.
    pub(crate) refused: Counter,
    pub(crate) sent: Counter,
    pub(crate) sent_bytes: Counter,
    pub(crate) frames: Counter,
    pub(crate) replied: Counter,
    /// Tells and asks that were accepted and never sent.
    pub(crate) undelivered: Counter,
    /// Asks without an answer.
    pub(crate) lost: Counter,
    pub(crate) sessions: Counter,
    pub(crate) peer: Mutex<Option<NodeId>>,
}

impl ProxyShared {
    pub(crate) fn new(name: String, lane: &LaneConfig) -> Self {
        Self {
            name,
            is_sampled: matches!(lane.overload_policy(), Overload::Sample { .. }),
            status: AtomicU8::new(Status::Opening as u8),
            why: Mutex::default(),
            credit: AtomicU64::new(0),
            held: AtomicU64::new(0),
            refused: Counter::default(),
            sent: Counter::default(),
            sent_bytes: Counter::default(),
            frames: Counter::default(),
            replied: Counter::default(),
            undelivered: Counter::default(),
            lost: Counter::default(),
            sessions: Counter::default(),
            peer: Mutex::default(),
        }
    }

    pub(crate) fn held(&self) -> u64 {
        // Ordering: Relaxed, a gauge.
        self.held.load(Ordering::Relaxed)
    }

    pub(crate) fn status(&self) -> Status {
        // Ordering: Acquire, pairs with the Release of `set`: the reason is there.
        match self.status.load(Ordering::Acquire) {
            0 => Status::Opening,
            1 => Status::Open,
            2 => Status::Unreachable,
            3 => Status::Refused,
            _ => Status::Ended,
        }
    }

    pub(super) fn set(&self, status: Status, why: &str) {
        why.clone_into(&mut self.why.lock());
        // Ordering: Release, see `status`.
        self.status.store(status as u8, Ordering::Release);
    }

    /// What is accepted from now on, or waits, is never sent.
    pub(crate) fn end(&self) {
        self.set(Status::Ended, "the reference has ended");
    }

    pub(crate) fn credit(&self) -> u64 {
        // Ordering: Relaxed, an estimate.
        self.credit.load(Ordering::Relaxed)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.status() == Status::Ended
    }

    pub(crate) fn why(&self) -> String {
        self.why.lock().clone()
    }

    pub(super) fn failure(&self) -> Failure {
        match self.status() {
            Status::Refused => Failure::Unknown(self.why()),
            _ => Failure::Down(self.why()),
        }
    }
}
