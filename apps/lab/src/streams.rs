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
mod message;
mod naive;
mod page;
mod plan;
mod read_back;
mod record;
mod run;
mod table;
mod verdict;

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::{console::Console, interrupt::Interrupt, outputs::Outputs};
pub(crate) use args::{MESSAGES_DEFAULT, MESSAGES_MAX, SIZE_MAX, StreamsArgs, WRITERS_MAX};
use record::Record;
use run::Outcome;

/// What the scene is, for who meets it for the first time.
const SCENE: &str = "\
Many small messages to disk, coalesced in buffers, sealed by a chained hash, durable when they are said
to be; after an Erlang stream writer of 2013 (\"the original\" below).
";

/// Runs the scene as its arguments say, and shows what came of it.
pub(crate) fn show(args: &StreamsArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let plans = args.plans();
    let mut outputs = Outputs::open(&args.outputs, "streams.html")?;
    let room = args.room(&plans)?;
    let key = args.key()?;
    let console = Console::new(args.outputs.is_json_on_stdout());
    console.line(SCENE);
    let mut outcomes = Vec::new();
    for plan in &plans {
        if interrupt.has_come() {
            break;
        }
        let outcome = run::run(plan, room.path(), &key, &console, interrupt)?;
        let is_sound = outcome.is_sound();
        outcomes.push(outcome);
        if !is_sound {
            break;
        }
    }
    let naive = match args.naive() {
        Some(messages) if !interrupt.has_come() => {
            Some(naive::run(room.path(), messages, &console)?)
        }
        _ => None,
    };
    let table = crate::table::table(&table::rows(&outcomes, naive.as_ref()));
    console.result(&table, &verdict::verdict(&outcomes, naive.as_ref()));
    let record = Record {
        scene: "streams",
        runs: outcomes.iter().map(Outcome::record).collect(),
        naive: naive.clone(),
    };
    outputs.write(&record, || page::page(&outcomes, naive.as_ref()))?;
    console.check().context("cannot write the results")?;
    if let Some(unsound) = outcomes.iter().find(|outcome| !outcome.is_sound()) {
        anyhow::bail!("{}: {}", unsound.plan.title(), unsound.finding());
    }
    Ok(interrupt.exit_code())
}
