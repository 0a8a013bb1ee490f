//! Counters, histograms, snapshots, and their export to Prometheus and OpenTelemetry.
//!
//! Actors and workers update its counters and histograms while they
//! handle messages; a reader gathers them into a [`SystemSnapshot`] of plain data, which becomes JSON,
//! Prometheus text or OpenTelemetry instruments. A metric is declared once, with [`metrics!`].
//!
//! ```text
//!   worker ──bump──▶ Counter · Peak · Histogram ◀──load── reader ──▶ SystemSnapshot ──▶ render
//!          (never waits)                       (never blocks)
//! ```
//!
//! Observing never blocks the message path (invariant 5 of ARCHITECTURE.md). All atomics are relaxed: a
//! snapshot is a set of correct values, not of one instant.

#![forbid(unsafe_code)]

mod balance;
mod buckets;
mod by_type;
mod counter;
pub mod figures;
mod histogram;
#[cfg(feature = "opentelemetry")]
pub mod opentelemetry;
mod prometheus;
mod scheduler;
mod snapshot;
mod striped;
mod tally;

pub use balance::{Balance, BalanceClass};
pub use by_type::{TypeLaneSnapshot, TypeSnapshot, TypeTimes, by_type};
pub use counter::{Counter, OwnedCounter, Peak};
pub use freeboard_platform::clock::{self, now_ns};
pub use histogram::{Histogram, HistogramSnapshot, HistogramSummary};
pub use prometheus::{
    ACTOR_SERIES_MAX, DIRECTORY_SERIES_MAX, Exposition, Family, FamilyKind, GROUP_SERIES_MAX,
    MEMBER_SERIES_MAX, Measured, Metric, Sample, Series, TOPIC_SERIES_MAX, Unit, families, render,
};
pub use scheduler::{
    CurrentRun, LongRunSnapshot, SchedulerSnapshot, StateTimes, WorkerSnapshot, WorkerState,
};
pub use snapshot::{
    ActorSnapshot, DirectorySnapshot, GroupSnapshot, LaneSnapshot, MemberSnapshot, PollerSnapshot,
    PollsSnapshot, ReasonCount, SubscriberSnapshot, SystemSnapshot, TopicSnapshot, skew,
};
pub use striped::{Padded, Striped};
