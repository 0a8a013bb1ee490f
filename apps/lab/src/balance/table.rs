//! The scene's tables: what the run came to, and what each worker did.

use freeboard::meter::WorkerState;

use super::{
    record::Elapsed,
    run::{Ending, Outcome},
};
use crate::{
    figures::{count, hundredths},
    table::unseen,
};

/// What the measures are that do not speak for themselves.
pub(crate) const LEGEND: &str = "elapsed: from the release of all processes to the end of each; \
     ideal: the processor time used, spread evenly over the workers on-line (no more than the cores)";

/// What the run came to, the header first.
pub(crate) fn measures(outcome: &Outcome) -> Vec<Vec<String>> {
    let elapsed = Elapsed::of(&outcome.elapsed);
    let scheduler = &outcome.scheduler;
    let of_elapsed =
        |time: fn(Elapsed) -> f64| elapsed.map_or_else(unseen, |it| hundredths(time(it)));
    let ended = match outcome.ending {
        Ending::Done => "all processes",
        Ending::Interrupted => "Ctrl-C",
    };
    let rows = [
        ("measure", "value".to_owned()),
        ("ended", ended.to_owned()),
        ("elapsed, min", of_elapsed(|it| it.min)),
        ("elapsed, median", of_elapsed(|it| it.median)),
        ("elapsed, max", of_elapsed(|it| it.max)),
        (
            "max / min",
            elapsed.map_or_else(unseen, |it| format!("{:.2}", it.max_over_min())),
        ),
        ("makespan", hundredths(outcome.makespan)),
        (
            "processor time",
            outcome.processor_seconds.map_or_else(unseen, hundredths),
        ),
        (
            "makespan / ideal",
            outcome
                .makespan_over_ideal()
                .map_or_else(unseen, |it| format!("{it:.3}")),
        ),
        ("native calls", count(outcome.calls)),
        ("rescues", count(scheduler.rescues)),
        (
            "rescue delay, p99",
            outcome
                .rescue_delay_p99_ns()
                .map_or_else(unseen, |ns| milliseconds(ns as f64)),
        ),
        ("collapses", count(scheduler.collapses)),
        (
            "collapse seen after, max",
            if scheduler.collapses > 0 {
                milliseconds(scheduler.collapse_detect_ns_max as f64)
            } else {
                unseen()
            },
        ),
        (
            "asleep while there was work",
            milliseconds(scheduler.wasted_core_ns as f64),
        ),
    ];
    rows.map(|(name, value)| vec![name.to_owned(), value])
        .into()
}

fn milliseconds(ns: f64) -> String {
    format!("{:.2} ms", ns / 1e6)
}

/// What each worker did, the header first.
pub(crate) fn workers(outcome: &Outcome) -> Vec<Vec<String>> {
    let header = [
        "worker",
        "in use",
        "run",
        "blocked",
        "park",
        "offline",
        "steals",
        "native calls",
        "MBytes",
    ];
    let header = header.map(str::to_owned).into();
    let rows = outcome
        .workers
        .iter()
        .zip(&outcome.calls_by_worker)
        .map(|(worker, calls)| {
            let time = |state| hundredths(worker.times.of(state) as f64 / 1e9);
            vec![
                worker.index.to_string(),
                format!("{:.1} %", worker.times.utilisation() * 100.0),
                time(WorkerState::Run),
                time(WorkerState::Blocked),
                time(WorkerState::Park),
                time(WorkerState::Offline),
                count(worker.steals),
                count(*calls),
                outcome
                    .plan
                    .mebibytes(*calls)
                    .map_or_else(unseen, |it| format!("{it:.1}")),
            ]
        });
    std::iter::once(header).chain(rows).collect()
}
