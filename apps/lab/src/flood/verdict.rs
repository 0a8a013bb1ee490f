//! What the runs show, in words.

use super::{
    knobs::{DamRule, Receive, SinkKind},
    plan::Plan,
    run::{Ending, Outcome},
};
use crate::figures::{count, rate, seconds, two_figures};

/// Said before a run.
pub(crate) fn opening(plan: &Plan, number: usize, runs: usize) -> String {
    let what = match (plan.dam, plan.receive) {
        (None, Receive::Scan) => "the original: each answer is searched for in the mailbox",
        (None, Receive::Indexed) => "each answer has a slot of its own",
        (Some(DamRule::Poll { .. }), _) => "the original's dam: checks the queue, and sleeps",
        (Some(DamRule::Credit { .. }), _) => "a dam of credit: no looking, no sleeping",
    };
    let limit = match plan.limit {
        Some(limit) => format!("; stopped after {}", seconds(limit.as_secs_f64())),
        None => String::new(),
    };
    let hold = if plan.hold {
        "; all is queued before the server begins"
    } else {
        ""
    };
    format!(
        "\n[{number}/{runs}] {}: {what}\n      {} senders, {} lines{hold}{limit}",
        plan.title(),
        count(u64::from(plan.senders)),
        count(plan.total()),
    )
}

/// Said after a run.
pub(crate) fn closing(outcome: &Outcome) -> String {
    let record = &outcome.record;
    let time = seconds(record.seconds);
    let written = count(record.written);
    let how = match &outcome.ending {
        Ending::Drained => format!("      {written} lines in {time}"),
        Ending::Limit(_) => format!("      stopped: {written} lines in {time}"),
        Ending::Interrupted => format!(
            "      interrupted: {} lines accepted, {written} written in {time}, {} left",
            count(record.accepted),
            count(record.shed),
        ),
        Ending::Failed(_) => return format!("      failed: {}", failure(outcome)),
    };
    format!("{how}\n      {}", outcome.verdict.finding())
}

/// A run whose sink failed, in one line.
pub(crate) fn failure(outcome: &Outcome) -> String {
    let record = &outcome.record;
    let reason = match &outcome.ending {
        Ending::Failed(reason) => reason.as_str(),
        _ => "no failure",
    };
    let refused = match outcome.refused {
        0 => String::new(),
        refused => format!(
            "; {} senders were refused, and sent no more",
            count(refused)
        ),
    };
    format!(
        "the sink failed: {reason}: {} lines were written, the other {} that were accepted were \
         not{refused}",
        count(record.written),
        count(record.shed),
    )
}

/// The runs' rates behind a full queue, answers searched for and answers in slots.
pub(crate) fn rates_deep(outcomes: &[Outcome]) -> Option<(f64, f64)> {
    let of = |receive| {
        let mut direct = outcomes.iter().filter(|it| it.plan.dam.is_none());
        direct
            .find(|it| it.plan.receive == receive)?
            .record
            .drain_rate_deep
    };
    Some((of(Receive::Scan)?, of(Receive::Indexed)?))
}

/// Said at the end.
pub(crate) fn verdict(outcomes: &[Outcome]) -> Vec<String> {
    let mut texts: Vec<String> = outcomes
        .iter()
        .filter(|outcome| !matches!(outcome.ending, Ending::Failed(_)))
        .map(|outcome| match (outcome.plan.dam, outcome.plan.receive) {
            (None, Receive::Scan) => of_scan(outcome, outcomes),
            (None, Receive::Indexed) => of_indexed(outcome),
            (Some(rule), _) => of_dam(outcome, rule),
        })
        .collect();
    let is_whole = |outcome: &Outcome| {
        outcome.verdict.is_whole() && !matches!(outcome.ending, Ending::Failed(_))
    };
    if !outcomes.is_empty() && outcomes.iter().all(is_whole) {
        texts.push(if outcomes.len() == 1 {
            format!("whole: {}.", outcomes[0].verdict.finding())
        } else {
            "whole: in each run, what was accepted is accounted for to the line, and what was \
             written was read back once, in each sender's order."
                .to_owned()
        });
    }
    texts
}

