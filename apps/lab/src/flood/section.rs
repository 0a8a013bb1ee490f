//! The scene's section: queues over time, with and without what makes the server collapse.

use super::{
    knobs::{DamRule, Receive},
    monitor::Point,
    run::Outcome,
    table, verdict,
};
use crate::{
    figures::{count, counted, rate, seconds, short, times},
    plot::{self, Axis, Scale, Series},
    section::{Figure, Headline, Section, Side, rows},
};

const LEAD: &str = "A log server behind a flooded mailbox, and the dam that saves it.";

const ORIGINAL: &str = "An Erlang log server, 2019: 100 senders told it 10,000 lines each, and it waited for the \
    answer to each write by a search through all of its mailbox. Behind 999,200 queued lines it wrote 68 to 72 \
    lines a second, with one core at 100.9 %. A dam before it kept its queue at 9,223 to 9,784 lines, but looked \
    and slept instead of being told, and drained about 7,550 lines a second.";

/// What the runs came to.
pub(crate) fn section(outcomes: &[Outcome]) -> Section {
    let texts = verdict::verdict(outcomes);
    Section {
        title: "The flood",
        lead: LEAD,
        original: ORIGINAL,
        headline: headline(outcomes),
        verdict: sentence(outcomes, &texts),
        figures: figures(outcomes),
        comparison: comparison(outcomes),
        details: texts,
        tables: vec![table::rows(outcomes)],
        legend: table::LEGEND,
        parameters: parameters(outcomes),
    }
}

fn headline(outcomes: &[Outcome]) -> Headline {
    let Some((scan, indexed)) = verdict::rates_deep(outcomes) else {
        return Headline::default();
    };
    Headline {
        failure: format!("{} lines/s behind a full mailbox", rate(scan)),
        cure: format!("{} lines/s behind the same one", rate(indexed)),
        ratio: times(indexed / scan),
    }
}

fn sentence(outcomes: &[Outcome], texts: &[String]) -> String {
    let Some((scan, indexed)) = verdict::rates_deep(outcomes) else {
        return texts.first().cloned().unwrap_or_default();
    };
    let credit = outcomes
        .iter()
        .find(|it| matches!(it.plan.dam, Some(DamRule::Credit { .. })));
    let dam = credit.map_or_else(String::new, |it| {
        format!(
            "; and a dam of credit never let more than {} lines stand before the server",
            count(it.record.peak_queue.server)
        )
    });
    format!(
        "With nine tenths of the flood still queued the server writes {} lines a second if it searches for each \
         answer, and {} if each answer has a slot of its own{dam}.",
        rate(scan),
        rate(indexed)
    )
}

/// Both queues of each run over time, on the same axes.
fn figures(outcomes: &[Outcome]) -> Vec<Figure> {
    let last = |outcome: &Outcome| outcome.points.last().map_or(0.0, |it| it.at.as_secs_f64());
    let time = outcomes.iter().map(last).fold(0.0, f64::max);
    let lines = outcomes.iter().map(|it| it.plan.total()).max();
    let lines = lines.unwrap_or(0) as f64;
    let direct = verdict::rates_deep(outcomes).map_or([Side::Neither; 2], |(scan, indexed)| {
        Side::pair(indexed, scan)
    });
    outcomes
        .iter()
        .map(|outcome| Figure {
            side: side(outcome, direct),
            title: outcome.plan.title(),
            note: note(outcome),
            svg: queues(outcome, time, lines),
        })
        .collect()
}

/// What a run shows, if those without a dam show failure and cure like this.
fn side(outcome: &Outcome, [scan, indexed]: [Side; 2]) -> Side {
    match (outcome.plan.dam, outcome.plan.receive) {
        (None, Receive::Scan) => scan,
        (None, Receive::Indexed) => indexed,
        (Some(DamRule::Poll { .. }), _) => Side::Original,
        (Some(DamRule::Credit { .. }), _) => {
            let flood = outcome.plan.total() as f64;
            let [_, held] = Side::pair(flood, outcome.record.peak_queue.server as f64);
            held
        }
    }
}

fn note(outcome: &Outcome) -> String {
    let record = &outcome.record;
    let how = match (outcome.plan.dam, outcome.plan.receive) {
        (None, Receive::Scan) => "Each answer is searched for in the mailbox",
        (None, Receive::Indexed) => "Each answer has a slot of its own",
        (Some(DamRule::Poll { .. }), _) => {
            "The original's dam checks the queue behind it, and sleeps"
        }
        (Some(DamRule::Credit { .. }), _) => "Credit comes back as lines are written",
    };
    match (outcome.plan.dam, record.drain_rate_deep) {
        (None, None) => format!("{how}."),
        (None, Some(deep)) => format!("{how}: it drains {} lines a second.", rate(deep)),
        (Some(_), _) => format!(
            "{how}: the server's queue is never longer than {}; {} written in {}.",
            count(record.peak_queue.server),
            counted(record.written, "line"),
            seconds(record.seconds)
        ),
    }
}

