//! What a run shows, in words.

use std::collections::BTreeMap;

use super::{
    outcome::Outcome,
    plan::{Mode, Plan},
    step::Step,
};
use crate::figures::{count, mebibytes, rate, three_figures};

/// A step's opening: what the original showed.
pub(super) fn opening(step: Step) -> String {
    format!("step {step}; the original: {}", step.of_original().showed)
}

/// The counters of a run, by the original's names.
pub(super) fn counters(counters: &BTreeMap<String, f64>) -> Vec<String> {
    let line = |(name, value): (&String, &f64)| match name.ends_with("percentile") {
        true => format!("    {name}: {value:.2}"),
        false => format!("    {name}: {value:.0}"),
    };
    counters.iter().map(line).collect()
}

/// What a run shows, in one sentence.
pub(super) fn sentence(plan: &Plan, outcome: &Outcome) -> String {
    let what = match plan.step {
        _ if plan.is_overload() => format!(
            "{} of {} replies/s; put off {} times; {} ms from due to reply at the 99th percentile of those delivered once",
            rate(outcome.rate()),
            rate(plan.rate),
            count(outcome.put_off),
            three_figures(outcome.latency_at_once.p99 as f64 / 1e6)
        ),
        Step::Number(0) => format!(
            "{} fetched from the slow store, {} replies a second",
            count(outcome.misses),
            rate(outcome.rate())
        ),
        Step::Number(3 | 4) => format!(
            "{}: up to {} commands in flight, memory grew by {}, {} of {} replies/s",
            plan.threads(),
            count(outcome.in_flight_peak),
            outcome.rss_growth_bytes.map_or_else(String::new, mebibytes),
            rate(outcome.rate()),
            rate(plan.rate)
        ),
        Step::Number(6) => format!(
            "{}: up to {} commands in flight, {} of {} replies/s",
            plan.threads(),
            count(outcome.in_flight_peak),
            rate(outcome.rate()),
            rate(plan.rate)
        ),
        Step::Number(5) if plan.mode == Mode::Ours => format!(
            "{} look-ups shed and tried again, {} notifications lost, up to {} in flight",
            count(outcome.shed),
            count(outcome.lost),
            count(outcome.in_flight_peak)
        ),
        Step::Number(5) => format!(
            "{} shed, {} lost, up to {} in flight",
            count(outcome.shed),
            count(outcome.lost),
            count(outcome.in_flight_peak)
        ),
        Step::Number(9) => match outcome.skew() {
            Some(skew) if plan.mode == Mode::Ours => format!(
                "the hot key is answered in the process: the busiest connection has {skew:.1} times the \
                 others' look-ups"
            ),
            Some(skew) => format!(
                "the busiest connection has {skew:.1} times the others' look-ups (n + 1 = {})",
                plan.redis_threads + 1
            ),
            None => "there is one connection".to_owned(),
        },
        Step::Number(10) => {
            let skew = outcome.skew().unwrap_or(1.0);
            format!(
                "connections are even ({skew:.1} times), up to {} notifications in the mailboxes, {} \
                 replies a second",
                count(outcome.mailbox_peak),
                rate(outcome.rate())
            )
        }
        Step::End => format!(
            "idle it uses {} of a core, and {} replies a second",
            outcome
                .idle_cpu_percent
                .map_or_else(String::new, |percent| format!("{percent:.1} %")),
            rate(outcome.rate())
        ),
        Step::Number(_) => format!(
            "wait {} ms, lifetime {} ms at the 99th percentile, {} lost",
            three_figures(outcome.wait.p99 as f64 / 1e6),
            three_figures(outcome.lifetime.p99 as f64 / 1e6),
            count(outcome.lost)
        ),
    };
    format!("{}: {what}", plan.title())
}
