//! The goodput scene: a service under more load than it can take, and how many answers still come in time.
//!
//! Requests come in an open loop: each is due at its own time, whether or not the ones before were answered.
//!
//! ```text
//!   schedule ──▶ client ──▶ mailbox (one of six sides) ──▶ service (200 us of one core)
//!                  ▲                                           │
//!                  └── in time | late | refused | expired ◄────┘
//! ```

mod account;
mod args;
mod client;
mod run;
mod service;

use std::{ops::Range, time::Duration};

use anyhow::Result;
use serde::Serialize;

use crate::{
    figures::{Unit, count, short, three_figures},
    memory,
    outputs::OutputArgs,
    plot::{self, Axis, Scale, Series},
    scene::{About, Calls, Chart, Contrast, Measure, Published, Run, Scene, Stage},
    section::{Figure, Side},
};
use account::{Account, Counts};
pub(crate) use args::GoodputArgs;
pub(crate) use client::arrivals;
use run::Plan;
use service::Mailbox;

/// One run. Rates and times are those of requests that were due in the middle three fifths of the load: at first the
/// queue fills, and what it holds in the end is answered without further load.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Record {
    side: Mailbox,
    /// The load as a multiple of the capacity.
    factor: f64,
    capacity_per_s: f64,
    offered_per_s: f64,
    /// Answers in time.
    goodput_per_s: f64,
    late_per_s: f64,
    refused_per_s: f64,
    expired_per_s: f64,
    /// In the whole run.
    lost: u64,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    rss_peak_bytes: Option<u64>,
    /// After the load has dropped; null if answers did not become timely again.
    recovered_s: Option<f64>,
    /// Of urgent requests, the share that was answered in time; null if they have no lane of their own.
    urgent_goodput_share: Option<f64>,
    /// Those of which the rates are.
    measured: Counts,
    /// The recovery included.
    all: Counts,
}

impl Record {
    fn new(plan: &Plan, capacity: f64, account: &Account, measured: &Range<Duration>) -> Self {
        let counts = account.counts(measured);
        let seconds = (measured.end - measured.start).as_secs_f64();
        let rate = |count: u64| count as f64 / seconds;
        let [p50_ms, p99_ms] = account.percentiles_ms(measured, [0.5, 0.99]);
        let all = account.counts(&(Duration::ZERO..Duration::MAX));
        let urgent = account.urgent_share(measured);
        Self {
            side: plan.side,
            factor: plan.factor,
            capacity_per_s: capacity,
            offered_per_s: rate(counts.offered),
            goodput_per_s: rate(counts.in_time),
            late_per_s: rate(counts.late),
            refused_per_s: rate(counts.refused),
            expired_per_s: rate(counts.expired),
            lost: all.lost,
            p50_ms,
            p99_ms,
            rss_peak_bytes: memory::peak_bytes(),
            recovered_s: account.recovered_s(plan.time),
            urgent_goodput_share: urgent.filter(|_| plan.side.has_urgent_lane()),
            measured: counts,
            all,
        }
    }
}

const fn per_second(name: &'static str, value: fn(&Record) -> Option<f64>) -> Measure<Record> {
    Measure::new(name, Unit::PerSecond("/s"), value)
}

const GOODPUT: Measure<Record> = Measure::new("goodput", Unit::PerSecond("answers/s"), |it| {
    Some(it.goodput_per_s)
});

impl Scene for GoodputArgs {
    type Record = Record;
    type Prepared = Vec<Plan>;

