//! The service: one actor whose handler computes for a fixed processor time, behind one of six mailboxes.
//!
//! It is one actor on one worker, so its capacity is that of one core. The clients run on a thread of their own; on two
//! cores the kernel gives each thread a core. An actor per core would compete with the clients for their core.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use clap::ValueEnum;
use freeboard::{
    Actor, Context, Handler,
    flow::{AdaptiveLimit, BOUND_MAX, LaneConfig, Overload},
};
use serde::Serialize;

use crate::spin::spin_thread;

/// The lane of urgent requests on the sides that have one.
pub(super) const URGENT: usize = 0;

/// The mailbox before the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mailbox {
    /// No bound, no deadlines
    Unbounded,
    /// A bound that limits memory and refuses the rest, no deadlines
    Bounded,
    /// Requests carry their deadline; the queue is shorter than it, and a new request replaces the oldest
    Deadline,
    /// The same with a lane of its own for each tenth request, which is urgent
    Priority,
    /// As priority, but the lanes shed by age: what waited too long while the queue stands
    #[value(name = "codel")]
    CoDel,
    /// As priority, behind a limit of the requests in flight that adapts to their latency
    Adaptive,
}

impl Mailbox {
    /// Its name on the command line.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Unbounded => "unbounded",
            Self::Bounded => "bounded",
            Self::Deadline => "deadline",
            Self::Priority => "priority",
            Self::CoDel => "codel",
            Self::Adaptive => "adaptive",
        }
    }

    /// Whether requests carry their deadline.
    pub(super) const fn has_deadlines(self) -> bool {
        !matches!(self, Self::Unbounded | Self::Bounded)
    }

    /// Whether urgent requests have a lane of their own.
    pub(super) const fn has_urgent_lane(self) -> bool {
        matches!(self, Self::Priority | Self::CoDel | Self::Adaptive)
    }

    /// The limit of requests in flight, if there is one.
    pub(super) fn limit(self) -> Option<AdaptiveLimit> {
        let limit = AdaptiveLimit {
            // Some milliseconds of work: the service goes on while the clients' thread does not run.
            min: 16,
            // A run has some tens of windows.
            window: Duration::from_millis(10),
            ..AdaptiveLimit::default()
        };
        (self == Self::Adaptive).then_some(limit)
    }

    /// Its lanes. `bound` is that of `Bounded`, `in_time` what the service can answer within half a deadline.
    ///
    /// A full queue of `Reject` is `in_time` service times long, a full queue of `DropOldest` as many gaps between
    /// arrivals. Under overload a gap is shorter than a service time, so the queue that drops its oldest request stays
    /// young even when the service is slower than expected, or serves another lane.
    pub(super) fn lanes(self, bound: usize, in_time: usize, deadline: Duration) -> Vec<LaneConfig> {
        let aging = LaneConfig::bounded(bound)
            .overload(Overload::CoDel {
                target: deadline / 5,
                interval: deadline,
            })
            .lifo_when_overloaded();
        let young = LaneConfig::bounded(in_time).overload(Overload::DropOldest);
        let refusing = |bound| LaneConfig::bounded(bound).overload(Overload::Reject);
        match self {
            Self::Unbounded => vec![refusing(BOUND_MAX as usize)],
            Self::Bounded => vec![refusing(bound)],
            Self::Deadline => vec![young],
            // Nearly strict: of the other lane one request a round, so that it never starves.
            Self::Priority => vec![young.batch(u32::MAX), young.batch(1)],
            Self::CoDel => vec![aging.batch(u32::MAX), aging.batch(1)],
            // What the limit lets through fits in.
            Self::Adaptive => vec![refusing(bound).batch(u32::MAX), refusing(bound).batch(1)],
        }
    }
}

/// A request, by its number.
#[derive(Debug)]
pub(super) struct Request(pub(super) usize);

/// How often each request was handled.
pub(super) type Handled = Arc<[AtomicU8]>;

/// The actor.
#[derive(Debug, Clone)]
pub(super) struct Service {
    pub(super) handled: Handled,
    pub(super) cpu: Duration,
}

impl Actor for Service {}

impl Handler<Request> for Service {
    type Reply = ();

    fn handle(&mut self, request: Request, _cx: &mut Context<Self>) {
        // Ordering: Relaxed, it is read after the system has ended.
        self.handled[request.0].fetch_add(1, Ordering::Relaxed);
        spin_thread(self.cpu);
    }
}
