//! The streams scene: as many small messages to disk as the machine can take.
//!
//! After an Erlang stream writer of 2013. Its defects are left out: here the message that triggers a
//! flush is kept, records are framed and in order, what counts as durable is durable, and the rate that
//! is printed is the disk's beside the one at which messages were accepted.
//!
//! ```text
//!   writer 1 ──▶ stream 1 ──┐
//!   writer 2 ──▶ stream 2 ──┼──▶ one directory       then: read back, compared, verified
//!   ...                     ┘
//! ```

mod args;
mod disk;
mod message;
mod naive;
mod plan;
mod read_back;
mod record;
mod run;
mod section;
mod table;
mod verdict;

use std::process::ExitCode;

use anyhow::Result;

use crate::{
    console::Console,
    file_system::FileSystem,
    findings::{self, Findings},
    interrupt::Interrupt,
};
pub(crate) use args::{MESSAGES_DEFAULT, MESSAGES_MAX, SIZE_MAX, StreamsArgs, WRITERS_MAX};
use disk::Disk;
use record::Record;
use run::Outcome;

/// What the scene is, for who meets it for the first time.
const SCENE: &str = "\
Many small messages to disk, coalesced in buffers, sealed by a chained hash, durable when they are said
to be; after an Erlang stream writer of 2013 (\"the original\" below).
";

/// Runs the scene as its arguments say, and shows what came of it.
pub(crate) fn show(args: &StreamsArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    findings::show(&args.outputs, "streams.html", interrupt, |console| {
        run(args, console, interrupt)
    })
}

/// Runs the scene as its arguments say.
pub(crate) fn run(
    args: &StreamsArgs,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<Findings> {
    let plans = args.plans();
    let room = args.room(&plans)?;
    let file_system = FileSystem::of(room.path());
    let key = args.key()?;
    console.line(SCENE);
    let mut outcomes = Vec::new();
    for plan in &plans {
        if interrupt.has_come() {
            break;
        }
        let outcome = run::run(plan, room.path(), &key, console, interrupt)?;
        let is_sound = outcome.is_sound();
        outcomes.push(outcome);
        if !is_sound {
            break;
        }
    }
    let naive = match args.naive() {
        Some(messages) if !interrupt.has_come() => {
            Some(naive::run(room.path(), messages, console)?)
        }
        _ => None,
    };
    let record = Record {
        scene: "streams",
        file_system: file_system.map(FileSystem::name),
        runs: outcomes.iter().map(Outcome::record).collect(),
        naive: naive.clone(),
    };
    let disk = Disk(file_system);
    let unsound = outcomes.iter().find(|outcome| !outcome.is_sound());
    Ok(Findings {
        table: crate::table::table(&table::rows(&outcomes, naive.as_ref(), disk)),
        verdict: verdict::verdict(&outcomes, naive.as_ref(), disk),
        records: vec![findings::json(&record)?],
        section: section::section(&outcomes, naive.as_ref(), disk),
        failure: unsound.map(|it| format!("{}: {}", it.plan.title(), it.finding())),
    })
}
