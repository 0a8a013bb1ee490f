//! Prometheus families from a snapshot, and the text that is made of them.
//!
//! The text exposition format 0.0.4, which every scraper reads; serve it as
//! `text/plain; version=0.0.4`. Names and base units (seconds, bytes, plain counts, `_total`) follow
//! Prometheus' naming guide, and no label's value changes from one moment to the next: each value is a
//! series that a server keeps.
//!
//! The size of the text does not grow with the number of actors. All actors are in it by type and lane; by
//! themselves there are those that have a name, [`ACTOR_SERIES_MAX`] of them at most. So who wants to see
//! an actor by itself names it.

mod actors;
mod exposition;
mod family;
mod groups;
mod poller;
mod system;
mod text;
mod types;
mod unit;
mod workers;

pub use actors::ACTOR_SERIES_MAX;
pub use exposition::Exposition;
pub use family::{Family, FamilyKind, Sample};
pub use groups::{GROUP_SERIES_MAX, MEMBER_SERIES_MAX};
pub use unit::Unit;

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

/// The families of a system, to which others can be added before the text is made of them.
///
/// ```
/// let snapshot = freeboard_meter::SystemSnapshot { actors_alive: 3, ..Default::default() };
/// let families = freeboard_meter::families(&snapshot);
/// let mut found = families.families().iter();
/// let alive = found.find(|family| family.name == "freeboard_actors_alive").unwrap();
/// assert_eq!(alive.samples[0].value, 3.0);
/// ```
#[must_use]
pub fn families(snapshot: &SystemSnapshot) -> Exposition {
    let mut text = Exposition::new();
    system::render(&mut text, snapshot);
    workers::render_workers(&mut text, &snapshot.workers);
    workers::render_scheduler(&mut text, &snapshot.scheduler);
    if let Some(poller) = &snapshot.poller {
        poller::render(&mut text, poller);
    }
    types::render(&mut text, snapshot);
    actors::render(&mut text, &snapshot.actors);
    groups::render(&mut text, &snapshot.groups);
    text
}

fn seconds(nanoseconds: f64) -> f64 {
    nanoseconds / 1e9
}
