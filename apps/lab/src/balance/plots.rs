//! The plots and the table of one run.

use freeboard::meter::WorkerState;

use super::{outcome::Outcome, watch::Point};
use crate::{
    figures::{count, counted, hundredths, seconds, short},
    plot::{self, Axis, Bar, Bars, Series},
    scene::Rows,
    section::{Figure, Side},
    table::unseen,
};

/// Queues, workers' time, and the processes' elapsed times.
pub(crate) fn figures(outcome: &Outcome, side: Side) -> Vec<Figure> {
    let is_plain = outcome.plan.is_plain();
    let queues =
        (outcome.plan.native == super::plan::NativeKind::Cpu).then(|| queues(outcome, side));
    let elapsed = is_plain.then(|| elapsed_times(&outcome.plan.title(), &outcome.elapsed, side));
    let all = queues
        .into_iter()
        .chain([utilisation(outcome, side)])
        .chain(elapsed);
    all.collect()
}

fn queues(outcome: &Outcome, side: Side) -> Figure {
    let points = &outcome.seen.points;
    let series = |name, length: &dyn Fn(&Point) -> Option<u64>| Series {
        name,
        points: points
            .iter()
            .filter_map(|point| Some((point.at.as_secs_f64(), length(point)? as f64)))
            .collect(),
    };
    let shared = series("shared".to_owned(), &|point| Some(point.shared));
    let of_worker = |worker: usize| {
        series(format!("worker {worker}"), &|point| {
            point.queues.get(worker).copied()
        })
    };
    let series: Vec<Series> = (0..outcome.plan.schedulers)
        .map(of_worker)
        .chain([shared])
        .collect();
    let x = Axis {
        unit: 0.001,
        ..Axis::linear("seconds", short)
    };
    let y = Axis::linear("processes queued", short).reaching(f64::from(outcome.plan.procs));
    let scheduler = &outcome.scheduler;
    let note = match scheduler.collapses {
        0 => "No worker was seen asleep while there was work.".to_owned(),
        collapses => format!(
            "{} a worker was seen asleep beside work; the monitor woke one {}: {:.1} ms of workers' time lost.",
            counted(collapses, "time"),
            counted(scheduler.forced_wakes, "time"),
            scheduler.wasted_core_ns as f64 / 1e6
        ),
    };
    Figure {
        side,
        title: format!("Processes in queues: {}", outcome.plan.title()),
        note,
        svg: plot::lines("lengths of the queues over time", x, y, &series),
    }
}

fn utilisation(outcome: &Outcome, side: Side) -> Figure {
    let legend = WorkerState::ALL.map(WorkerState::name);
    let bars = outcome.workers.iter().map(|worker| Bar {
        name: format!("worker {}", worker.index),
        parts: WorkerState::ALL
            .map(|state| worker.times.of(state) as f64)
            .into(),
        note: format!("{:.1} %", worker.times.utilisation() * 100.0),
        ..Bar::default()
    });
    let bars = Bars {
        legend: &legend,
        bars: bars.collect(),
        reach: 0.0,
    };
    Figure {
        side,
        title: format!("Where each worker's time went: {}", outcome.plan.title()),
        note: format!(
            "Percent of its time in use; {} in all.",
            seconds(outcome.makespan)
        ),
        svg: plot::bars("each worker's time by state", &bars),
    }
}

/// Until each process was through; the quickest first.
pub(super) fn elapsed_times(title: &str, elapsed: &[f64], side: Side) -> Figure {
    let mut sorted = elapsed.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let points = sorted.iter().enumerate();
    let points = points.map(|(rank, time)| (rank as f64 + 1.0, *time));
    let series = Series {
        name: "seconds until it was through".to_owned(),
        points: points.collect(),
    };
    let y = Axis {
        unit: 0.001,
        ..Axis::linear("seconds", short)
    };
    let x = Axis::linear("processes, the quickest first", short);
    Figure {
        side,
        title: format!("When each process was through: {title}"),
        note: "A flat line is a fair scheduler.".to_owned(),
        svg: plot::lines("elapsed time by rank", x, y, &[series]),
    }
}

/// What each worker did, the header first.
pub(crate) fn workers(outcome: &Outcome) -> Rows {
    let title = outcome.plan.title();
    let header = [
        title.as_str(),
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
                format!("worker {}", worker.index),
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
