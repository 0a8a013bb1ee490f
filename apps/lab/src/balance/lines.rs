//! What a run shows, in the original's form and in words.

use super::{
    outcome::{Ending, Outcome},
    plan::{FaultKind, NativeKind},
};
use crate::figures::{count, counted, hundredths, three_figures};

/// Processes at each end of a result line that is too long.
const RESULT_ENDS: usize = 6;

/// The result in the original's form, and its counts of native calls.
pub(crate) fn result(outcome: &Outcome) -> Vec<String> {
    let in_use: Vec<String> = outcome
        .utilisation()
        .iter()
        .enumerate()
        .map(|(worker, share)| format!("{{{worker},{:.1}}}", share * 100.0))
        .collect();
    let mut lines = vec![format!(
        "{{[{}],[{}]}}",
        elapsed_list(&outcome.elapsed),
        in_use.join(",")
    )];
    for interval in &outcome.seen.intervals {
        let per_worker = |value: &dyn Fn(u64) -> String| -> String {
            let values: Vec<String> = interval.calls.iter().map(|calls| value(*calls)).collect();
            values.join(",")
        };
        let mut line = format!(
            "{} last {:.1} s, by worker: calls {{{}}}",
            interval.daytime,
            interval.length.as_secs_f64(),
            per_worker(&|calls| calls.to_string())
        );
        if outcome.plan.mebibytes(0).is_some() {
            let mebibytes = |calls| outcome.plan.mebibytes(calls).unwrap_or_default();
            line += &format!(
                " MBytes {{{}}}",
                per_worker(&|calls| format!("{:.1}", mebibytes(calls)))
            );
        }
        lines.push(line);
    }
    lines.push(format!("Total calls   {}", outcome.calls));
    let native_us = |ns| ns as f64 / 1e3;
    lines.push(format!(
        "Native call   {} us at the median, {} us at p99",
        three_figures(native_us(outcome.native_times.p50)),
        three_figures(native_us(outcome.native_times.p99))
    ));
    if let Some(mebibytes) = outcome.plan.mebibytes(outcome.calls) {
        lines.push(format!("Total MBytes  {mebibytes:.1}"));
    }
    lines
}

fn elapsed_list(elapsed: &[f64]) -> String {
    let list = |times: &[f64]| {
        let times: Vec<String> = times.iter().map(|time| format!("{time:.2}")).collect();
        times.join(",")
    };
    if elapsed.len() <= 2 * RESULT_ENDS {
        return list(elapsed);
    }
    let left_out = elapsed.len() - 2 * RESULT_ENDS;
    format!(
        "{},...{} more...,{}",
        list(&elapsed[..RESULT_ENDS]),
        count(left_out as u64),
        list(&elapsed[elapsed.len() - RESULT_ENDS..])
    )
}

/// What a run shows beyond its figures.
pub(crate) fn remarks(outcome: &Outcome) -> Vec<String> {
    if outcome.ending == Ending::Interrupted {
        return vec![of_whole(outcome)];
    }
    let rescue = (outcome.plan.native == NativeKind::Sleep).then(|| of_rescue(outcome));
    let protocol = (outcome.plan.iterations > 0).then(|| of_protocol(outcome));
    let all = rescue
        .into_iter()
        .chain(protocol)
        .chain([of_collapse(outcome), of_whole(outcome)]);
    all.collect()
}

/// The runs and pauses after which the original's schedulers collapsed.
fn of_protocol(outcome: &Outcome) -> String {
    let plan = &outcome.plan;
    let in_use = outcome.utilisation();
    let in_use: Vec<String> = in_use
        .iter()
        .map(|share| format!("{:.0} %", share * 100.0))
        .collect();
    format!(
        "after {} with pauses, with {} of {} workers on-line, the workers were in use for {} of the time. In the \
         original one scheduler was then at 100 % and the others at 18 to 20 %.",
        counted(u64::from(plan.iterations), "run"),
        plan.online.unwrap_or(plan.schedulers),
        plan.schedulers,
        in_use.join(", ")
    )
}

fn of_rescue(outcome: &Outcome) -> String {
    let plan = &outcome.plan;
    let alone = outcome.waited();
    let took = format!(
        "the calls blocked for {} in all, which {} workers that wait would take {} for; it took {}",
        hundredths(alone * plan.schedulers as f64),
        plan.schedulers,
        hundredths(alone),
        hundredths(outcome.makespan)
    );
    match outcome.rescue_delay_p99_ns() {
        Some(p99_ns) => format!(
            "rescue: {took}. {} times a blocked worker's slot went to a spare thread, at p99 {:.2} ms after the \
             call began.",
            count(outcome.scheduler.rescues),
            p99_ns as f64 / 1e6
        ),
        None => format!("no rescue: {took}."),
    }
}

fn of_collapse(outcome: &Outcome) -> String {
    let scheduler = &outcome.scheduler;
    match (scheduler.collapses, outcome.plan.fault) {
        (0, None) => "no collapse: no worker slept while there was work.".to_owned(),
        (0, Some(FaultKind::DropWakes)) => {
            "no collapse: wake-ups were lost, but no worker was asleep while there was work."
                .to_owned()
        }
        (collapses, fault) => format!(
            "collapse: {} a worker slept while there was work, within {:.1} ms at most; the \
             monitor woke one {}; {:.1} ms of workers' time were lost{}. The original had workers at \
             18..20 % until it was restarted.",
            counted(collapses, "time"),
            scheduler.collapse_detect_ns_max as f64 / 1e6,
            counted(scheduler.forced_wakes, "time"),
            scheduler.wasted_core_ns as f64 / 1e6,
            match fault {
                Some(FaultKind::DropWakes) => ", by the fault that was asked for",
                None => "",
            }
        ),
    }
}

fn of_whole(outcome: &Outcome) -> String {
    let plan = &outcome.plan;
    if outcome.is_whole() {
        return format!(
            "whole: each of the {} processes did its {} repetitions.",
            count(u64::from(plan.procs)),
            count(u64::from(plan.repeats))
        );
    }
    let what = match outcome.ending {
        Ending::Interrupted => "interrupted",
        Ending::Done => "NOT WHOLE",
    };
    format!(
        "{what}: {} of {} repetitions were done, {} of {} processes were through.",
        count(outcome.calls),
        count(plan.repetitions()),
        count(outcome.elapsed.len() as u64),
        count(u64::from(plan.procs))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_result_keeps_its_ends() {
        assert_eq!(elapsed_list(&[]), "");
        assert_eq!(elapsed_list(&[0.5, 1.0]), "0.50,1.00");
        let many: Vec<f64> = (0..400).map(f64::from).collect();
        let list = elapsed_list(&many);
        assert!(list.starts_with("0.00,1.00,2.00,"), "{list}");
        assert!(list.contains("5.00,...388 more...,394.00"), "{list}");
        assert!(list.ends_with(",399.00"), "{list}");
    }
}
