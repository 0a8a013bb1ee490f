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
mod plan;
mod producer;
mod record;
mod run;
mod runtime;
mod section;
mod share;
mod table;
mod verdict;

use std::process::ExitCode;

use anyhow::Result;

use crate::{
    console::Console,
    findings::{self, Findings},
    interrupt::Interrupt,
};
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
    findings::show(&args.outputs, "ring.html", interrupt, |console| {
        run(args, console, interrupt)
    })
}

/// Runs the scene as its arguments say.
pub(crate) fn run(args: &RingArgs, console: &Console, interrupt: &Interrupt) -> Result<Findings> {
    console.line(SCENE);
    let mut outcomes = Vec::new();
    for plan in &args.plans() {
        if interrupt.has_come() {
            break;
        }
        let outcome = run::run(plan, console, interrupt)?;
        console.line(&verdict::line(&outcome));
        let is_sound = outcome.is_sound();
        outcomes.push(outcome);
        if !is_sound {
            break;
        }
    }
    let record = Record {
        scene: "ring",
        runs: outcomes.iter().map(Outcome::record).collect(),
    };
    let unsound = outcomes.iter().find(|outcome| !outcome.is_sound());
    Ok(Findings {
        table: crate::table::table(&table::rows(&outcomes)),
        verdict: verdict::verdict(&outcomes),
        records: vec![findings::json(&record)?],
        section: section::section(&outcomes),
        failure: unsound.map(|it| format!("{}: {}", it.plan.title(), it.finding())),
    })
}
