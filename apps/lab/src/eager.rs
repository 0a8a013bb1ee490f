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
mod busy_work;
mod plan;
mod record;
mod rounds;
mod run;
mod section;
mod table;
mod verdict;

use std::process::ExitCode;

use anyhow::Result;

use crate::{
    console::Console,
    findings::{self, Findings},
    interrupt::Interrupt,
    real_backends,
};
pub(crate) use args::EagerArgs;
use plan::{BackendKind, Plan, Workload};
use record::{Record, RunRecord};
use run::Outcome;

/// What the scene is, for who meets it for the first time.
const SCENE: &str = "\
A server whose workers poll the network by three policies, after a measurement of Erlang/OTP 17.4's
eager check I/O (\"the original\" below). Does eager only help where each request computes much?
";

/// Runs the scene as its arguments say, and shows what came of it.
pub(crate) fn show(args: &EagerArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    findings::show(&args.outputs, "eager.html", interrupt, |console| {
        run(args, console, interrupt)
    })
}

/// Runs the scene as its arguments say.
pub(crate) fn run(args: &EagerArgs, console: &Console, interrupt: &Interrupt) -> Result<Findings> {
    let plans = args.plans();
    let is_mariadb = |plan: &Plan| plan.workload == Workload::Proxy(BackendKind::Mariadb);
    if plans.iter().any(is_mariadb) {
        real_backends::check()?;
    }
    console.line(SCENE);
    let outcomes = rounds::run(&plans, args, console, interrupt)?;
    let record = Record {
        scene: "eager",
        runs: outcomes.iter().map(RunRecord::of).collect(),
    };
    Ok(Findings {
        table: crate::table::table(&table::rows(&outcomes)),
        verdict: verdict::verdict(&outcomes),
        records: vec![findings::json(&record)?],
        section: section::section(&outcomes),
        failure: outcomes.iter().find_map(failure),
    })
}

/// What failed in a run, if something did.
fn failure(outcome: &Outcome) -> Option<String> {
    (!outcome.is_sound()).then(|| {
        format!(
            "{}: {} of {} requests were answered, {} failed",
            outcome.plan.title(),
            outcome.asked.answered,
            outcome.plan.requests,
            outcome.asked.errors
        )
    })
}