fn of_scan(scan: &Outcome, outcomes: &[Outcome]) -> String {
    if scan.plan.sink == SinkKind::None {
        return "scan: without a sink there is no answer to search for, so nothing collapses; the \
                original saw the same."
            .to_owned();
    }
    let record = &scan.record;
    let Some(deep) = record.drain_rate_deep else {
        return "scan: too little was written behind a full queue to tell; try --hold.".to_owned();
    };
    let mut text = format!(
        "scan: with more than {} lines queued the server wrote {} lines/s",
        count(scan.plan.total() * 9 / 10),
        rate(deep)
    );
    if let Ending::Limit(_) = scan.ending {
        let whole = scan.plan.total() as f64 / deep;
        text += &format!(
            "; at that rate the flood would take {} more",
            seconds(whole - record.written as f64 / deep)
        );
    }
    if let Some(shallow) = record.drain_rate_shallow {
        text += &format!(
            ", with less than {} it wrote {}: {:.3} x",
            count(scan.plan.total().div_ceil(100)),
            rate(shallow),
            deep / shallow
        );
    }
    let indexed = outcomes
        .iter()
        .find(|other| other.plan.dam.is_none() && other.plan.receive == Receive::Indexed);
    if let Some(indexed) = indexed.and_then(|indexed| indexed.record.drain_rate_deep) {
        text += &format!(
            ". Indexed wrote {} behind the same queue: about {} times as fast",
            rate(indexed),
            rate(two_figures(indexed / deep))
        );
    }
    text + "."
}

fn of_indexed(outcome: &Outcome) -> String {
    let record = &outcome.record;
    let total = outcome.plan.total();
    match (record.drain_rate_deep, record.drain_rate_shallow) {
        (Some(deep), Some(shallow)) if outcome.plan.hold => format!(
            "indexed: {} lines/s with more than {} queued, {} with less than {}: deep over shallow \
             {:.2}. The length of the queue {}.",
            rate(deep),
            count(total * 9 / 10),
            rate(shallow),
            count(total.div_ceil(100)),
            deep / shallow,
            match deep / shallow {
                0.8.. => "costs nothing",
                0.5..0.8 => "costs little",
                _ => "slows the server down",
            }
        ),
        _ => format!(
            "indexed: the server's queue reached {} lines, and all was written in {}; --hold shows \
             the rate behind a full queue.",
            count(record.peak_queue.server),
            seconds(record.seconds)
        ),
    }
}

fn of_dam(outcome: &Outcome, rule: DamRule) -> String {
    let record = &outcome.record;
    let peaks = format!(
        "the dam held up to {} lines, the server never more than {}",
        count(record.peak_queue.dam),
        count(record.peak_queue.server)
    );
    let title = outcome.plan.title();
    match rule {
        DamRule::Poll { threshold, wait } => {
            let at_most = threshold as f64 / wait.as_secs_f64();
            let rate_seen = record.written as f64 / record.seconds;
            let why = if record.peak_queue.server <= threshold {
                "the server kept up, so the dam never slept".to_owned()
            } else if rate_seen < at_most * 2.0 {
                format!(
                    "once it sleeps it lets through about threshold / wait = {} lines/s, whatever \
                     the server could take",
                    rate(at_most)
                )
            } else {
                "at times the dam slept while the server had nothing to do".to_owned()
            };
            format!(
                "{title}: {peaks}; {} in all: {why}.",
                seconds(record.seconds)
            )
        }
        DamRule::Credit { .. } => format!(
            "{title}: {peaks}; {} in all. Credit comes back as lines are written: the server \
             sets the pace.",
            seconds(record.seconds)
        ),
    }
}
