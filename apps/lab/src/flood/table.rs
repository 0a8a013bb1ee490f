//! The table that compares the runs: a column each, so that four of them fit a terminal.

use super::run::{Ending, Outcome};
use crate::{
    figures::{count, mebibytes, rate},
    table::{self, unseen},
};

/// A measure: its name, and what it is of a run.
type Measure = (&'static str, fn(&Outcome) -> String);

const MEASURES: [Measure; 10] = [
    ("ended", |run| ending(&run.ending).to_owned()),
    ("lines written", |run| count(run.record.written)),
    ("lines left", |run| count(run.record.shed)),
    ("seconds", |run| format!("{:.3}", run.record.seconds)),
    ("lines/s, deep", |run| {
        run.record.drain_rate_deep.map_or_else(unseen, rate)
    }),
    ("lines/s, shallow", |run| {
        run.record.drain_rate_shallow.map_or_else(unseen, rate)
    }),
    ("deep / shallow", ratio),
    ("longest, dam", |run| match run.plan.dam {
        Some(_) => count(run.record.peak_queue.dam),
        None => unseen(),
    }),
    ("longest, server", |run| count(run.record.peak_queue.server)),
    ("memory, peak", |run| {
        run.record.rss_peak_bytes.map_or_else(unseen, mebibytes)
    }),
];

/// What the measures are that do not speak for themselves.
pub(crate) const LEGEND: &str = "deep: while more than 90 % of the flood was queued; shallow: less \
     than 1 %; longest: the queue's peak";

/// Only of a run that was held: otherwise the senders take part of the cores while much is queued,
/// and the comparison would not be fair.
fn ratio(run: &Outcome) -> String {
    let record = &run.record;
    match (record.drain_rate_deep, record.drain_rate_shallow) {
        (Some(deep), Some(shallow)) if run.plan.hold => format!("{:.2}", deep / shallow),
        _ => unseen(),
    }
}

const fn ending(ending: &Ending) -> &'static str {
    match ending {
        Ending::Drained => "drained",
        Ending::Limit(_) => "stopped",
        Ending::Interrupted => "Ctrl-C",
        Ending::Failed(_) => "failed",
    }
}

/// The table's rows, the header first: a measure's name, then its value in each run.
pub(crate) fn rows(outcomes: &[Outcome]) -> Vec<Vec<String>> {
    let titles = outcomes.iter().map(|run| run.plan.title());
    let header = std::iter::once(String::new()).chain(titles).collect();
    let measures = MEASURES.iter().map(|(name, value)| {
        let values = outcomes.iter().map(value);
        std::iter::once((*name).to_owned()).chain(values).collect()
    });
    std::iter::once(header).chain(measures).collect()
}

/// All runs, for people.
pub(crate) fn table(outcomes: &[Outcome]) -> String {
    let mut rows = rows(outcomes);
    for title in &mut rows[0] {
        // In two lines: "dam" above its rule.
        *title = title.replacen(' ', "\n", 1);
    }
    table::table(&rows)
}
