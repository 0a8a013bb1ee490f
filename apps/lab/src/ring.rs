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
mod idle;
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
use plan::Plan;
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
        run(std::slice::from_ref(args), console, interrupt)
    })
}

/// Runs the scene once for each of these.
pub(crate) fn run(args: &[RingArgs], console: &Console, interrupt: &Interrupt) -> Result<Findings> {
    console.line(SCENE);
    let (mut outcomes, mut records) = (Vec::new(), Vec::new());
    for args in args {
        let runs = run_all(&args.plans(), console, interrupt)?;
        records.push(findings::json(&Record {
            scene: "ring",
            runs: runs.iter().map(Outcome::record).collect(),
        })?);
        outcomes.extend(runs);
    }
    let unsound = outcomes.iter().find(|outcome| !outcome.is_sound());
    Ok(Findings {
        table: crate::table::table(&table::rows(&outcomes)),
        verdict: verdict::verdict(&outcomes),
        records,
        section: section::section(&outcomes),
        failure: unsound.map(|it| format!("{}: {}", it.plan.title(), it.finding())),
    })
}

/// Ends early on Ctrl-C, and after a run that lost something, which is then the last one.
fn run_all(plans: &[Plan], console: &Console, interrupt: &Interrupt) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for plan in plans {
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
    Ok(outcomes)
}