    const ABOUT: About = About {
        name: "goodput",
        title: "Goodput",
        lead: "A service of one core gets up to ten times the requests that it can answer; only an answer before its \
            deadline counts.",
        original: "A service that is asked for more than it can answer works on requests whose clients have given up, \
            so that it is fully busy and nothing of its work is of use. Facebook described this, with queues that are \
            kept short and last-in first-out order as its remedies, in \"Fail at Scale\" (ACM Queue, 2015).",
        legend: "Requests of the first and the last fifth of a load are not in these figures. goodput: answers before \
            the deadline, counted from the time at which the request was due. late: answered after the deadline, or \
            still queued when the run ended. refused: the queue was full, a newer request took the place, the limit was reached, or the request was shed \
            because it had waited too long. expired: \
            dropped unhandled because the deadline had passed. p50, p99: from due to answer, of the requests in time \
            and late; of a request that was still queued, its age when the run ended, so the true figure is larger. \
            recovered: from the drop of the load to half the capacity until the first of 20 requests in a row that \
            were answered in time was due; without a figure, that did not happen. memory: the most that the process had, clients included.",
    };
    const REPORT: Calls = Calls {
        about: "answers in time when ten times too much is asked for",
        seconds: 42,
        full: &[""],
        quick: &["--factor 0.5,5 --time 0.3 --recovery 0.1"],
    };
    const MEASURES: &'static [Measure<Record>] = &[
        per_second("offered", |it| Some(it.offered_per_s)),
        GOODPUT,
        per_second("late", |it| Some(it.late_per_s)),
        per_second("refused", |it| Some(it.refused_per_s)),
        per_second("expired", |it| Some(it.expired_per_s)),
        Measure::new("lost", Unit::Count, |it| Some(it.lost as f64)),
        Measure::new("p50", Unit::Milliseconds, |it| it.p50_ms),
        Measure::new("p99", Unit::Milliseconds, |it| it.p99_ms),
        Measure::new("urgent\nin time", Unit::Percent, |it| {
            Some(it.urgent_goodput_share? * 100.0)
        }),
        Measure::new("recovered", Unit::Milliseconds, |it| {
            Some(it.recovered_s? * 1e3)
        }),
        Measure::new("memory", Unit::Mebibytes, |it| {
            Some(it.rss_peak_bytes? as f64 / f64::from(1 << 20))
        }),
    ];
    const CHARTS: &'static [Chart<Record>] = &[];
    const PUBLISHED: &'static [Published<Record>] = &[];

    fn outputs(&self) -> &OutputArgs {
        &self.outputs
    }

    fn prepare(&self) -> Result<Vec<Plan>> {
        self.plans()
    }

    fn play(&self, plans: Vec<Plan>, stage: &mut Stage<'_, Record>) -> Result<()> {
        let Some(first) = plans.first() else {
            return Ok(());
        };
        let console = stage.console.clone();
        let _listening = stage.interrupt.listen(move || {
            console.line("Ctrl-C: nothing more is sent (again: exit at once)");
        });
        let capacity = run::capacity(first, stage.interrupt)?;
        stage.console.line(&format!(
            "capacity: {} answers/s of one core",
            three_figures(capacity)
        ));
        stage.run_each(&plans, |plan, console, interrupt| {
            let run = run::run(plan, capacity, interrupt)?;
            console.line(&line(&run));
            Ok(run)
        })?;
        Ok(())
    }

    /// At the largest load that both have run.
    fn contrast(runs: &[Run<Record>]) -> Option<Contrast<'_, Record>> {
        let of = |side| runs.iter().filter(move |it| it.record.side == side);
        let cure = |failure: &Run<Record>| {
            of(Mailbox::Deadline).find(|it| it.record.factor == failure.record.factor)
        };
        let overloaded = of(Mailbox::Unbounded).filter(|it| it.record.factor > 1.0);
        let (failure, cure) = overloaded
            .filter_map(|failure| Some((failure, cure(failure)?)))
            .max_by(|(one, _), (other, _)| one.record.factor.total_cmp(&other.record.factor))?;
        Some(Contrast {
            measure: &GOODPUT,
            failure,
            cure,
        })
    }

    fn claim(contrast: &Contrast<'_, Record>) -> String {
        let [failure, cure] = contrast.texts();
        format!(
            "With {} times the requests that it can answer, a service gives {failure} in time behind an unbounded \
             mailbox, and {cure} if requests carry deadlines and the queue is shorter than they are.",
            short(contrast.failure.record.factor)
        )
    }

    fn figures(runs: &[Run<Record>]) -> Vec<Figure> {
        let x = Axis::linear("offered load, in capacities", short);
        let y = Axis::linear("answers in time, per second", short);
        let latency = Axis {
            scale: Scale::Logarithmic,
            ..Axis::linear("99th percentile, ms", short)
        };
        let figure = |title: &str, note: &str, y, value: fn(&Record) -> Option<f64>| {
            let series = series(runs, value);
            let has_lines = series.iter().any(|it| it.points.len() > 1);
            has_lines.then(|| Figure {
                side: Side::of_all(runs.iter().map(|it| it.side)),
                title: title.to_owned(),
                note: note.to_owned(),
                svg: plot::lines(title, x, y, &series),
            })
        };
        let goodput = figure(
            "Goodput over offered load",
            "Answers before the deadline. A side that keeps its goodput has a flat line to the right of 1.",
            y,
            |it| Some(it.goodput_per_s),
        );
        let latency = figure(
            "Latency over offered load",
            "From the time at which a request was due to its answer, of those that were not refused and did not \
             expire.",
            latency,
            |it| it.p99_ms,
        );
        goodput.into_iter().chain(latency).collect()
    }

    fn environment(runs: &[Run<Record>]) -> Vec<(&'static str, String)> {
        let capacity = runs.first().map(|it| it.record.capacity_per_s);
        let text = |capacity| format!("{} answers/s", three_figures(capacity));
        capacity
            .map(|it| ("capacity", text(it)))
            .into_iter()
            .collect()
    }

    fn remarks(runs: &[Run<Record>]) -> Vec<String> {
        let mut remarks = kept(runs);
        let largest = runs.iter().map(|it| it.record.factor).fold(0.0, f64::max);
        let urgent = runs.iter().filter(|it| it.record.factor == largest);
        remarks.extend(urgent.filter_map(|it| {
            let share = it.record.urgent_goodput_share?;
            Some(format!(
                "{}: at {} x the capacity {} % of the urgent requests, a tenth of all, were answered in time.",
                it.record.side.name(),
                short(largest),
                three_figures(share * 100.0)
            ))
        }));
        let all = runs.iter().map(|it| it.record.all);
        let (offered, lost) = all.fold((0, 0), |sums, it| (sums.0 + it.offered, sums.1 + it.lost));
        if offered > 0 && lost == 0 {
            remarks.push(format!(
                "whole: each of {} requests was answered in time or late, refused, or expired; none was lost.",
                count(offered)
            ));
        }
        remarks
    }
}

