//! Metrics: declared once, read from snapshots, written as Prometheus text.
//!
//! A [`Metric`] declares name, kind, help and source. An [`Exposition`] reads metrics from snapshots into
//! [`Family`]s, which become the text, the board's JSON, the tables of docs/metrics.md and OpenTelemetry's
//! instruments. The unit follows from the name.
//!
//! ```text
//!   metrics! { gauge "freeboard_actors_alive" = |it| it.actors_alive, "..."; }
//!       │ Exposition::metrics(table, labels, snapshot)
//!       ▼
//!   Family { name, kind, help, samples } ──▶ text · JSON · docs · OpenTelemetry
//! ```
//!
//! The text is the exposition format 0.0.4; serve it as `text/plain; version=0.0.4`. Names follow Prometheus'
//! naming guide. Label values do not change over time, because each value is a series that a server keeps.
//!
//! The size of the text does not grow with the number of actors: it has all actors by type and lane, and at
//! most [`ACTOR_SERIES_MAX`] named actors by themselves.

mod exposition;
mod family;
mod metric;
mod system;

pub use exposition::Exposition;
pub use family::{Family, FamilyKind, Sample, Unit};
pub use metric::{Measured, Metric, Series};
pub use system::{
    ACTOR_SERIES_MAX, DIRECTORY_SERIES_MAX, GROUP_SERIES_MAX, MEMBER_SERIES_MAX, TOPIC_SERIES_MAX,
    families,
};

use crate::snapshot::SystemSnapshot;

/// The snapshot in the text exposition format.
///
/// ```
/// let snapshot = freeboard_meter::SystemSnapshot { actors_alive: 3, ..Default::default() };
/// let text = freeboard_meter::render(&snapshot);
/// assert!(text.contains("\nfreeboard_actors_alive 3\n"));
/// ```
#[must_use]
pub fn render(snapshot: &SystemSnapshot) -> String {
    families(snapshot).finish()
}
