//! The families of the system as a whole.

use super::{Exposition, FamilyKind, seconds};
use crate::snapshot::SystemSnapshot;

pub(super) fn render(text: &mut Exposition, snapshot: &SystemSnapshot) {
    use FamilyKind::{Counter, Gauge};
    let name = "freeboard_system_info";
    text.family(name, Gauge, "The system's name; always 1.");
    text.sample(name, &[("system", &snapshot.name)], 1.0);
    let uptime_seconds = seconds(snapshot.uptime_ns as f64);
    for (name, kind, help, value) in [
        (
            "freeboard_uptime_seconds",
            Gauge,
            "Time since the system was built.",
            uptime_seconds,
        ),
        (
            "freeboard_injector_depth",
            Gauge,
            "Runnable actors in the global queue.",
            snapshot.scheduler.injector_depth as f64,
        ),
        (
            "freeboard_actors_alive",
            Gauge,
            "Actors alive now.",
            snapshot.actors_alive as f64,
        ),
        (
            "freeboard_actors_spawned_total",
            Counter,
            "Actors ever spawned.",
            snapshot.actors_spawned as f64,
        ),
        (
            "freeboard_actors_ended_total",
            Counter,
            "Actors that have ended.",
            snapshot.actors_ended as f64,
        ),
        (
            "freeboard_actors_restarted_total",
            Counter,
            "Restarts of actors.",
            snapshot.actors_restarted as f64,
        ),
    ] {
        text.family(name, kind, help);
        text.sample(name, &[], value);
    }
    let name = "freeboard_dead_letters_total";
    text.family(
        name,
        Counter,
        "Messages not handled to their end, by reason.",
    );
    for letters in &snapshot.dead_letters {
        text.sample(name, &[("reason", &letters.reason)], letters.count as f64);
    }
}
