//! The failure: a writer that syncs each message by itself.

use std::{fs::File, io::Write, path::Path, time::Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use super::{Record, message::Message};
use crate::{
    console::Console,
    figures::{count, three_figures},
    file_system::FileSystem,
    scene::Run,
    section::Side,
};

const SIZE: usize = 128;

/// What the naive writer reached.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Naive {
    pub(super) size: usize,
    pub(super) messages: u64,
    pub(super) seconds: f64,
    pub(super) durable_per_s: f64,
    #[serde(skip)]
    pub(super) file_system: Option<FileSystem>,
}

/// One write and one `fdatasync` a message.
pub(super) fn run(room: &Path, messages: u64, console: &Console) -> Result<Run<Record>> {
    let path = room.join("naive");
    let mut file = File::create(&path).context("cannot write the naive writer's file")?;
    let mut message = Message::new(0, SIZE);
    console.start_bar("naive", messages);
    let begun = Instant::now();
    for index in 0..messages {
        file.write_all(message.nth(index))?;
        file.sync_data()?;
        if index % 64 == 0 {
            console.move_bar(index, String::new());
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    console.end_bars();
    std::fs::remove_file(path)?;
    let durable_per_s = messages as f64 / seconds.max(1e-9);
    console.line(&format!(
        "naive, a write and an fdatasync a message of {SIZE} B: {} messages/s",
        three_figures(durable_per_s)
    ));
    let title = "naive, a sync for each".to_owned();
    Ok(Run {
        parameters: format!("{title}: {} messages of {SIZE} B", count(messages)),
        title,
        side: Side::Failure,
        record: Record::Naive(Naive {
            size: SIZE,
            messages,
            seconds,
            durable_per_s,
            file_system: FileSystem::of(room),
        }),
        figures: Vec::new(),
        tables: Vec::new(),
        failure: None,
    })
}
