//! The scene's page: verdict, table and a bar for each run.

use super::{plan::Bed, run::Outcome, table, verdict};
use crate::{
    figures::{count, rate},
    page::Page,
    plot::{self, Bar},
};

const LEAD: &str = "A server whose workers look at the network by three policies.";

/// The whole page.
pub(super) fn page(outcomes: &[Outcome]) -> String {
    let mut page = Page::new("Eager", LEAD);
    for text in verdict::verdict(outcomes) {
        page.paragraph(&text);
    }
    page.table(&table::rows(outcomes));
    let is_sweep = |it: &&Outcome| matches!(it.plan.bed, Bed::Sweep { .. });
    let bars = |outcomes: Vec<&Outcome>, value: fn(&Outcome) -> f64, note: fn(f64) -> String| {
        let bar = |outcome: &Outcome| Bar {
            name: outcome.plan.title(),
            parts: vec![value(outcome)],
            note: note(value(outcome)),
        };
        outcomes.into_iter().map(bar).collect::<Vec<_>>()
    };
    let http = outcomes.iter().filter(|it| !is_sweep(it)).collect();
    let http = bars(http, Outcome::rate, rate);
    if !http.is_empty() {
        page.heading("Requests a second");
        page.plot(&plot::bars("requests a second", &[], &http));
    }
    let sweep: Vec<&Outcome> = outcomes.iter().filter(is_sweep).collect();
    if !sweep.is_empty() {
        page.heading("Latency beside actors that only compute, p99 in microseconds");
        let latency = bars(
            sweep.clone(),
            |it| it.asked.p99_us,
            |us| count(us.round() as u64),
        );
        page.plot(&plot::bars("p99 in microseconds", &[], &latency));
        page.heading("Processor time of a request, in microseconds");
        let cost = bars(
            sweep.clone(),
            |it| it.cpu_us().unwrap_or(0.0),
            |us| format!("{us:.1}"),
        );
        page.plot(&plot::bars("microseconds a request", &[], &cost));
        page.heading("Looks a second");
        let looks = bars(sweep.clone(), Outcome::look_rate, rate);
        page.plot(&plot::bars("looks a second", &[], &looks));
        page.heading("From readiness to run, p99 in microseconds");
        let readiness = bars(
            sweep,
            |it| it.poller.readiness_to_run.p99 as f64 / 1e3,
            |us| count(us.round() as u64),
        );
        page.plot(&plot::bars("p99 in microseconds", &[], &readiness));
    }
    page.finish()
}
