//! The families of actors that have a name.

use std::collections::HashMap;

use super::{Exposition, FamilyKind};
use crate::snapshot::{ActorSnapshot, LaneSnapshot};

/// The most actors that have series of their own: of those with a name, the oldest.
pub const ACTOR_SERIES_MAX: usize = 200;

/// An actor by itself.
struct Named<'a> {
    name: &'a str,
    actor: &'a ActorSnapshot,
}

pub(super) fn render(text: &mut Exposition, actors: &[ActorSnapshot]) {
    let named = named(actors);
    render_actors(text, &named);
    render_lanes(text, &named);
}

/// Those with a name, each name once: one that ends may still be seen beside its successor.
fn named(actors: &[ActorSnapshot]) -> Vec<Named<'_>> {
    let mut latest: HashMap<&str, &ActorSnapshot> = HashMap::new();
    for actor in actors {
        if let Some(name) = &actor.name {
            let known = latest.entry(name).or_insert(actor);
            if actor.id > known.id {
                *known = actor;
            }
        }
    }
    let named = latest.into_iter();
    let mut named: Vec<_> = named.map(|(name, actor)| Named { name, actor }).collect();
    named.sort_unstable_by_key(|it| (it.actor.id, it.name));
    named.truncate(ACTOR_SERIES_MAX);
    named
}

fn render_actors(text: &mut Exposition, named: &[Named<'_>]) {
    let name = "freeboard_actor_info";
    text.family(name, FamilyKind::Gauge, "The actor's type; always 1.");
    for it in named {
        let labels = [("actor", it.name), ("actor_type", &it.actor.actor_type)];
        text.sample(name, &labels, 1.0);
    }
    let name = "freeboard_actor_restarts_total";
    text.family(name, FamilyKind::Counter, "Restarts of the actor.");
    for it in named {
        text.sample(name, &[("actor", it.name)], it.actor.restarts as f64);
    }
    let name = "freeboard_actor_handling_seconds";
    let help = "Time that handlers took, of one message in 128.";
    text.family(name, FamilyKind::Summary, help);
    for it in named {
        if let Some(summary) = &it.actor.handling {
            text.summary(name, &[("actor", it.name)], summary);
        }
    }
}

fn render_lanes(text: &mut Exposition, named: &[Named<'_>]) {
    use FamilyKind::{Counter, Gauge};
    type Field = fn(&LaneSnapshot) -> u64;
    let families: [(&str, FamilyKind, &str, Field); 5] = [
        (
            "freeboard_actor_mailbox_bound",
            Gauge,
            "The most messages the lane holds.",
            |lane| lane.bound,
        ),
        (
            "freeboard_actor_mailbox_depth",
            Gauge,
            "Messages in the lane now.",
            |lane| lane.depth,
        ),
        (
            "freeboard_actor_mailbox_high_water",
            Gauge,
            "The most messages the lane has held.",
            |lane| lane.high_water,
        ),
        (
            "freeboard_actor_messages_accepted_total",
            Counter,
            "Messages the lane has accepted.",
            |lane| lane.accepted,
        ),
        (
            "freeboard_actor_messages_handled_total",
            Counter,
            "Messages of the lane that were handled.",
            |lane| lane.handled,
        ),
    ];
    for (name, kind, help, field) in families {
        text.family(name, kind, help);
        for (actor, rank, lane) in lanes(named) {
            let labels = [("actor", actor), ("lane", &rank)];
            text.sample(name, &labels, field(lane) as f64);
        }
    }
    let name = "freeboard_actor_messages_shed_total";
    let help = "Messages of the lane that were not handled, by reason.";
    text.family(name, Counter, help);
    for (actor, rank, lane) in lanes(named) {
        for shed in &lane.shed {
            let reason = ("reason", shed.reason.as_str());
            let labels = [("actor", actor), ("lane", &rank), reason];
            text.sample(name, &labels, shed.count as f64);
        }
    }
    let name = "freeboard_actor_time_in_queue_seconds";
    let help = "Time that messages waited in the lane, of one in 128.";
    text.family(name, FamilyKind::Summary, help);
    for (actor, rank, lane) in lanes(named) {
        if let Some(summary) = &lane.time_in_queue {
            text.summary(name, &[("actor", actor), ("lane", &rank)], summary);
        }
    }
}

/// Every lane with the name of its actor, and its rank as text.
fn lanes<'a>(named: &'a [Named<'a>]) -> impl Iterator<Item = (&'a str, String, &'a LaneSnapshot)> {
    named.iter().flat_map(|it| {
        let lanes = it.actor.lanes.iter();
        lanes.map(|lane| (it.name, lane.lane.to_string(), lane))
    })
}
