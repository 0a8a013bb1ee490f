//! All runs, round by round, so that what else the machine does meets each policy alike.

use anyhow::Result;

use super::{
    EagerArgs, Record, Rounds,
    backend::Backend,
    plan::{Plan, Workload},
    run,
};
use crate::{console::Console, interrupt::Interrupt, scene::Run};

/// Does the runs; of each the round with the median p99. Ends early on Ctrl-C, and after a run whose
/// requests were not all answered, which is then the last one. Starts the backend when it is first needed.
pub(super) fn run(
    plans: &mut [Plan],
    backend: &mut Option<Backend>,
    args: &EagerArgs,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<Vec<Run<Record>>> {
    // Clients end by the same Ctrl-C, or with their run.
    let _listening = interrupt.listen(|| ());
    let mut done: Vec<Vec<Run<Record>>> = plans.iter().map(|_| Vec::new()).collect();
    let rounds_max = plans.iter().map(|plan| plan.rounds).max().unwrap_or(0);
    'rounds: for round in 0..rounds_max {
        for (plan, done) in plans.iter_mut().zip(&mut done) {
            if round >= plan.rounds {
                continue;
            }
            if interrupt.has_come() {
                break 'rounds;
            }
            if let Workload::Proxy(kind) = &mut plan.workload {
                if backend.is_none() {
                    let started = Backend::start(*kind, args.backend, &args.mysql, console)?;
                    *backend = Some(started);
                }
                // An echo if no MariaDB could be started.
                *kind = backend.as_ref().map_or(*kind, |it| it.kind);
            }
            let outcome = match run::run(plan, backend.as_ref(), console) {
                // Its client was interrupted, too.
                Err(_) if interrupt.has_come() => break 'rounds,
                outcome => outcome?,
            };
            if interrupt.has_come() {
                break 'rounds;
            }
            if outcome.failure.is_some() {
                *done = vec![outcome];
                break 'rounds;
            }
            done.push(outcome);
        }
    }
    Ok(done.into_iter().filter_map(median).collect())
}

/// The round with the median p99, and the ranges of all rounds.
fn median(mut rounds: Vec<Run<Record>>) -> Option<Run<Record>> {
    rounds.sort_by(|a, b| a.record.latency_us.p99.total_cmp(&b.record.latency_us.p99));
    let range = |value: fn(&Record) -> f64| {
        let all = rounds.iter().map(|it| value(&it.record));
        all.fold((f64::MAX, 0.0), |(least, most): (f64, f64), it| {
            (least.min(it), most.max(it))
        })
    };
    let ranges = Rounds {
        count: rounds.len() as u32,
        p99_us: range(|it| it.latency_us.p99),
        cpu_us: range(|it| it.cpu_us_per_request.unwrap_or(0.0)),
    };
    let middle = rounds.len().checked_sub(1)? / 2;
    let mut run = rounds.swap_remove(middle);
    run.record.rounds = ranges;
    Some(run)
}
