//! What the runs show, in words.

use super::{
    answer,
    plan::{BackendKind, Workload},
    run::Outcome,
};
use crate::figures::{count, rate};

/// What the original saw in its test A.
const ORIGINAL_HTTP: &str = "The original (OTP 17.4, ab -c 60 -n 100000): with eager check I/O 13.6 % of \
    30,700,000 attempts to poll found something, without it 6.5 % of 36,110,000, with 1.11 times the polls; \
    time and requests a second within 0.5 %.";

/// What the original saw in its test B.
const ORIGINAL_PROXY: &str = "The original's proxy in front of MySQL: with eager check I/O 21 % of \
    72,090,000 attempts to poll found something, without it 20.5 % of 72,170,000; 18 min 17 s and 18 min 12 s, \
    processors in full use in both.";

/// Said after a run: the counters in the original's form.
pub(super) fn lines(outcome: &Outcome) -> [String; 3] {
    let polls = outcome.poller.polls();
    [
        format!(
            "  {} requests/s, p50 {} us, p99 {} us, readiness to run p99 {} us",
            rate(outcome.rate()),
            count(outcome.asked.p50_us.round() as u64),
            count(outcome.asked.p99_us.round() as u64),
            count((outcome.poller.readiness_to_run.p99 as f64 / 1e3).round() as u64)
        ),
        format!(
            "  counts: {} {} {} {} {}",
            polls.attempts,
            polls.won_idle_lazy,
            polls.won_busy_lazy,
            polls.won_idle_eager,
            polls.won_busy_eager
        ),
        format!(
            "  check: {} {} {}",
            polls.nonwait + polls.wait,
            polls.nonwait,
            polls.wait
        ),
    ]
}

/// Said at the end.
pub(super) fn verdict(outcomes: &[Outcome]) -> Vec<String> {
    let mut texts = Vec::new();
    let mut workloads: Vec<Workload> = outcomes.iter().map(|it| it.plan.workload).collect();
    workloads.dedup();
    workloads.retain(|workload| !matches!(workload, Workload::Sweep { .. }));
    for workload in workloads {
        let of: Vec<&Outcome> = outcomes
            .iter()
            .filter(|it| it.plan.workload == workload)
            .collect();
        if of.len() > 1 {
            let figures: Vec<String> = of
                .iter()
                .map(|it| {
                    let polls = it.poller.polls();
                    let won = 100.0 * polls.won() as f64 / polls.attempts.max(1) as f64;
                    let rate = rate(it.rate());
                    format!(
                        "{} {rate} requests/s, {won:.0} % of attempts won",
                        it.plan.policy
                    )
                })
                .collect();
            texts.push(format!("{}: {}.", workload.name(), figures.join("; ")));
        }
    }
    if let Some(answer) = answer::answer(outcomes) {
        texts.extend(answer.figures);
        texts.extend([answer.help, answer.cost]);
    }
    let has = |is: fn(&Workload) -> bool| outcomes.iter().any(|it| is(&it.plan.workload));
    if has(|workload| matches!(workload, Workload::Short | Workload::Kept)) {
        texts.push(ORIGINAL_HTTP.to_owned());
    }
    if has(|workload| *workload == Workload::Proxy(BackendKind::Mariadb)) {
        texts.push(ORIGINAL_PROXY.to_owned());
    }
    texts
}
