//! The flood scene: a log server behind a flooded mailbox, and the dam that saves it.
//!
//! After an Erlang log server of 2019. Many senders tell lines to one actor; it writes each to a
//! file and waits for the file's answer. Looked for in the mailbox, that answer costs a walk past all
//! that is queued, and the server collapses just when it is needed most.
//!
//! ```text
//!   sender ─┐                      ┌────────── port ──▶ file
//!   sender ─┼──▶ (log_dam) ──▶ log_server ◀── answer: slot | mailbox
//!   sender ─┘
//! ```

mod args;
mod cast;
mod file_port;
mod knobs;
mod line;
mod log;
mod log_server;
mod monitor;
mod pace;
mod page;
mod plan;
mod port;
mod record;
mod run;
mod sender;
mod sink;
mod source;
mod stream_port;
mod table;
mod tally;
mod usher;
mod verdict;
mod verify;

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::{console::Console, interrupt::Interrupt, outputs::Outputs};
pub(crate) use args::FloodArgs;
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
    let mut outputs = Outputs::open(&args.outputs, "flood.html")?;
    let console = Console::new(args.outputs.is_json_on_stdout());
    let stage = Stage {
        console: &console,
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
    let table = format!("{}\n{}", table::table(&outcomes), table::LEGEND);
    console.result(&table, &verdict::verdict(&outcomes));
    let record = Record {
        scene: "flood",
        runs: outcomes.iter().map(|outcome| &outcome.record).collect(),
    };
    outputs.write(&record, || page::page(&outcomes))?;
    console.check().context("cannot write the results")?;
    exit_code(&outcomes, interrupt)
}

fn exit_code(outcomes: &[Outcome], interrupt: &Interrupt) -> Result<ExitCode> {
    for outcome in outcomes {
        if let Ending::Failed(_) = outcome.ending {
            anyhow::bail!("{}", verdict::failure(outcome));
        }
        if !outcome.verdict.is_whole() {
            let title = outcome.plan.title();
            anyhow::bail!("{title}: {}", outcome.verdict.finding());
        }
    }
    Ok(interrupt.exit_code())
}
