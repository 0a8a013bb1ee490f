//! The author's question, answered by the sweep: when does eager help, and what does it cost?

use super::Record;
use crate::{
    figures::{count, three_figures},
    scene::Run,
    section::Side,
};

/// Fewer rounds do not tell a difference from chance.
const ROUNDS_MIN: u32 = 3;

/// One computing time in the sweep, under all policies that were run.
struct Point<'a> {
    cpu_us: u64,
    eager: &'a Record,
    drain: &'a Record,
    dedicated: Option<&'a Record>,
}

/// Marks failure and cure: at a computing time at which each round of one policy is quicker than each of the other.
pub(super) fn tell_sides(runs: &mut [Run<Record>]) {
    let quicker: Vec<u64> = points(runs)
        .into_iter()
        .filter(|it| is_decided(it.eager) && is_quicker(it.eager, it.drain))
        .map(|it| it.cpu_us)
        .collect();
    for run in runs {
        if run.record.is_sweep() && quicker.contains(&run.record.cpu_us) {
            run.side = match run.record.poll {
                "drain" => Side::Failure,
                "eager" => Side::Cure,
                _ => Side::Neither,
            };
        }
    }
}

/// The answer, if the runs give one.
pub(super) fn answer(runs: &[Run<Record>]) -> Vec<String> {
    let points = points(runs);
    if points.is_empty() {
        return Vec::new();
    }
    vec![help(&points), cost(&points[0])]
}

fn points(runs: &[Run<Record>]) -> Vec<Point<'_>> {
    let sweep = || runs.iter().map(|it| &it.record).filter(|it| it.is_sweep());
    let mut costs: Vec<u64> = sweep().map(|it| it.cpu_us).collect();
    costs.dedup();
    let find = |poll, cpu_us| sweep().find(|it| (it.poll, it.cpu_us) == (poll, cpu_us));
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

/// Whether there were enough rounds to tell a difference from chance.
fn is_decided(record: &Record) -> bool {
    record.rounds.count >= ROUNDS_MIN
}

/// Whether each round of one was quicker than each of the other.
fn is_quicker(one: &Record, other: &Record) -> bool {
    one.rounds.p99_us.1 < other.rounds.p99_us.0
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
            "Nowhere here: at no computing time is its p99 below or above drain's in each round."
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

/// Where a request computes least, the cost of polling shows best.
fn cost(point: &Point<'_>) -> String {
    let all = [Some(point.eager), Some(point.drain), point.dedicated];
    let costs: Vec<String> = all
        .into_iter()
        .flatten()
        .map(|it| {
            let cpu = it.cpu_us_per_request.map_or_else(String::new, |us| {
                let (least, most) = it.rounds.cpu_us;
                let [us, least, most] = [us, least, most].map(three_figures);
                format!(", {us} us of processor time a request ({least} to {most})")
            });
            let polls = three_figures(it.polls_per_second());
            format!("{} {polls} polls/s{cpu}", it.poll)
        })
        .collect();
    format!(
        "What does it cost? At {} us of computing: {}.",
        count(point.cpu_us),
        costs.join("; ")
    )
}
