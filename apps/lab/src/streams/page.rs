//! The scene's page: verdict, table and bars for rates and latencies.

use super::{naive::Naive, run::Outcome, table, verdict};
use crate::{
    figures::{count, rate},
    page::Page,
    plot::{self, Bar},
};

const LEAD: &str = "Many small messages to disk: sealed, durable streams.";

/// The whole page.
pub(super) fn page(outcomes: &[Outcome], naive: Option<&Naive>) -> String {
    let mut page = Page::new("Streams", LEAD);
    for text in verdict::verdict(outcomes, naive) {
        page.paragraph(&text);
    }
    page.table(&table::rows(outcomes, naive));
    let bars = |length: fn(&Outcome) -> f64, note: fn(&Outcome) -> String| -> Vec<Bar> {
        let bars = outcomes.iter().map(|outcome| Bar {
            name: name(outcome),
            parts: vec![length(outcome)],
            note: note(outcome),
        });
        bars.collect()
    };
    page.heading("Durable messages a second");
    let rates = bars(Outcome::rate, |outcome| rate(outcome.rate()));
    page.plot(&plot::bars("durable messages a second", &[], &rates));
    page.heading("Megabytes of messages a second");
    let megabytes = bars(Outcome::megabytes, |outcome| {
        count(outcome.megabytes().round() as u64)
    });
    page.plot(&plot::bars("megabytes a second", &[], &megabytes));
    page.heading("Microseconds until durable, of each buffer's first message, 99th percentile");
    let late = bars(
        |outcome| outcome.acknowledge_us().1,
        |outcome| count(outcome.acknowledge_us().1.round() as u64),
    );
    page.plot(&plot::bars("microseconds until durable", &[], &late));
    page.finish()
}

/// Short enough for a bar's margin.
fn name(outcome: &Outcome) -> String {
    let plan = &outcome.plan;
    let seal = if plan.seal.is_sealed() {
        format!("{}/{}", plan.seal, plan.unit)
    } else {
        plan.sync.to_string()
    };
    format!("{}x{} {seal}", plan.writers, plan.size)
}
