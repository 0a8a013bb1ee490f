//! The scene's section: each step in original mode and in Freeboard mode, on the same axes.

use super::{
    plan::{Mode, Plan},
    run::Outcome,
    table, verdict,
};
use crate::{
    figures::{count, rate, seconds, times},
    plot::{self, Bar, Bars},
    section::{Figure, Headline, Section, Side},
};

const LEAD: &str = "A push-notification fetcher, tuned in eleven steps.";

const ORIGINAL: &str = "A Java service, 2014: actors with a thread and a ring each, a pipelined Redis client, a \
    leased cache. At 10,000 notifications a second memory went to 15 GB: the client's queue of commands in flight \
    had no bound, and more threads spun than there were cores. Bounded, it shed 761,222 look-ups, and what was shed \
    was lost. One hot key had one of n actors do n + 1 times the others' work; and idle it used 60 % of a processor.";

/// What is compared between runs: title, note, value, and how that is written.
type Measure = (
    &'static str,
    &'static str,
    fn(&Outcome) -> Option<f64>,
    fn(f64) -> String,
);

const MEASURES: [Measure; 4] = [
    (
        "Until the reply",
        "99th percentile in milliseconds, from when a notification was due; what was lost has none.",
        |it| Some(it.latency.p99 as f64 / 1e6),
        rate,
    ),
    (
        "Commands in flight to Redis",
        "The most that was seen.",
        |it| Some(it.in_flight_peak as f64),
        rate,
    ),
    (
        "Notifications lost",
        "Seen nowhere again: acknowledged, and never replied to.",
        |it| Some(it.lost as f64),
        |lost| count(lost as u64),
    ),
    (
        "Processor time of a notification",
        "In microseconds.",
        |it| it.cpu_us_per_message,
        rate,
    ),
];

/// What the runs came to.
pub(super) fn section(outcomes: &[Outcome]) -> Section {
    let steps = outcomes.iter().map(|it| {
        let sentence = verdict::sentence(it);
        format!("step {}, {}", it.plan.step, sentence.trim_start())
    });
    Section {
        title: "Fetch",
        lead: LEAD,
        original: ORIGINAL,
        headline: headline(outcomes).unwrap_or_default(),
        verdict: sentence(outcomes).unwrap_or_else(|| verdict::verdict(outcomes).join("; ")),
        figures: MEASURES
            .iter()
            .flat_map(|it| figures(outcomes, it))
            .collect(),
        comparison: table::compared(outcomes),
        details: steps.collect(),
        tables: vec![table::rows(outcomes)],
        legend: table::LEGEND,
        parameters: outcomes
            .first()
            .map_or_else(Vec::new, |it| parameters(&it.plan)),
    }
}

fn of(outcomes: &[Outcome], mode: Mode) -> impl Iterator<Item = &Outcome> {
    outcomes.iter().filter(move |it| it.plan.mode == mode)
}

/// All steps together, as they were or as they are: how many were sent, how many of them were lost, and the
/// worst latency in nanoseconds.
fn totals(outcomes: &[Outcome], mode: Mode) -> Option<(u64, u64, u64)> {
    let sum = |value: fn(&Outcome) -> u64| of(outcomes, mode).map(value).sum();
    let worst = of(outcomes, mode).map(|it| it.latency.p99).max()?;
    Some((sum(|it| it.sent), sum(|it| it.lost), worst))
}

fn both(outcomes: &[Outcome]) -> Option<[(u64, u64, u64); 2]> {
    Some([
        totals(outcomes, Mode::Original)?,
        totals(outcomes, Mode::Ours)?,
    ])
}

fn headline(outcomes: &[Outcome]) -> Option<Headline> {
    let [original, ours] = both(outcomes)?;
    let text = |(sent, lost, latency)| {
        format!(
            "{} of {} lost; replies up to {} ms late (p99)",
            count(lost),
            count(sent),
            table::milliseconds(latency)
        )
    };
    Some(Headline {
        failure: text(original),
        cure: text(ours),
        ratio: times(original.2 as f64 / ours.2.max(1) as f64),
    })
}

fn sentence(outcomes: &[Outcome]) -> Option<String> {
    let [original, ours] = both(outcomes)?;
    Some(format!(
        "In original mode, {} of {} notifications were lost, and replies came up to {} ms late (p99); in Freeboard mode, {} of {} \
         were, and {} ms.",
        count(original.1),
        count(original.0),
        table::milliseconds(original.2),
        count(ours.1),
        count(ours.0),
        table::milliseconds(ours.2)
    ))
}

/// A measure of the original's runs, and beside it that of ours.
fn figures(outcomes: &[Outcome], (title, note, value, write): &Measure) -> Vec<Figure> {
    let bars = |mode| -> Vec<Bar> {
        let found = of(outcomes, mode).filter_map(|it| Some((it, value(it)?)));
        found
            .map(|(it, value)| Bar {
                name: format!("step {}", it.plan.step),
                parts: vec![value],
                note: write(value),
                ..Bar::default()
            })
            .collect()
    };
    let [was, is] = [Mode::Original, Mode::Ours].map(|mode| Bars {
        bars: bars(mode),
        ..Bars::default()
    });
    // At their worst; where one of them did not run, there is nothing to compare.
    let sides = if was.bars.is_empty() || is.bars.is_empty() {
        [Side::Neither; 2]
    } else {
        Side::pair(was.longest(), is.longest())
    };
    let longest = was.longest().max(is.longest());
    let both = [
        (was, sides[0], "original mode"),
        (is, sides[1], "Freeboard mode"),
    ];
    let both = both.map(|(bars, side, whose)| {
        let bars = Bars {
            reach: longest,
            ..bars
        };
        let title = format!("{title}, {whose}");
        (!bars.bars.is_empty()).then(|| Figure {
            side,
            svg: plot::bars(&title, &bars),
            title,
            note: (*note).to_owned(),
        })
    });
    both.into_iter().flatten().collect()
}

fn parameters(plan: &Plan) -> Vec<(&'static str, String)> {
    vec![
        ("users", count(plan.users)),
        ("sent for", seconds(plan.time.as_secs_f64())),
        (
            "a question to the database takes",
            format!("{} us", count(plan.sql_time.as_micros() as u64)),
        ),
    ]
}
