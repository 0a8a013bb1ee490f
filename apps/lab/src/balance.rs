//! The balance scene: long native calls against a fair scheduler.
//!
//! After a benchmark of 2013, `wait:run(N, W, R, BW)`, made to catch a scheduler that leaves workers
//! asleep while there is work. Many processes, all born on one worker and released together, call
//! native code that does not yield, again and again.
//!
//! ```text
//!   nest ──release──▶ process ─┐            ┌─ worker 0: MD5, loop ─┐
//!                     process ─┼─ queues ───┼─ worker 1: MD5, loop ─┼──▶ itself, R times
//!                     process ─┘            └─ ...                  ┘
//! ```

mod args;
mod daytime;
mod knobs;
mod native;
mod nest;
mod plan;
mod process;
mod record;
mod run;
mod section;
mod table;
mod tally;
mod verdict;
mod watch;

use std::process::ExitCode;

use anyhow::Result;

use crate::{
    console::Console,
    findings::{self, Findings},
    interrupt::Interrupt,
};
pub(crate) use args::BalanceArgs;
use plan::Plan;
use run::{Ending, Outcome};

/// What the scene is, for who meets it for the first time.
const SCENE: &str = "\
Long native calls against a fair scheduler, after an Erlang benchmark of 2013 (\"the original\" below).
A sample is printed when it changed: {H,M,S} {class,longest/median} {queue of each worker}; times UTC.
";

/// Runs the scene as its arguments say, and shows what came of it.
pub(crate) fn show(args: &BalanceArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let plan = args.plan()?;
    findings::show(&args.outputs, "balance.html", interrupt, |console| {
        run_all(&[plan], console, interrupt)
    })
}

/// Runs the scene once for each of these.
pub(crate) fn run(
    args: &[BalanceArgs],
    console: &Console,
    interrupt: &Interrupt,
) -> Result<Findings> {
    let plans = args.iter().map(BalanceArgs::plan);
    run_all(&plans.collect::<Result<Vec<_>, _>>()?, console, interrupt)
}

fn run_all(plans: &[Plan], console: &Console, interrupt: &Interrupt) -> Result<Findings> {
    console.line(SCENE);
    let mut outcomes = Vec::new();
    for plan in plans {
        if interrupt.has_come() {
            break;
        }
        let outcome = run::run(plan, console, interrupt)?;
        for line in verdict::result(&outcome) {
            console.line(&line);
        }
        outcomes.push(outcome);
    }
    let tables = outcomes.iter().flat_map(|outcome| {
        [table::measures(outcome), table::workers(outcome)].map(|rows| crate::table::table(&rows))
    });
    let tables: Vec<String> = tables.chain([table::LEGEND.to_owned()]).collect();
    let records = outcomes
        .iter()
        .map(|it| findings::json(&record::record(it)));
    Ok(Findings {
        table: tables.join("\n"),
        verdict: outcomes.iter().flat_map(verdict::verdict).collect(),
        records: records.collect::<Result<_>>()?,
        section: section::section(&outcomes),
        failure: outcomes.iter().find_map(failure),
    })
}

/// What failed in a run, if something did.
fn failure(outcome: &Outcome) -> Option<String> {
    let has_failed = outcome.ending == Ending::Done && !outcome.is_whole();
    has_failed.then(|| {
        format!(
            "{} of {} repetitions were done",
            outcome.calls,
            outcome.plan.repetitions()
        )
    })
}
