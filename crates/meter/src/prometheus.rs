//! Prometheus text from a snapshot.
//!
//! The text exposition format 0.0.4, which every scraper reads; serve it as
//! `text/plain; version=0.0.4`. Names and base units (seconds, plain counts, `_total`) follow
//! Prometheus' naming guide.
//!
//! Each actor has its own series, labelled with its number, its name or else type, and the lane. With
//! very many actors that is more than a Prometheus server likes to keep: cut `snapshot.actors` down
//! to those of interest first.

mod exposition;
mod family;
mod groups;
mod poller;
mod text;
mod workers;

pub use exposition::Exposition;
pub use family::{Family, FamilyKind, Sample};

use crate::snapshot::{ActorSnapshot, SystemSnapshot};

/// The labels of one actor's series, as text.
struct ActorLabels<'a> {
    actor: &'a ActorSnapshot,
    id: String,
    /// The lanes' ranks.
    lanes: Vec<String>,
}

impl<'a> ActorLabels<'a> {
    fn new(actor: &'a ActorSnapshot) -> Self {
        Self {
            actor,
            id: actor.id.to_string(),
            lanes: actor
                .lanes
                .iter()
                .map(|lane| lane.lane.to_string())
                .collect(),
        }
    }

    fn name(&self) -> &str {
        self.actor.name.as_ref().unwrap_or(&self.actor.actor_type)
    }

    fn of_actor(&self) -> [(&str, &str); 2] {
        [("actor_id", &self.id), ("actor", self.name())]
    }

    fn of_lane(&self, index: usize) -> [(&str, &str); 3] {
        let [id, name] = self.of_actor();
        [id, name, ("lane", &self.lanes[index])]
    }
}

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
    render_system(&mut text, snapshot);
    workers::render_workers(&mut text, &snapshot.workers);
    workers::render_scheduler(&mut text, &snapshot.scheduler);
    if let Some(poller) = &snapshot.poller {
        poller::render(&mut text, poller);
    }
    let actors: Vec<_> = snapshot.actors.iter().map(ActorLabels::new).collect();
    render_actors(&mut text, &actors);
    render_lanes(&mut text, &actors);
    groups::render(&mut text, &snapshot.groups);
    text
}

fn render_system(text: &mut Exposition, snapshot: &SystemSnapshot) {
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

fn render_actors(text: &mut Exposition, actors: &[ActorLabels<'_>]) {
    let name = "freeboard_actor_info";
    let help = "The actor's type and its state at the time of the snapshot; always 1.";
    text.family(name, FamilyKind::Gauge, help);
    for labels in actors {
        let [id, actor] = labels.of_actor();
        let actor_type = ("actor_type", labels.actor.actor_type.as_str());
        let state = ("state", labels.actor.state.as_str());
        text.sample(name, &[id, actor, actor_type, state], 1.0);
    }
    let name = "freeboard_actor_restarts_total";
    text.family(name, FamilyKind::Counter, "Restarts of the actor.");
    for labels in actors {
        text.sample(name, &labels.of_actor(), labels.actor.restarts as f64);
    }
    let name = "freeboard_actor_handling_seconds";
    let help = "Time that handlers took, as sampled.";
    text.family(name, FamilyKind::Summary, help);
    for labels in actors {
        if let Some(summary) = &labels.actor.handling {
            text.summary(name, &labels.of_actor(), summary);
        }
    }
}

fn render_lanes(text: &mut Exposition, actors: &[ActorLabels<'_>]) {
    use FamilyKind::{Counter, Gauge};
    type Field = fn(&crate::snapshot::LaneSnapshot) -> u64;
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
        for labels in actors {
            for (index, lane) in labels.actor.lanes.iter().enumerate() {
                text.sample(name, &labels.of_lane(index), field(lane) as f64);
            }
        }
    }
    let name = "freeboard_actor_messages_shed_total";
    let help = "Messages of the lane that were not handled, by reason.";
    text.family(name, Counter, help);
    for labels in actors {
        for (index, lane) in labels.actor.lanes.iter().enumerate() {
            let [id, actor, rank] = labels.of_lane(index);
            for shed in &lane.shed {
                let reason = ("reason", shed.reason.as_str());
                text.sample(name, &[id, actor, rank, reason], shed.count as f64);
            }
        }
    }
    let name = "freeboard_actor_time_in_queue_seconds";
    let help = "Time that messages waited in the lane, as sampled.";
    text.family(name, FamilyKind::Summary, help);
    for labels in actors {
        for (index, lane) in labels.actor.lanes.iter().enumerate() {
            if let Some(summary) = &lane.time_in_queue {
                text.summary(name, &labels.of_lane(index), summary);
            }
        }
    }
}

fn seconds(nanoseconds: f64) -> f64 {
    nanoseconds / 1e9
}
