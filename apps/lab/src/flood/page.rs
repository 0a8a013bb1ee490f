//! The scene's page: verdict, table and a plot for each run.

use super::{monitor::Point, run::Outcome, table, verdict};
use crate::{
    figures::{count, seconds},
    page::Page,
    plot::{self, Axes, Series},
};

const LEAD: &str = "A log server behind a flooded mailbox, and the dam that saves it.";

/// The whole page.
pub(crate) fn page(outcomes: &[Outcome]) -> String {
    let mut page = Page::new("The flood", LEAD);
    for text in verdict::verdict(outcomes) {
        page.paragraph(&text);
    }
    page.table(&table::rows(outcomes));
    page.note(table::LEGEND);
    for outcome in outcomes {
        page.heading(&outcome.plan.title());
        page.note(outcome.verdict.finding());
        page.plot(&queues(outcome));
    }
    page.finish()
}

/// Both queues over time; the dam's only if there is one.
fn queues(outcome: &Outcome) -> String {
    let series = |name: &str, length: fn(&Point) -> u64| Series {
        name: name.to_owned(),
        points: outcome
            .points
            .iter()
            .map(|point| (point.at.as_secs_f64(), length(point) as f64))
            .collect(),
    };
    let server = series("server", |point| point.server);
    let series = match outcome.plan.dam {
        None => vec![server],
        Some(_) => vec![server, series("dam", |point| point.dam)],
    };
    let axes = Axes {
        x: seconds,
        y: |lines| count(lines as u64),
        y_unit: 1.0,
    };
    let title = format!("{}: queued lines over time", outcome.plan.title());
    plot::lines(&title, axes, &series)
}
