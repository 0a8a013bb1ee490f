//! The fetch scene: a push-notification fetcher, tuned in eleven steps.
//!
//! After a Java service of 2014 and the log of its tuning.
//!
//! ```text
//!   sender, open loop ──▶ broker ──▶ fetcher, as it was | as it is ──▶ broker ──▶ account of every id
//!                                      │ cache   │ slow store   │ directory
//!                                      Redis     100 ms asleep   SQL           each embedded, or real
//! ```

mod args;
mod fill;
mod ground;
mod link;
mod page;
mod plan;
mod record;
mod run;
mod step;
mod table;
mod verdict;

use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Context, Result};

use crate::{console::Console, interrupt::Interrupt, outputs::Outputs};
pub(crate) use args::FetchArgs;
use ground::Ground;
use record::{Record, RunRecord};

/// What the scene is, for who meets it for the first time.
const SCENE: &str = "\
A push-notification fetcher: notifications from a broker, two keys from a leased cache on Redis, a device
from SQL, a reply to the broker. Eleven steps of the tuning of a Java service of 2014 (\"the original\"), as
it was and as it is here. Times are 99th percentiles in ms; wait counts from when a notification was due.
";

/// Runs the scene as its arguments say, and shows what came of it.
pub(crate) fn show(args: &FetchArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let plans = args.plans();
    let mut outputs = Outputs::open(&args.outputs, "fetch.html")?;
    let console = Console::new(args.outputs.is_json_on_stdout());
    console.line(SCENE);
    let users = plans.iter().map(|plan| plan.users).max().unwrap_or(0);
    let ground = Ground::start(args.backend, users, &console)?;
    let mut outcomes = Vec::new();
    let mut step = None;
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = stop.clone();
    // Ordering: Relaxed: it says nothing but stop.
    let _listening = interrupt.listen(move || stopping.store(true, Ordering::Relaxed));
    for plan in &plans {
        if interrupt.has_come() {
            break;
        }
        if step != Some(plan.step) {
            step = Some(plan.step);
            console.line(&verdict::opening(plan.step));
        }
        let outcome = run::run(plan, &ground, &console, &stop)?;
        if plans.len() <= 2 {
            verdict::counters(&outcome)
                .iter()
                .for_each(|line| console.line(line));
        }
        console.line(&verdict::sentence(&outcome));
        outcomes.push(outcome);
    }
    let table = crate::table::table(&table::rows(&outcomes));
    console.result(&table, &verdict::verdict(&outcomes));
    let record = Record {
        scene: "fetch",
        runs: outcomes.iter().map(RunRecord::of).collect(),
    };
    outputs.write(&record, || page::page(&outcomes))?;
    console.check().context("cannot write the results")?;
    if let Some(unsound) = outcomes.iter().find(|outcome| !outcome.is_sound()) {
        anyhow::bail!(
            "{}: of {} notifications {} were lost",
            unsound.plan.title(),
            unsound.sent,
            unsound.lost
        );
    }
    Ok(interrupt.exit_code())
}
