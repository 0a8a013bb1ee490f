//! The families of the poller.

use super::{Exposition, FamilyKind, seconds};
use crate::poller::{PollerSnapshot, PollsSnapshot};

pub(super) fn render(text: &mut Exposition, poller: &PollerSnapshot) {
    use FamilyKind::{Counter, Gauge};
    type Field = fn(&PollsSnapshot) -> u64;
    let name = "freeboard_poller_info";
    text.family(name, Gauge, "When busy workers look; always 1.");
    text.sample(name, &[("policy", &poller.policy)], 1.0);
    let mut lookers: Vec<(String, &PollsSnapshot)> = Vec::new();
    for (index, looks) in poller.workers.iter().enumerate() {
        lookers.push((index.to_string(), looks));
    }
    lookers.push(("monitor".to_owned(), &poller.monitor));
    lookers.push(("dedicated".to_owned(), &poller.dedicated));
    let families: [(&str, &str, Field); 5] = [
        (
            "freeboard_poller_attempts_total",
            "Times a look was wanted.",
            |looks| looks.attempts,
        ),
        (
            "freeboard_poller_looks_nonwaiting_total",
            "Looks without waiting.",
            |looks| looks.nonwait,
        ),
        (
            "freeboard_poller_looks_waiting_total",
            "Looks that waited.",
            |looks| looks.wait,
        ),
        (
            "freeboard_poller_looks_won_total",
            "Looks that found something.",
            PollsSnapshot::won,
        ),
        (
            "freeboard_poller_events_total",
            "Events that looks found.",
            |looks| looks.events,
        ),
    ];
    for (name, help, field) in families {
        text.family(name, Counter, help);
        for (looker, looks) in &lookers {
            text.sample(name, &[("looker", looker)], field(looks) as f64);
        }
    }
    for (name, kind, help, value) in [
        (
            "freeboard_poller_sources",
            Gauge,
            "Sockets that are watched.",
            poller.sources as f64,
        ),
        (
            "freeboard_poller_outstanding",
            Gauge,
            "Owners that were called for their sockets and have not run yet.",
            poller.outstanding as f64,
        ),
        (
            "freeboard_poller_runs_total",
            Counter,
            "Owners that have run for their sockets.",
            poller.runs as f64,
        ),
        (
            "freeboard_poller_gap_max_seconds",
            Gauge,
            "The longest time between two looks while sockets were watched.",
            seconds(poller.gap_max_ns as f64),
        ),
        (
            "freeboard_poller_wakes_total",
            Counter,
            "Times that a wait was ended because there was work.",
            poller.wakes as f64,
        ),
        (
            "freeboard_poller_accepts_total",
            Counter,
            "Connections that were accepted.",
            poller.accepts as f64,
        ),
        (
            "freeboard_poller_agains_total",
            Counter,
            "Reads and writes that would have blocked.",
            poller.agains as f64,
        ),
    ] {
        text.family(name, kind, help);
        text.sample(name, &[], value);
    }
    let name = "freeboard_poller_events_per_look";
    let help = "Events that a look found which found any.";
    text.family(name, FamilyKind::Summary, help);
    text.unscaled_summary(name, &[], &poller.events_per_poll);
    let name = "freeboard_poller_readiness_to_run_seconds";
    let help = "From the look that found a socket ready to the run of its owner.";
    text.family(name, FamilyKind::Summary, help);
    text.summary(name, &[], &poller.readiness_to_run);
}
