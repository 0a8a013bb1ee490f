//! The fetch scene: a push-notification fetcher, tuned in eleven steps.
//!
//! After a Java service of 2014 and the log of its tuning.
//!
//! ```text
//!   sender, open loop ──▶ broker ──▶ fetcher, original | Freeboard mode ──▶ broker ──▶ account of every id
//!                                      │ cache   │ slow store   │ directory
//!                                      Redis     100 ms asleep   SQL           each embedded, or real
//! ```

mod args;
mod backends;
mod fill;
mod link;
mod plan;
mod record;
mod run;
mod section;
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

use anyhow::Result;

use crate::{
    console::Console,
    findings::{self, Findings},
    interrupt::Interrupt,
};
pub(crate) use args::FetchArgs;
use backends::Backends;
use record::{Record, RunRecord};

/// What the scene is, for who meets it for the first time.
const SCENE: &str = "\
A push-notification fetcher: notifications from a broker, two keys from a leased cache on Redis, a device
from SQL, a reply to the broker. Eleven steps of the tuning of a Java service of 2014, in original
mode and in Freeboard mode. Times are 99th percentiles in ms; wait counts from when a notification was due.
";

/// Runs the scene as its arguments say, and shows what came of it.
pub(crate) fn show(args: &FetchArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    findings::show(&args.outputs, "fetch.html", interrupt, |console| {
        run(args, console, interrupt)
    })
}

/// Runs the scene as its arguments say.
pub(crate) fn run(args: &FetchArgs, console: &Console, interrupt: &Interrupt) -> Result<Findings> {
    let plans = args.plans();
    console.line(SCENE);
    let users = plans.iter().map(|plan| plan.users).max().unwrap_or(0);
    let backends = Backends::start(args.backend, users, console)?;
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
        let outcome = run::run(plan, &backends, console, &stop)?;
        if plans.len() <= 2 {
            verdict::counters(&outcome)
                .iter()
                .for_each(|line| console.line(line));
        }
        console.line(&verdict::sentence(&outcome));
        outcomes.push(outcome);
    }
    let record = Record {
        scene: "fetch",
        runs: outcomes.iter().map(RunRecord::of).collect(),
    };
    let unsound = outcomes.iter().find(|outcome| !outcome.is_sound());
    Ok(Findings {
        table: crate::table::table(&table::rows(&outcomes)),
        verdict: verdict::verdict(&outcomes),
        records: vec![findings::json(&record)?],
        section: section::section(&outcomes),
        failure: unsound.map(|it| {
            format!(
                "{}: of {} notifications {} were lost",
                it.plan.title(),
                it.sent,
                it.lost
            )
        }),
    })
}