/// The sides that were run, each once.
fn sides(runs: &[Run<Record>]) -> Vec<Mailbox> {
    let mut sides: Vec<Mailbox> = runs.iter().map(|it| it.record.side).collect();
    sides.dedup();
    sides
}

/// A line for each side.
fn series(runs: &[Run<Record>], value: fn(&Record) -> Option<f64>) -> Vec<Series> {
    let of = |side| {
        let records = runs.iter().map(|it| &it.record);
        let records = records.filter(move |it| it.side == side);
        let mut points: Vec<(f64, f64)> = records
            .filter_map(|it| Some((it.factor, value(it)?)))
            .collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        points
    };
    let line = |side: Mailbox| Series {
        name: side.name().to_owned(),
        points: of(side),
    };
    sides(runs).into_iter().map(line).collect()
}

/// What each side keeps of its peak at its largest load, if that is an overload.
fn kept(runs: &[Run<Record>]) -> Vec<String> {
    let sentence = |it: Series| {
        let (factor, last) = it.points.last().copied()?;
        let peak = it.points.iter().map(|it| it.1).fold(0.0, f64::max);
        (factor > 1.0 && it.points.len() > 1 && peak > 0.0).then(|| {
            format!(
                "{}: at {} x the capacity it keeps {} % of its peak goodput.",
                it.name,
                short(factor),
                three_figures(last / peak * 100.0)
            )
        })
    };
    let series = series(runs, |it| Some(it.goodput_per_s));
    series.into_iter().filter_map(sentence).collect()
}

fn line(run: &Run<Record>) -> String {
    let it = &run.record;
    let [offered, goodput, late, refused, expired] = [
        it.offered_per_s,
        it.goodput_per_s,
        it.late_per_s,
        it.refused_per_s,
        it.expired_per_s,
    ]
    .map(three_figures);
    format!(
        "{}: offered {offered}/s, in time {goodput}/s, late {late}/s, refused {refused}/s, expired {expired}/s",
        run.title
    )
}
