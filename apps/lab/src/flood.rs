//! The flood scene: a log server behind a flooded mailbox, and the dam that saves it.
//!
//! After an Erlang log server of 2019. Many senders tell lines to one actor; it writes each to a
//! file and waits for the file's answer. Looked for in the mailbox, that answer costs a walk past all
//! that is queued, and the server collapses just when it is needed most.
//!
//! ```text
//!   sender ─┐                      ┌────────── sink ──▶ file
//!   sender ─┼──▶ (log_dam) ──▶ log_server ◀── answer: slot | mailbox
//!   sender ─┘
//! ```

mod actors;
mod args;
mod drain_watcher;
mod file_sink;
mod knobs;
mod line;
mod log;
mod log_server;
mod log_sink;
mod monitor;
mod pace;
mod plan;
mod record;
mod run;
mod section;
mod sender;
mod sink;
mod source;
mod stream_sink;
mod table;
mod tally;
mod verdict;
mod verify;

use std::process::ExitCode;

use anyhow::Result;

use crate::{
    console::Console,
    findings::{self, Findings},
    interrupt::Interrupt,
};
pub(crate) use args::FloodArgs;
use plan::Plan;
use record::Record;
use run::{Ending, Outcome, Stage};

/// What the scene is, for who meets it for the first time.
const SCENE: &str = "\
A log server behind a flooded mailbox, as an Erlang system met it in 2019 (\"the original\" below):
many senders, one server that writes each line to a file, and a dam in between.
";

/// Runs the scene as its arguments say, and shows what came of it.
pub(crate) fn show(args: &FloodArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let plans = args.plans()?;
    findings::show(&args.outputs, "flood.html", interrupt, |console| {
        run_all(args, &plans, console, interrupt)
    })
}

/// Runs the scene as its arguments say.
pub(crate) fn run(args: &FloodArgs, console: &Console, interrupt: &Interrupt) -> Result<Findings> {
    run_all(args, &args.plans()?, console, interrupt)
}

fn run_all(
    args: &FloodArgs,
    plans: &[Plan],
    console: &Console,
    interrupt: &Interrupt,
) -> Result<Findings> {
    let stage = Stage {
        console,
        interrupt,
        prints_watch: args.watch().is_some(),
    };
    let mut outcomes = Vec::new();
    for (index, plan) in plans.iter().enumerate() {
        if interrupt.has_come() {
            break;
        }
        let sink = plan.open_sink()?;
        if index == 0 {
            console.line(SCENE);
        }
        console.line(&verdict::opening(plan, index + 1, plans.len()));
        let outcome = run::run(plan, sink, &stage)?;
        console.line(&verdict::closing(&outcome));
        let has_failed = matches!(outcome.ending, Ending::Failed(_));
        outcomes.push(outcome);
        if has_failed {
            break;
        }
    }
    let record = Record {
        scene: "flood",
        runs: outcomes.iter().map(|outcome| &outcome.record).collect(),
    };
    Ok(Findings {
        table: format!("{}\n{}", table::table(&outcomes), table::LEGEND),
        verdict: verdict::verdict(&outcomes),
        records: vec![findings::json(&record)?],
        section: section::section(&outcomes),
        failure: outcomes.iter().find_map(failure),
    })
}

/// What failed in a run, if something did.
fn failure(outcome: &Outcome) -> Option<String> {
    if let Ending::Failed(_) = outcome.ending {
        return Some(verdict::failure(outcome));
    }
    let title = outcome.plan.title();
    let finding = || format!("{title}: {}", outcome.verdict.finding());
    (!outcome.verdict.is_whole()).then(finding)
}
