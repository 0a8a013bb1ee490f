//! All runs, round by round, so that what else the machine does meets each policy alike.

use anyhow::Result;

use super::{
    EagerArgs,
    backend::Backend,
    plan::{Plan, Workload},
    run::{self, Outcome},
    verdict,
};
use crate::{console::Console, interrupt::Interrupt};

/// Does the runs; of each the round with the median p99. Ends early on Ctrl-C, and after a run whose
/// requests were not all answered, which is then the last one.
pub(super) fn run(
    plans: &[Plan],
    args: &EagerArgs,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<Vec<Outcome>> {
    // Clients end by the same Ctrl-C, or with their run.
    let _listening = interrupt.listen(|| ());
    let mut done: Vec<Vec<Outcome>> = plans.iter().map(|_| Vec::new()).collect();
    let mut backend = None;
    let rounds_max = plans.iter().map(|plan| plan.rounds).max().unwrap_or(0);
    'rounds: for round in 0..rounds_max {
        for (plan, done) in plans.iter().zip(&mut done) {
            if round >= plan.rounds {
                continue;
            }
            if interrupt.has_come() {
                break 'rounds;
            }
            if let (Workload::Proxy(kind), None) = (plan.workload, &backend) {
                backend = Some(Backend::start(kind, &args.mysql, console)?);
            }
            let outcome = match run::run(plan, backend.as_ref(), console) {
                // Its client was interrupted, too.
                Err(_) if interrupt.has_come() => break 'rounds,
                outcome => outcome?,
            };
            if interrupt.has_come() {
                break 'rounds;
            }
            for line in verdict::lines(&outcome) {
                console.line(&line);
            }
            if !outcome.is_sound() {
                *done = vec![outcome];
                break 'rounds;
            }
            done.push(outcome);
        }
    }
    Ok(done.into_iter().filter_map(median).collect())
}

/// The round with the median p99, and what the rounds range over.
fn median(mut rounds: Vec<Outcome>) -> Option<Outcome> {
    rounds.sort_by(|a, b| a.asked.p99_us.total_cmp(&b.asked.p99_us));
    let range = |values: &dyn Fn(&Outcome) -> f64| {
        let all = rounds.iter().map(values);
        all.fold((f64::MAX, 0.0), |(least, most): (f64, f64), it| {
            (least.min(it), most.max(it))
        })
    };
    let p99_range_us = range(&|it| it.asked.p99_us);
    let cpu_range_us = range(&|it| it.cpu_us().unwrap_or(0.0));
    let middle = rounds.len().checked_sub(1)? / 2;
    Some(Outcome {
        p99_range_us,
        cpu_range_us,
        ..rounds.swap_remove(middle)
    })
}