/// Both queues over time, on axes as long as all runs need; the dam's only if there is one.
fn queues(outcome: &Outcome, time: f64, lines: f64) -> maud::Markup {
    let series = |name: &str, length: fn(&Point) -> u64| Series {
        name: name.to_owned(),
        points: outcome
            .points
            .iter()
            .map(|point| (point.at.as_secs_f64(), length(point) as f64))
            .collect(),
    };
    let server = series("the server's queue", |point| point.server);
    let series = match outcome.plan.dam {
        None => vec![server],
        Some(_) => vec![server, series("the dam's", |point| point.dam)],
    };
    let x = Axis {
        unit: 0.001,
        ..Axis::linear("seconds", short).reaching(time)
    };
    let y = Axis {
        scale: Scale::Logarithmic,
        ..Axis::linear("queued lines, logarithmic", short).reaching(lines)
    };
    let title = format!("{}: queued lines over time", outcome.plan.title());
    plot::lines(&title, x, y, &series)
}

fn comparison(outcomes: &[Outcome]) -> Vec<Vec<String>> {
    let direct = |receive| {
        let mut found = outcomes.iter().filter(|it| it.plan.dam.is_none());
        found.find(|it| it.plan.receive == receive)
    };
    let dam = |is_poll: bool| {
        outcomes.iter().find(|it| match it.plan.dam {
            None => false,
            Some(rule) => matches!(rule, DamRule::Poll { .. }) == is_poll,
        })
    };
    let row = |name: &str,
               original: &str,
               run: Option<&Outcome>,
               value: fn(&Outcome) -> Option<String>| {
        let value = value(run?)?;
        Some([name.to_owned(), original.to_owned(), value])
    };
    let deep = |it: &Outcome| it.record.drain_rate_deep.map(rate);
    let over_shallow = |it: &Outcome| {
        let record = &it.record;
        Some(format!(
            "{:.2}",
            record.drain_rate_deep? / record.drain_rate_shallow?
        ))
    };
    let server = |it: &Outcome| Some(count(it.record.peak_queue.server));
    let reservoir = |it: &Outcome| Some(count(it.record.peak_queue.dam));
    let drained = |it: &Outcome| Some(rate(it.record.written as f64 / it.record.seconds.max(1e-9)));
    let found = [
        row(
            "scan: lines/s, > 90 % queued",
            "68 to 72 (OTP 25.2, two cores: 93 to 106)",
            direct(Receive::Scan),
            deep,
        ),
        row(
            "indexed: lines/s, > 90 % queued",
            "-",
            direct(Receive::Indexed),
            deep,
        ),
        row(
            "indexed: > 90 % over < 1 % queued",
            "-",
            direct(Receive::Indexed),
            over_shallow,
        ),
        row("polling dam: lines/s", "about 7,550", dam(true), drained),
        row(
            "polling dam: its longest queue",
            "666,000",
            dam(true),
            reservoir,
        ),
        row(
            "polling dam: the server's longest",
            "9,784",
            dam(true),
            server,
        ),
        row("credit dam: lines/s", "-", dam(false), drained),
        row("credit dam: its longest queue", "-", dam(false), reservoir),
        row("credit dam: the server's longest", "-", dam(false), server),
    ];
    rows(
        ["", "the original", "here"],
        found.into_iter().flatten().collect(),
    )
}

fn parameters(outcomes: &[Outcome]) -> Vec<(&'static str, String)> {
    let Some(first) = outcomes.first() else {
        return Vec::new();
    };
    let plan = &first.plan;
    let mut parameters = vec![
        ("senders", count(u64::from(plan.senders))),
        ("lines of each", count(plan.messages())),
        ("sink", format!("{:?}", plan.sink).to_lowercase()),
    ];
    for outcome in outcomes {
        let hold = if outcome.plan.hold {
            "all is queued before the server begins"
        } else {
            "senders and server run side by side"
        };
        let limit = outcome.plan.limit.map_or_else(String::new, |limit| {
            format!("; stopped after {}", seconds(limit.as_secs_f64()))
        });
        parameters.push(("run", format!("{}: {hold}{limit}", outcome.plan.title())));
    }
    parameters
}
