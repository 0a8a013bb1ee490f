//! The author's question, answered by the sweep: when does eager help, and what does it cost?

use super::{plan::Workload, run::Outcome};
use crate::figures::count;

/// Fewer rounds do not tell a difference from chance.
const ROUNDS_MIN: u32 = 3;

/// One computing time in the sweep, under all policies that were run.
struct Point<'a> {
    cpu_us: u64,
    eager: &'a Outcome,
    drain: &'a Outcome,
    dedicated: Option<&'a Outcome>,
}

/// What the sweep says, in words.
pub(super) struct Answer {
    /// Of each computing time.
    pub(super) figures: Vec<String>,
    pub(super) help: String,
    pub(super) cost: String,
}

/// The answer, if the runs give one.
pub(super) fn answer(outcomes: &[Outcome]) -> Option<Answer> {
    let points = points(outcomes);
    (!points.is_empty()).then(|| Answer {
        figures: points.iter().map(figures).collect(),
        help: help(&points),
        cost: cost(&points),
    })
}

fn points(outcomes: &[Outcome]) -> Vec<Point<'_>> {
    let sweep: Vec<&Outcome> = outcomes
        .iter()
        .filter(|it| matches!(it.plan.workload, Workload::Sweep { .. }))
        .collect();
    let mut costs: Vec<u64> = sweep.iter().map(|it| it.plan.cpu_us).collect();
    costs.dedup();
    let find = |name: &str, cpu_us: u64| {
        let mut all = sweep.iter().copied();
        all.find(|it| it.plan.policy.name() == name && it.plan.cpu_us == cpu_us)
    };
    let point = |cpu_us| {
        Some(Point {
            cpu_us,
            eager: find("eager", cpu_us)?,
            drain: find("drain", cpu_us)?,
            dedicated: find("dedicated", cpu_us),
        })
    };
    costs.into_iter().filter_map(point).collect()
}

fn figures(point: &Point<'_>) -> String {
    let p99 = |outcome: &Outcome| {
        let whole = |us: f64| count(us.round() as u64);
        let (least, most) = outcome.p99_range_us;
        let range = if outcome.plan.rounds > 1 {
            format!(" ({} to {})", whole(least), whole(most))
        } else {
            String::new()
        };
        format!("{} us{range}", whole(outcome.asked.p99_us))
    };
    let dedicated = point
        .dedicated
        .map_or_else(String::new, |it| format!(", dedicated {}", p99(it)));
    format!(
        "{} us of computing a request, beside actors that only compute: p99 eager {}, drain {}{dedicated}.",
        count(point.cpu_us),
        p99(point.eager),
        p99(point.drain)
    )
}

/// Whether there were rounds enough to tell a difference from chance.
pub(super) fn is_decided(outcome: &Outcome) -> bool {
    outcome.plan.rounds >= ROUNDS_MIN
}

/// Whether each round of one was quicker than each of the other.
pub(super) fn is_quicker(one: &Outcome, other: &Outcome) -> bool {
    one.p99_range_us.1 < other.p99_range_us.0
}

/// The computing times at which it holds, in words.
fn at(points: &[Point<'_>], is: impl Fn(&Point<'_>) -> bool) -> Option<String> {
    let found = points.iter().filter(|point| is(point));
    let names: Vec<String> = found.map(|point| count(point.cpu_us)).collect();
    (!names.is_empty()).then(|| format!("at {} us", names.join(", ")))
}

fn help(points: &[Point<'_>]) -> String {
    const QUESTION: &str = "When does eager help?";
    if !points.iter().all(|it| is_decided(it.eager)) {
        return format!("{QUESTION} One round decides nothing; --rounds {ROUNDS_MIN} does.");
    }
    let helps = at(points, |it| is_quicker(it.eager, it.drain));
    let hurts = at(points, |it| is_quicker(it.drain, it.eager));
    let answer = match (helps, hurts) {
        (Some(helps), Some(hurts)) => {
            format!("In each round its p99 is below drain's {helps}, and above it {hurts}.")
        }
        (Some(helps), None) => format!("In each round its p99 is below drain's {helps}."),
        (None, Some(hurts)) => {
            format!("Nowhere here; in each round its p99 is above drain's {hurts}.")
        }
        (None, None) => {
            "Nowhere here: at no computing time is its p99 below drain's, or above it, in \
            each round. Neither policy is seen to go wrong."
                .to_owned()
        }
    };
    let dedicated = at(points, |it| {
        it.dedicated
            .is_some_and(|dedicated| is_quicker(dedicated, it.eager))
    });
    let dedicated = dedicated.map_or_else(String::new, |at| {
        format!(" A dedicated thread's p99 is below eager's {at}.")
    });
    format!("{QUESTION} {answer}{dedicated}")
}

fn cost(points: &[Point<'_>]) -> String {
    let polls = |it: &Outcome| count(it.poll_rate().round() as u64);
    // Where the request itself computes least, the rest is seen best.
    let point = &points[0];
    let all = [Some(point.eager), Some(point.drain), point.dedicated];
    let costs: Vec<String> = all
        .into_iter()
        .flatten()
        .map(|it| {
            let cpu = it.cpu_us().map_or_else(String::new, |us| {
                let (least, most) = it.cpu_range_us;
                format!(", {us:.1} us of processor time a request ({least:.1} to {most:.1})")
            });
            format!("{} {} polls a second{cpu}", it.plan.policy, polls(it))
        })
        .collect();
    format!(
        "What does it cost? At {} us of computing: {}.",
        count(point.cpu_us),
        costs.join("; ")
    )
}
