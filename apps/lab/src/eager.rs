//! The eager scene: when does a busy scheduler look at the network?
//!
//! After a measurement of OTP 17.4's eager check I/O, from its mailing list.
//!
//! ```text
//!   clients (a process of their own) ──▶ sockets ──▶ poller ◀── idle workers wait in it
//!                                                      ▲
//!                              busy workers: eager | drain | dedicated
//! ```

mod ab;
mod answer;
mod args;
mod ask;
mod backend;
mod chew;
mod page;
mod plan;
mod record;
mod rounds;
mod run;
mod table;
mod verdict;

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::{console::Console, interrupt::Interrupt, outputs::Outputs};
pub(crate) use args::EagerArgs;
use record::{Record, RunRecord};

/// What the scene is, for who meets it for the first time.
const SCENE: &str = "\
A server whose workers look at the network by three policies, after a measurement of Erlang/OTP 17.4's
eager check I/O (\"the original\" below). Does eager only help where each request computes much?
";

/// Runs the scene as its arguments say, and shows what came of it.
pub(crate) fn show(args: &EagerArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let plans = args.plans();
    let mut outputs = Outputs::open(&args.outputs, "eager.html")?;
    let console = Console::new(args.outputs.is_json_on_stdout());
    console.line(SCENE);
    let outcomes = rounds::run(&plans, args, &console, interrupt)?;
    let table = crate::table::table(&table::rows(&outcomes));
    console.result(&table, &verdict::verdict(&outcomes));
    let record = Record {
        scene: "eager",
        runs: outcomes.iter().map(RunRecord::of).collect(),
    };
    outputs.write(&record, || page::page(&outcomes))?;
    console.check().context("cannot write the results")?;
    if let Some(unsound) = outcomes.iter().find(|outcome| !outcome.is_sound()) {
        anyhow::bail!(
            "{}: {} of {} requests were answered, {} failed",
            unsound.plan.title(),
            unsound.asked.answered,
            unsound.plan.requests,
            unsound.asked.errors
        );
    }
    Ok(interrupt.exit_code())
}
