//! The table that compares the runs.

use super::run::Outcome;
use crate::{
    figures::{count, hundredths, rate},
    table::unseen,
};

/// A row for each run, the header first.
pub(crate) fn rows(outcomes: &[Outcome]) -> Vec<Vec<String>> {
    let header = [
        "wait",
        "priorities",
        "ring",
        "producers",
        "idle beside",
        "messages",
        "elapsed",
        "messages/s",
        "processor time",
    ];
    let header = header.map(str::to_owned).into();
    let rows = outcomes.iter().map(|outcome| {
        let plan = &outcome.plan;
        vec![
            plan.wait.name().to_owned(),
            plan.priorities.to_string(),
            count(plan.ring as u64),
            plan.producers.to_string(),
            plan.idle.to_string(),
            count(outcome.received),
            hundredths(outcome.seconds),
            rate(outcome.rate()),
            outcome.processor_seconds.map_or_else(unseen, hundredths),
        ]
    });
    std::iter::once(header).chain(rows).collect()
}
