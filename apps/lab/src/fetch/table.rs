//! The table that compares the runs with what the original measured.

use freeboard::meter::HistogramSummary;

use super::{plan::Plan, run::Outcome};
use crate::{
    figures::{count, mebibytes, rate},
    table::unseen,
};

const COLUMNS: usize = 17;
/// Those that the original's figures are set against.
const COMPARED: [&str; 11] = [
    "step", "whose", "m/r", "sent/s", "wait", "lifetime", "in queue", "send", "shed", "lost",
    "memory",
];

/// What the measures are that do not speak for themselves.
pub(super) const LEGEND: &str = "times are 99th percentiles in ms; m/r: main actors and redis actors (in ours, \
    connections to Redis); wait: from when a notification was due to its start; lifetime: from there to the \
    confirm of its reply; send: from the write of a look-up to its answer; shed: look-ups refused as too much was \
    in flight (lost in the original, tried again in ours); left: not done when the fetcher ended, and still there";

/// A row for each step of the original's and for each run, the header first.
pub(super) fn rows(outcomes: &[Outcome]) -> Vec<Vec<String>> {
    let header: [&str; COLUMNS] = [
        "step", "whose", "m/r", "sent/s", "done/s", "wait", "lifetime", "reply", "in queue",
        "send", "tell", "shed", "left", "lost", "memory", "CPU us", "idle CPU",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    let mut step = None;
    for outcome in outcomes {
        if step != Some(outcome.plan.step) {
            step = Some(outcome.plan.step);
            rows.push(of_original(&outcome.plan));
        }
        rows.push(row(outcome));
    }
    rows
}

/// The same rows with fewer columns.
pub(super) fn compared(outcomes: &[Outcome]) -> Vec<Vec<String>> {
    let rows = rows(outcomes);
    let header = rows[0].clone();
    let fewer = |row: Vec<String>| {
        let named = header.iter().zip(row);
        let kept = named.filter(|(name, _)| COMPARED.contains(&name.as_str()));
        kept.map(|(_, cell)| cell).collect()
    };
    rows.into_iter().map(fewer).collect()
}

/// The original's, as published: 99th percentiles in milliseconds.
fn of_original(plan: &Plan) -> Vec<String> {
    let (knobs, figures) = (plan.step.knobs(), plan.step.of_original());
    let ms = |ms: Option<f64>| ms.map_or_else(unseen, |ms| count(ms as u64));
    let mut row = vec![
        plan.step.to_string(),
        "2014".to_owned(),
        format!("{}/{}", knobs.mains, knobs.redis_threads),
        rate(knobs.rate),
        unseen(),
        ms(figures.wait),
        ms(figures.lifetime),
        unseen(),
        ms(figures.in_queue),
        ms(figures.from_send),
        ms(figures.from_tell),
    ];
    row.resize_with(COLUMNS, unseen);
    row
}

/// A run's.
fn row(outcome: &Outcome) -> Vec<String> {
    let plan = &outcome.plan;
    let p99 = |summary: &HistogramSummary| match summary.count {
        0 => unseen(),
        _ => milliseconds(summary.p99),
    };
    let percent = |percent: f64| format!("{percent:.0} %");
    vec![
        plan.step.to_string(),
        plan.mode.name().to_owned(),
        format!("{}/{}", plan.mains, plan.redis_threads),
        rate(outcome.sent_rate()),
        rate(outcome.rate()),
        p99(&outcome.wait),
        p99(&outcome.lifetime),
        p99(&outcome.latency),
        p99(&outcome.in_queue),
        p99(&outcome.from_send),
        p99(&outcome.from_tell),
        count(outcome.shed),
        count(outcome.left + outcome.dead + outcome.unfinished),
        count(outcome.lost),
        outcome.rss_peak_bytes.map_or_else(unseen, mebibytes),
        outcome
            .cpu_us_per_message
            .map_or_else(unseen, |us| format!("{us:.0}")),
        outcome.idle_cpu_percent.map_or_else(unseen, percent),
    ]
}

/// As many digits as say something.
pub(super) fn milliseconds(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    match ms {
        100.0.. => count(ms.round() as u64),
        10.0.. => format!("{ms:.0}"),
        _ => format!("{ms:.1}"),
    }
}
