//! What a run shows, in words.

use super::{
    knobs::{DamRule, Receive, SinkKind},
    outcome::{Ending, Outcome},
    plan::Plan,
};
use crate::figures::{count, seconds, three_figures};

/// Said before a run.
pub(super) fn opening(plan: &Plan) -> String {
    let what = match (plan.dam, plan.receive) {
        (None, Receive::Scan) => "the original: the server scans its mailbox for each reply",
        (None, Receive::Indexed) => "each reply has its own slot",
        (Some(DamRule::Poll { .. }), _) => "the original's dam: checks the queue, and sleeps",
        (Some(DamRule::Credit { .. }), _) => {
            "a dam with credit: the server returns credit as it writes"
        }
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
        "{}: {what}\n      {} senders, {} lines{hold}{limit}",
        plan.title(),
        count(u64::from(plan.senders)),
        count(plan.total()),
    )
}

/// Said after a run.
pub(super) fn closing(outcome: &Outcome) -> String {
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
pub(super) fn failure(outcome: &Outcome) -> String {
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

/// What a run shows beyond its figures.
pub(super) fn remarks(outcome: &Outcome) -> Vec<String> {
    let plan = &outcome.plan;
    let mut remarks = Vec::new();
    match (&outcome.ending, plan.dam, plan.receive) {
        (Ending::Failed(_), _, _) => return remarks,
        (_, None, Receive::Scan) if plan.sink == SinkKind::None => remarks.push(
            "without a sink there is no reply to scan for, so nothing collapses; the original saw the same."
                .to_owned(),
        ),
        (Ending::Limit(_), None, Receive::Scan) => remarks.extend(collapse(outcome)),
        (_, Some(DamRule::Poll { threshold, wait }), _) => {
            let at_most = threshold as f64 / wait.as_secs_f64();
            let seen = outcome.record.rate() / at_most;
            let title = plan.title();
            if outcome.record.peak_queue.server <= threshold {
                remarks.push(format!("{title}: the server kept up, so the dam never slept."));
            } else if (0.5..2.0).contains(&seen) {
                let at_most = three_figures(at_most);
                remarks.push(format!(
                    "{title}: a dam that sleeps lets through about threshold / wait = {at_most} lines/s."
                ));
            }
        }
        _ => {}
    }
    if outcome.verdict.is_whole() {
        remarks.push(format!(
            "whole: {}: {}.",
            plan.title(),
            outcome.verdict.finding()
        ));
    }
    remarks
}

/// How long the whole flood would take.
fn collapse(outcome: &Outcome) -> Option<String> {
    let record = &outcome.record;
    let deep = record.drain_rate_deep?;
    let left = outcome.plan.total() - record.written;
    Some(format!(
        "{}: with more than {} lines queued the server wrote {} lines/s; at that rate the rest would take {}.",
        outcome.plan.title(),
        count(outcome.plan.total() * 9 / 10),
        three_figures(deep),
        seconds(left as f64 / deep)
    ))
}
