//! The table that compares the runs.

use super::run::Outcome;
use crate::{
    figures::{count, rate},
    table::unseen,
};

/// A row for each run, the header first.
pub(super) fn rows(outcomes: &[Outcome]) -> Vec<Vec<String>> {
    let header = [
        "workload",
        "computing us",
        "policy",
        "client",
        "requests/s",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "CPU us each",
        "polls",
        "won of polls",
        "ready to run p99 us",
        "longest gap us",
    ];
    let header = header.map(str::to_owned).into();
    let whole = |value: f64| count(value.round() as u64);
    let rows = outcomes.iter().map(|outcome| {
        let (plan, asked) = (&outcome.plan, &outcome.asked);
        let polls = outcome.poller.polls();
        let asked_for = polls.nonwait + polls.wait;
        vec![
            plan.workload.name().to_owned(),
            count(plan.cpu_us),
            plan.policy.to_string(),
            asked.client.name().to_owned(),
            rate(outcome.rate()),
            whole(asked.p50_us),
            whole(asked.p99_us),
            asked.p999_us.map_or_else(unseen, whole),
            outcome
                .cpu_us()
                .map_or_else(unseen, |us| format!("{us:.1}")),
            count(asked_for),
            format!(
                "{:.0} %",
                100.0 * polls.won() as f64 / asked_for.max(1) as f64
            ),
            whole(outcome.poller.readiness_to_run.p99 as f64 / 1e3),
            whole(outcome.poller.gap_max_ns as f64 / 1e3),
        ]
    });
    std::iter::once(header).chain(rows).collect()
}
