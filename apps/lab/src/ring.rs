//! The ring scene: how a consumer on a thread of its own waits for its ring, and what that costs.
//!
//! After the mailbox benchmark of a Java actor framework of 2014.
//!
//! ```text
//!   producer ─┐    ┌─ lane 0 ─┐
//!   producer ─┼──▶ ├─ lane 1 ─┼──▶ consumer (pinned; blocking | sleeping | yielding | busy spin)
//!   producer ─┘    └─ ...     ┘
//! ```

mod args;
mod consumer;
mod knobs;
mod page;
mod plan;
mod producer;
mod record;
mod run;
mod runtime;
mod share;
mod table;
mod verdict;

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::{console::Console, interrupt::Interrupt, outputs::Outputs};
pub(crate) use args::RingArgs;
use record::Record;
use run::Outcome;

/// What the scene is, for who meets it for the first time.
const SCENE: &str = "\
A bounded ring between producers and one consumer that waits in four ways, after the mailbox
benchmark of a Java actor framework of 2014 (\"the original\" below).
";

/// Runs the scene as its arguments say, and shows what came of it.
pub(crate) fn show(args: &RingArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let plans = args.plans();
    let mut outputs = Outputs::open(&args.outputs, "ring.html")?;
    let console = Console::new(args.outputs.is_json_on_stdout());
    console.line(SCENE);
    let mut outcomes = Vec::new();
    for plan in &plans {
        if interrupt.has_come() {
            break;
        }
        let outcome = run::run(plan, &console, interrupt)?;
        console.line(&verdict::line(&outcome));
        let is_sound = outcome.is_sound();
        outcomes.push(outcome);
        if !is_sound {
            break;
        }
    }
    let table = crate::table::table(&table::rows(&outcomes));
    console.result(&table, &verdict::verdict(&outcomes));
    let record = Record {
        scene: "ring",
        runs: outcomes.iter().map(Outcome::record).collect(),
    };
    outputs.write(&record, || page::page(&outcomes))?;
    console.check().context("cannot write the results")?;
    if let Some(unsound) = outcomes.iter().find(|outcome| !outcome.is_sound()) {
        anyhow::bail!("{}: {}", unsound.plan.title(), unsound.finding());
    }
    Ok(interrupt.exit_code())
}
