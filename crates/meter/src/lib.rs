//! What is counted and measured, and how it is read.
//!
//! The ground floor of the house: it knows nothing of actors or workers. They bump its counters and
//! record into its histograms on a message's way; a reader gathers them into a [`SystemSnapshot`] of
//! plain data, which travels as JSON or as Prometheus text.
//!
//! ```text
//!   worker ──bump──▶ Counter · Peak · Histogram ◀──load── reader ──▶ SystemSnapshot ──▶ render
//!          (never waits)                       (never blocks)
//! ```
//!
//! Invariant 5 of the house holds here: watching never blocks the message path. All atomics are
//! relaxed; a snapshot is a set of true readings, not one instant frozen.

#![forbid(unsafe_code)]

mod balance;
mod buckets;
pub mod by_type;
pub mod clock;
pub mod counter;
pub mod figures;
pub mod group;
pub mod histogram;
#[cfg(feature = "opentelemetry")]
pub mod opentelemetry;
pub mod peak;
pub mod poller;
pub mod prometheus;
pub mod scheduler;
pub mod snapshot;
mod sync;
mod tally;

pub use balance::{Balance, BalanceClass};
pub use by_type::{TypeLaneSnapshot, TypeSnapshot, TypeTimes, by_type};
pub use clock::now_ns;
pub use counter::{Counter, OwnedCounter};
pub use group::{GroupSnapshot, MemberSnapshot, skew};
pub use histogram::{Histogram, HistogramSnapshot, HistogramSummary};
pub use peak::Peak;
pub use poller::{PollerSnapshot, PollsSnapshot};
pub use prometheus::{
    ACTOR_SERIES_MAX, Exposition, Family, FamilyKind, GROUP_SERIES_MAX, MEMBER_SERIES_MAX, Sample,
    Unit, families, render,
};
pub use scheduler::{
    CurrentRun, LongRunSnapshot, SchedulerSnapshot, StateTimes, WorkerSnapshot, WorkerState,
};
pub use snapshot::{ActorSnapshot, LaneSnapshot, ReasonCount, SystemSnapshot};
