//! The author's question, answered by the sweep: when does eager help, and what does it cost?

use super::{plan::Bed, run::Outcome};
use crate::figures::count;

/// Two latencies this far apart count as different: rounds of one policy differ by less.
const DIFFERENT: f64 = 1.5;

/// One computing time in the sweep, under all policies that were run.
struct Point<'a> {
    cpu_us: u64,
    eager: &'a Outcome,
    drain: &'a Outcome,
    dedicated: Option<&'a Outcome>,
}

/// The answer, as far as the runs give it.
pub(super) fn answer(outcomes: &[Outcome]) -> Vec<String> {
    let points = points(outcomes);
    let mut texts: Vec<String> = points.iter().map(figures).collect();
    if points.is_empty() {
        return texts;
    }
    texts.push(help(&points));
    texts.push(cost(&points));
    texts
}

fn points(outcomes: &[Outcome]) -> Vec<Point<'_>> {
    let sweep: Vec<&Outcome> = outcomes
        .iter()
        .filter(|it| matches!(it.plan.bed, Bed::Sweep { .. }))
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
    let p99 = |outcome: &Outcome| format!("{} us", count(outcome.asked.p99_us.round() as u64));
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

fn help(points: &[Point<'_>]) -> String {
    let ratio = |point: &Point<'_>| point.drain.asked.p99_us / point.eager.asked.p99_us.max(1.0);
    let where_is = |is: &dyn Fn(f64) -> bool| {
        let found = points.iter().filter(|point| is(ratio(point)));
        let names: Vec<String> = found.map(|point| count(point.cpu_us)).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let helps = where_is(&|ratio| ratio >= DIFFERENT);
    let hurts = where_is(&|ratio| ratio <= 1.0 / DIFFERENT);
    let and_hurts = hurts
        .as_ref()
        .map_or_else(String::new, |at| format!(", and loses it at {at} us"));
    match helps {
        Some(at) => format!(
            "When does eager help? At {at} us of computing a request its p99 is lower than drain's by a \
             factor of {DIFFERENT} or more{and_hurts}; elsewhere they are alike."
        ),
        None => format!(
            "When does eager help? Nowhere here: its p99 is never lower than drain's by a factor of \
             {DIFFERENT}{and_hurts}. Both look between two runs, and a run ends after its budget; what \
             is found waits for the run before it, not for the look."
        ),
    }
}

fn cost(points: &[Point<'_>]) -> String {
    let middle = |value: &dyn Fn(&Point<'_>) -> Option<f64>| {
        let mut values: Vec<f64> = points.iter().filter_map(value).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len().saturating_sub(1) / 2).copied()
    };
    let looks = middle(&|it| Some(it.eager.look_rate() / it.drain.look_rate().max(1.0)));
    let computing =
        |it: &Outcome, than: &Outcome| it.chewed_seconds / than.chewed_seconds.max(1e-9);
    let left = middle(&|it| Some(computing(it.eager, it.drain)));
    let cpu = |it: &Outcome, than: &Outcome| Some(it.cpu_us()? - than.cpu_us()?);
    let eager_us = middle(&|it| cpu(it.eager, it.drain));
    let dedicated_us = middle(&|it| cpu(it.dedicated?, it.drain));
    let mut text = format!(
        "What does it cost? {:.1} times drain's looks, {:+.1} us of processor time a request; the others \
         compute {:.2} times as much as beside drain.",
        looks.unwrap_or(0.0),
        eager_us.unwrap_or(0.0),
        left.unwrap_or(0.0)
    );
    if let Some(us) = dedicated_us {
        text += &format!(" A dedicated thread costs {us:+.1} us a request.");
    }
    text
}
