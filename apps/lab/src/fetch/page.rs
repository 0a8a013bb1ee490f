//! The scene's page: verdict, table and a bar for each run.

use super::{run::Outcome, table, verdict};
use crate::{
    page::Page,
    plot::{self, Bar},
};

const LEAD: &str = "A push-notification fetcher, tuned in eleven steps.";

/// The whole page.
pub(super) fn page(outcomes: &[Outcome]) -> String {
    let mut page = Page::new("Fetch", LEAD);
    for text in verdict::verdict(outcomes) {
        page.paragraph(&text);
    }
    page.table(&table::rows(outcomes));
    let mut plot = |title: &str, value: fn(&Outcome) -> f64| {
        page.heading(title);
        let bar = |outcome: &Outcome| Bar {
            name: outcome.plan.title(),
            parts: vec![value(outcome)],
            note: format!("{:.1}", value(outcome)),
        };
        let bars: Vec<Bar> = outcomes.iter().map(bar).collect();
        page.plot(&plot::bars(title, &[], &bars));
    };
    plot("Wait before the start, p99 in milliseconds", |it| {
        it.wait.p99 as f64 / 1e6
    });
    plot("From start to confirm, p99 in milliseconds", |it| {
        it.lifetime.p99 as f64 / 1e6
    });
    plot("Commands in flight, at most", |it| it.in_flight_peak as f64);
    plot("Memory, at most, in MiB", |it| {
        it.rss_peak_bytes.unwrap_or(0) as f64 / f64::from(1 << 20)
    });
    plot("Processor time of a notification, in microseconds", |it| {
        it.cpu_us_per_message.unwrap_or(0.0)
    });
    plot("Processor while idle, in percent of a core", |it| {
        it.idle_cpu_percent.unwrap_or(0.0)
    });
    page.finish()
}
