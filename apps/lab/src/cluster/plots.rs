//! The plots of a run: goodput and latency over time, and who keeps how much in which epochs.

use std::time::Duration;

use super::{
    args::Plan,
    client::Asked,
    process::name,
    run::{BIN, Event, Kept},
};
use crate::{
    figures::{count, percentile_ms, short},
    plot::{self, Axis, Scale, Series},
    section::{Figure, Side},
};

const SECONDS: Axis = Axis::linear("seconds", short);

/// The sorted times from due to answer of those that were answered in time.
pub(super) fn latencies<'a>(asked: impl Iterator<Item = &'a Asked>) -> Vec<Duration> {
    let in_time = asked.filter(|it| it.error.is_none());
    let mut all: Vec<Duration> = in_time.map(|it| it.ended - it.due).collect();
    all.sort_unstable();
    all
}

/// The reports that were due in each part of a run, by its middle.
fn bins<'a>(plan: &Plan, asked: &'a [Asked]) -> Vec<(f64, &'a [Asked])> {
    let mut bins = Vec::new();
    let mut begin = Duration::ZERO;
    while begin < plan.time() {
        let end = begin + BIN;
        let from = asked.partition_point(|it| it.due < begin);
        let to = asked.partition_point(|it| it.due < end);
        bins.push(((begin + BIN / 2).as_secs_f64(), &asked[from..to]));
        begin = end;
    }
    bins
}

pub(super) fn all(
    plan: &Plan,
    side: Side,
    asked: &[Asked],
    events: &[Event],
    kept: &[Kept],
) -> Vec<Figure> {
    let deeds: Vec<_> = events
        .iter()
        .map(|it| format!("{} {} at {:.1} s", it.process, it.deed.name(), it.at_s))
        .collect();
    let note = deeds.join(", ");
    let figure = |title: &str, y, series: &[Series]| {
        let title = format!("{title}: {}", plan.title());
        Figure {
            side,
            svg: plot::lines(&title, SECONDS, y, series),
            title,
            note: note.clone(),
        }
    };
    let bins = bins(plan, asked);
    let rate = |name: &str, is_counted: fn(&Asked) -> bool| Series {
        name: name.to_owned(),
        points: bins
            .iter()
            .map(|(at, asked)| {
                let counted = asked.iter().filter(|it| is_counted(it)).count();
                (*at, counted as f64 / BIN.as_secs_f64())
            })
            .collect(),
    };
    let rates = [
        rate("offered", |_| true),
        rate("answered in time", |it| it.error.is_none()),
    ];
    let latency = |name: &str, share: f64| Series {
        name: name.to_owned(),
        points: bins
            .iter()
            .filter_map(|(at, asked)| Some((*at, percentile_ms(&latencies(asked.iter()), share)?)))
            .collect(),
    };
    let latencies = [latency("p50", 0.5), latency("p99", 0.99)];
    let processes = kept
        .iter()
        .map(|it| it.process)
        .max()
        .map_or(0, |it| it + 1);
    let partitions: Vec<_> = (0..processes)
        .map(|process| Series {
            name: name(process),
            points: kept
                .iter()
                .filter(|it| it.process == process)
                .map(|it| (it.at_s, it.partitions as f64))
                .collect(),
        })
        .collect();
    let mut newest = 0;
    let epochs = Series {
        name: "the newest epoch".to_owned(),
        points: kept
            .iter()
            .map(|it| {
                newest = newest.max(it.revision);
                (it.at_s, newest as f64)
            })
            .collect(),
    };
    let whole = |value: f64| count(value as u64);
    vec![
        figure(
            "reports per second",
            Axis::linear("reports/s", whole),
            &rates,
        ),
        figure(
            "time from due to answer",
            Axis {
                scale: Scale::Logarithmic,
                unit: 0.1,
                ..Axis::linear("ms, logarithmic", short)
            },
            &latencies,
        ),
        figure(
            "partitions that a process keeps",
            Axis::linear("partitions", whole),
            &partitions,
        ),
        figure("epochs", Axis::linear("revision", whole), &[epochs]),
    ]
}
