//! The author's question, answered by the runs: when does eager help, and what does it cost?

use super::{Record, Workload};
use crate::{
    figures::{Unit, count, three_figures},
    scene::Run,
    section::Side,
};

/// Fewer rounds do not tell a difference from chance.
const ROUNDS_MIN: u32 = 3;

/// One computing time in the sweep, under the policies that were run.
struct Point<'a> {
    cpu_us: u64,
    eager: &'a Record,
    lazy: &'a Record,
    all: Vec<&'a Record>,
}

/// Marks failure and cure: at a computing time at which each round of eager is quicker than each of lazy. Returns the
/// longest such time, whose runs are compared.
pub(super) fn tell_sides(runs: &mut [Run<Record>]) -> Option<u64> {
    let helped: Vec<u64> = points(runs)
        .into_iter()
        .filter(|it| is_decided(it.eager) && is_quicker(it.eager, it.lazy))
        .map(|it| it.cpu_us)
        .collect();
    let compared_us = helped.iter().copied().max();
    for run in runs.iter_mut().filter(|it| it.record.is_sweep()) {
        run.record.is_compared = compared_us == Some(run.record.cpu_us);
        if helped.contains(&run.record.cpu_us) {
            run.side = match run.record.poll.as_str() {
                "lazy" => Side::Failure,
                "eager" => Side::Cure,
                _ => Side::Neither,
            };
        }
    }
    compared_us
}

/// The answer, if the runs give one.
pub(super) fn answer(runs: &[Run<Record>]) -> Vec<String> {
    let points = points(runs);
    let Some(first) = points.first() else {
        return Vec::new();
    };
    let mut answer = vec![help(&points)];
    answer.extend(points.iter().map(|point| {
        let name = format!(
            "With {} of computing per request, beside actors that only compute",
            us(point.cpu_us as f64)
        );
        latencies(&name, &point.all)
    }));
    for workload in [Workload::Short, Workload::Kept] {
        let all: Vec<&Record> = runs.iter().map(|it| &it.record).collect();
        let all: Vec<&Record> = all
            .into_iter()
            .filter(|it| it.workload == workload && it.cpu_us == 0)
            .collect();
        if all.len() > 1 {
            let name = format!("With no computing ({})", workload.name());
            answer.push(latencies(&name, &all));
        }
    }
    answer.push(cost(first));
    answer
}

fn points(runs: &[Run<Record>]) -> Vec<Point<'_>> {
    let sweep = || runs.iter().map(|it| &it.record).filter(|it| it.is_sweep());
    let mut costs: Vec<u64> = sweep().map(|it| it.cpu_us).collect();
    costs.dedup();
    let point = |cpu_us| {
        let all: Vec<&Record> = sweep().filter(|it| it.cpu_us == cpu_us).collect();
        let find = |poll| all.iter().copied().find(|it| it.poll == poll);
        Some(Point {
            cpu_us,
            eager: find("eager")?,
            lazy: find("lazy")?,
            all,
        })
    };
    costs.into_iter().filter_map(point).collect()
}

/// Whether there were enough rounds to tell a difference from chance.
fn is_decided(record: &Record) -> bool {
    record.rounds.count >= ROUNDS_MIN
}

/// Whether each round of one was quicker than each of the other.
fn is_quicker(one: &Record, other: &Record) -> bool {
    one.rounds.p99_us.1 < other.rounds.p99_us.0
}

fn us(value: f64) -> String {
    Unit::Microseconds.text(value)
}

fn ms(value_us: f64) -> String {
    Unit::Milliseconds.text(value_us / 1e3)
}

/// Words as in "a, b and c".
fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// The computing times at which it holds, in words.
fn at(points: &[Point<'_>], is: impl Fn(&Point<'_>) -> bool) -> Option<String> {
    let found = points.iter().filter(|point| is(point));
    let names: Vec<String> = found.map(|point| count(point.cpu_us)).collect();
    (!names.is_empty()).then(|| format!("at {} us of computing per request", listed(&names)))
}

fn help(points: &[Point<'_>]) -> String {
    const QUESTION: &str = "When does eager help?";
    if !points.iter().all(|it| is_decided(it.eager)) {
        return format!("{QUESTION} One round decides nothing; --rounds {ROUNDS_MIN} does.");
    }
    let helps = at(points, |it| is_quicker(it.eager, it.lazy));
    let hurts = at(points, |it| is_quicker(it.lazy, it.eager));
    const BESIDE: &str = "Beside actors that only compute its p99 is";
    match (helps, hurts) {
        (Some(helps), Some(hurts)) => {
            format!("{QUESTION} {BESIDE} below lazy's in each round {helps}, and above it {hurts}.")
        }
        (Some(helps), None) => {
            format!(
                "{QUESTION} {BESIDE} below lazy's in each round {helps}: where all workers compute, eager keeps I/O from \
                 starving."
            )
        }
        (None, Some(hurts)) => {
            format!("{QUESTION} Nowhere here. {BESIDE} above lazy's in each round {hurts}.")
        }
        (None, None) => {
            format!("{QUESTION} Nowhere here. {BESIDE} not on one side of lazy's in each round.")
        }
    }
}

/// Latency and processor time of each policy.
fn latencies(name: &str, records: &[&Record]) -> String {
    let p99: Vec<String> = records
        .iter()
        .map(|it| format!("{} under {}", ms(it.latency_us.p99), it.poll))
        .collect();
    let cpu: Vec<String> = records
        .iter()
        .filter_map(|it| Some(format!("{} under {}", us(it.cpu_us_per_request?), it.poll)))
        .collect();
    let cpu = match cpu.as_slice() {
        [] => String::new(),
        cpu => format!(" CPU time per request: {}.", listed(cpu)),
    };
    format!("{name}, p99 is {}.{cpu}", listed(&p99))
}

/// Where a request computes least, the cost of polling shows best.
fn cost(point: &Point<'_>) -> String {
    let costs: Vec<String> = point
        .all
        .iter()
        .map(|it| {
            let (least, most) = it.rounds.cpu_us;
            let cpu = it.cpu_us_per_request.map_or_else(String::new, |_| {
                format!(
                    " and {} to {} of CPU time per request",
                    three_figures(least),
                    us(most)
                )
            });
            let polls = it.polls_per_second().map_or(0.0, |it| it);
            format!("{} makes {} polls/s{cpu}", it.poll, three_figures(polls))
        })
        .collect();
    format!(
        "What does it cost? With {} of computing per request: {}.",
        us(point.cpu_us as f64),
        costs.join("; ")
    )
}
