//! What the runs show, in words.

use super::{plan::Bed, run::Outcome};
use crate::figures::{count, rate};

/// What the original saw.
const ORIGINAL: &str = "The original, OTP 17.4, ab -c 60 -n 100000: on 13.6 % of 30,700,000 attempts won, \
    off 6.5 % of 36,110,000; checks on / off 1.11; time and requests a second within 0.5 %.";

/// Said after a run: the counters in the original's form.
pub(super) fn lines(outcome: &Outcome) -> [String; 3] {
    let looks = outcome.poller.looks();
    [
        format!(
            "  {} requests/s, p50 {} us, p99 {} us, readiness to run p99 {} us",
            rate(outcome.rate()),
            count(outcome.asked.p50_us as u64),
            count(outcome.asked.p99_us as u64),
            count(outcome.poller.readiness_to_run.p99 / 1_000)
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
    for bed in [Bed::Short, Bed::Kept] {
        let of: Vec<&Outcome> = outcomes.iter().filter(|it| it.plan.bed == bed).collect();
        if of.len() > 1 {
            let figures: Vec<String> = of
                .iter()
                .map(|it| format!("{} {}", it.plan.policy, rate(it.rate())))
                .collect();
            texts.push(format!(
                "{}: {} requests/s.",
                bed.name(),
                figures.join(", ")
            ));
        }
    }
    let sweep = |name: &str, cpu_us: u64| {
        outcomes.iter().find(|it| {
            matches!(it.plan.bed, Bed::Sweep { .. })
                && it.plan.policy.name() == name
                && it.plan.cpu_us == cpu_us
        })
    };
    let mut costs: Vec<u64> = outcomes
        .iter()
        .filter(|it| matches!(it.plan.bed, Bed::Sweep { .. }))
        .map(|it| it.plan.cpu_us)
        .collect();
    costs.dedup();
    for cpu_us in costs {
        let (Some(eager), Some(drain)) = (sweep("eager", cpu_us), sweep("drain", cpu_us)) else {
            continue;
        };
        let dedicated = sweep("dedicated", cpu_us).map_or_else(String::new, |it| {
            format!(", dedicated {} us", count(it.asked.p99_us as u64))
        });
        texts.push(format!(
            "beside actors that only compute, {} us each: p99 eager {} us, drain {} us{dedicated}; \
             eager looks {:.1} times as often as drain.",
            count(cpu_us),
            count(eager.asked.p99_us as u64),
            count(drain.asked.p99_us as u64),
            eager.poller.looks().nonwait as f64 / drain.poller.looks().nonwait.max(1) as f64
        ));
    }
    if !outcomes.is_empty() {
        texts.push(ORIGINAL.to_owned());
    }
    texts
}
