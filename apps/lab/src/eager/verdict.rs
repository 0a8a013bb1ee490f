//! What the runs show, in words.

use super::{
    answer,
    plan::{BackendKind, Bed},
    run::Outcome,
};
use crate::figures::{count, rate};

/// What the original saw in its test A.
const ORIGINAL_HTTP: &str = "The original (OTP 17.4, ab -c 60 -n 100000): with eager check I/O 13.6 % of \
    30,700,000 attempts to look found something, without it 6.5 % of 36,110,000, with 1.11 times the looks; \
    time and requests a second within 0.5 %.";

/// What the original saw in its test B.
const ORIGINAL_PROXY: &str = "The original's proxy in front of MySQL: with eager check I/O 21 % of \
    72,090,000 attempts to look found something, without it 20.5 % of 72,170,000; 18 min 17 s and 18 min 12 s, \
    processors in full use in both.";

/// Said after a run: the counters in the original's form.
pub(super) fn lines(outcome: &Outcome) -> [String; 3] {
    let looks = outcome.poller.polls();
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
            looks.attempts,
            looks.won_idle_lazy,
            looks.won_busy_lazy,
            looks.won_idle_eager,
            looks.won_busy_eager
        ),
        format!(
            "  check: {} {} {}",
            looks.nonwait + looks.wait,
            looks.nonwait,
            looks.wait
        ),
    ]
}

/// Said at the end.
pub(super) fn verdict(outcomes: &[Outcome]) -> Vec<String> {
    let mut texts = Vec::new();
    let mut beds: Vec<Bed> = outcomes.iter().map(|it| it.plan.bed).collect();
    beds.dedup();
    beds.retain(|bed| !matches!(bed, Bed::Sweep { .. }));
    for bed in beds {
        let of: Vec<&Outcome> = outcomes.iter().filter(|it| it.plan.bed == bed).collect();
        if of.len() > 1 {
            let figures: Vec<String> = of
                .iter()
                .map(|it| {
                    let looks = it.poller.polls();
                    let won = 100.0 * looks.won() as f64 / looks.attempts.max(1) as f64;
                    let rate = rate(it.rate());
                    format!(
                        "{} {rate} requests/s, {won:.0} % of attempts won",
                        it.plan.policy
                    )
                })
                .collect();
            texts.push(format!("{}: {}.", bed.name(), figures.join("; ")));
        }
    }
    if let Some(answer) = answer::answer(outcomes) {
        texts.extend(answer.figures);
        texts.extend([answer.help, answer.cost]);
    }
    let has = |is: fn(&Bed) -> bool| outcomes.iter().any(|it| is(&it.plan.bed));
    if has(|bed| matches!(bed, Bed::Short | Bed::Kept)) {
        texts.push(ORIGINAL_HTTP.to_owned());
    }
    if has(|bed| *bed == Bed::Proxy(BackendKind::Mariadb)) {
        texts.push(ORIGINAL_PROXY.to_owned());
    }
    texts
}
