//! The safe and slow writer: it syncs each message by itself.

use std::{fs::File, io::Write, path::Path, time::Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use super::{
    Record,
    message::{Messages, Number},
    order::{Found, OrderCheck},
    plan::PlainRun,
    read_back,
};
use crate::{
    console::Console, figures::count, file_system::FileSystem, interrupt::Interrupt, scene::Run,
    section::Side,
};

/// Messages between two moves of the bar, and two checks for an interrupt.
const LOOK_EVERY: u64 = 16;

/// What it reached.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Naive {
    /// Bytes of a message; of a range, the mean.
    pub(super) size: usize,
    pub(super) messages: u64,
    pub(super) seconds: f64,
    pub(super) durable_per_s: f64,
    #[serde(flatten)]
    pub(super) found: Found,
    #[serde(skip)]
    pub(super) file_system: Option<FileSystem>,
}

/// One write and one `fdatasync` a message.
pub(super) fn run(
    plain: &PlainRun,
    directory: &Path,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<Run<Record>> {
    let sizes = plain.sizes;
    let title = format!("a sync for each, {sizes}");
    let parameters = format!("{title}: {} messages", count(plain.messages));
    console.line(&parameters);
    let path = directory.join("naive");
    let mut file = File::create_new(&path).context("cannot write the naive writer's file")?;
    let mut messages = Messages::new(0, sizes);
    console.start_bar(&title, plain.messages);
    let begun = Instant::now();
    let mut written = 0;
    while written < plain.messages {
        if written % LOOK_EVERY == 0 {
            if interrupt.has_come() {
                break;
            }
            console.move_bar(written, String::new());
        }
        let message = messages.get(Number::new(0, written));
        file.write_all(message)
            .and_then(|()| file.sync_data())
            .with_context(|| format!("{title}: message {}", count(written)))?;
        written += 1;
    }
    let seconds = begun.elapsed().as_secs_f64();
    console.end_bars();
    let found = read_back::plain_file(&path, sizes, OrderCheck::new(0, sizes, &[written]))?;
    std::fs::remove_file(path)?;
    let failure = (found.wrong() > 0).then(|| found.sentence(written));
    Ok(Run {
        parameters,
        title,
        // It loses nothing, so it is not the failure; a remark says how slow it is.
        side: Side::Neither,
        record: Record::Naive(Naive {
            size: sizes.mean(),
            messages: written,
            seconds,
            durable_per_s: written as f64 / seconds.max(1e-9),
            found,
            file_system: FileSystem::of(directory),
        }),
        figures: Vec::new(),
        tables: Vec::new(),
        failure,
    })
}
