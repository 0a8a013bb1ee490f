//! The families of actors by type and lane: all actors are in them.

use super::{Exposition, FamilyKind, seconds};
use crate::{
    by_type::{TypeLaneSnapshot, TypeSnapshot, TypeTimes, by_type},
    snapshot::SystemSnapshot,
};

pub(super) fn render(text: &mut Exposition, snapshot: &SystemSnapshot) {
    let types = by_type(snapshot);
    render_types(text, &types);
    render_lanes(text, &types);
}

fn render_types(text: &mut Exposition, types: &[TypeSnapshot]) {
    use FamilyKind::{Counter, Gauge, Summary};
    type Field = fn(&TypeSnapshot) -> u64;
    let families: [(&str, FamilyKind, &str, Field); 3] = [
        (
            "freeboard_type_actors",
            Gauge,
            "Actors of the type alive now.",
            |it| it.alive,
        ),
        (
            "freeboard_type_actors_ended_total",
            Counter,
            "Actors of the type that have ended.",
            |it| it.ended,
        ),
        (
            "freeboard_type_restarts_total",
            Counter,
            "Restarts of actors of the type.",
            |it| it.restarts,
        ),
    ];
    for (name, kind, help, field) in families {
        text.family(name, kind, help);
        for of_type in types {
            let labels = [("actor_type", of_type.actor_type.as_str())];
            text.sample(name, &labels, field(of_type) as f64);
        }
    }
    let name = "freeboard_type_handling_seconds";
    let help =
        "Time that handlers took, of one message in 128; quantiles of the type's slowest actor.";
    text.family(name, Summary, help);
    for of_type in types {
        let labels = [("actor_type", of_type.actor_type.as_str())];
        render_times(text, name, &labels, &of_type.handling);
    }
}

fn render_lanes(text: &mut Exposition, types: &[TypeSnapshot]) {
    use FamilyKind::{Counter, Gauge, Summary};
    type Field = fn(&TypeLaneSnapshot) -> u64;
    let families: [(&str, FamilyKind, &str, Field); 4] = [
        (
            "freeboard_type_mailbox_depth",
            Gauge,
            "Messages in the lanes of all actors of the type now.",
            |lane| lane.depth,
        ),
        (
            "freeboard_type_mailbox_depth_max",
            Gauge,
            "Messages in the fullest lane of an actor of the type now.",
            |lane| lane.depth_max,
        ),
        (
            "freeboard_type_messages_accepted_total",
            Counter,
            "Messages that the lanes of all actors of the type have accepted.",
            |lane| lane.accepted,
        ),
        (
            "freeboard_type_messages_handled_total",
            Counter,
            "Messages of all actors of the type that were handled.",
            |lane| lane.handled,
        ),
    ];
    for (name, kind, help, field) in families {
        text.family(name, kind, help);
        for (of_type, rank, lane) in lanes(types) {
            let labels = [("actor_type", of_type), ("lane", &rank)];
            text.sample(name, &labels, field(lane) as f64);
        }
    }
    let name = "freeboard_type_messages_shed_total";
    let help = "Messages for actors of the type that were not handled, by reason.";
    text.family(name, Counter, help);
    for (of_type, rank, lane) in lanes(types) {
        for shed in &lane.shed {
            let reason = ("reason", shed.reason.as_str());
            let labels = [("actor_type", of_type), ("lane", &rank), reason];
            text.sample(name, &labels, shed.count as f64);
        }
    }
    let name = "freeboard_type_time_in_queue_seconds";
    let help = "Time that messages waited, of one in 128; quantiles of the type's slowest actor.";
    text.family(name, Summary, help);
    for (of_type, rank, lane) in lanes(types) {
        let labels = [("actor_type", of_type), ("lane", &rank)];
        render_times(text, name, &labels, &lane.time_in_queue);
    }
}

/// Every lane with the name of its type, and its rank as text.
fn lanes(types: &[TypeSnapshot]) -> impl Iterator<Item = (&str, String, &TypeLaneSnapshot)> {
    types.iter().flat_map(|of_type| {
        let lanes = of_type.lanes.iter();
        lanes.map(|lane| (of_type.actor_type.as_str(), lane.lane.to_string(), lane))
    })
}

fn render_times(text: &mut Exposition, name: &str, labels: &[(&str, &str)], times: &TypeTimes) {
    if times.count == 0 {
        return;
    }
    if let Some(slowest) = &times.slowest {
        text.quantiles(name, labels, slowest, seconds);
    }
    text.sample(&format!("{name}_sum"), labels, seconds(times.sum_ns as f64));
    text.sample(&format!("{name}_count"), labels, times.count as f64);
}
