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
mod page;
mod plan;
mod process;
mod record;
mod run;
mod table;
mod tally;
mod verdict;
mod watch;

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::{
    console::Console,
    interrupt::{self, Interrupt},
    outputs::Outputs,
};
pub(crate) use args::BalanceArgs;
use run::{Ending, Outcome};

/// What the scene is, for who meets it for the first time.
const SCENE: &str = "\
Long native calls against a fair scheduler, after an Erlang benchmark of 2013 (\"the original\" below).
A sample is printed when it changed: {H,M,S} {class,longest/median} {queue of each worker}; times UTC.
";

/// Runs the scene as its arguments say, and shows what came of it.
pub(crate) fn show(args: &BalanceArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let plan = args.plan()?;
    let mut outputs = Outputs::open(&args.outputs, "balance.html")?;
    let console = Console::new(args.outputs.is_json_on_stdout());
    console.line(SCENE);
    let outcome = run::run(&plan, &console, interrupt)?;
    for line in verdict::result(&outcome) {
        console.line(&line);
    }
    let measures = crate::table::table(&table::measures(&outcome));
    let workers = crate::table::table(&table::workers(&outcome));
    let tables = format!("{measures}\n{workers}\n{}", table::LEGEND);
    console.result(&tables, &verdict::verdict(&outcome));
    outputs.write(&record::record(&outcome), || page::page(&outcome))?;
    console.check().context("cannot write the results")?;
    exit_code(&outcome)
}

fn exit_code(outcome: &Outcome) -> Result<ExitCode> {
    match outcome.ending {
        Ending::Interrupted => Ok(ExitCode::from(interrupt::EXIT_CODE)),
        Ending::Done if outcome.is_whole() => Ok(ExitCode::SUCCESS),
        Ending::Done => anyhow::bail!(
            "{} of {} repetitions were done",
            outcome.calls,
            outcome.plan.repetitions()
        ),
    }
}
