//! The failure: a writer like the original's.
//!
//! ```text
//!   message ──▶ prepended to a list ──threshold──▶ a thread that writes the list: newest first
//!                      │                  │
//!         its rest is never written   the message that comes then is dropped
//! ```
//!
//! Nothing waits for the threads, so several write at the same time and overtake each other. Nothing is framed or synced.

use std::{
    collections::VecDeque,
    fs::{File, OpenOptions},
    io::{self, IoSlice, Write},
    path::Path,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Instant,
};

use anyhow::{Context, Result, anyhow};
use serde::Serialize;

use super::{
    Record,
    message::{Messages, Number},
    order::{Found, OrderCheck},
    plan::PlainRun,
    read_back,
    run::{LOOK_EVERY, line},
};
use crate::{
    console::Console, figures::count, file_system::FileSystem, interrupt::Interrupt, scene::Run,
    section::Side,
};

/// The original's first threshold, in bytes.
const FLUSH_BYTES: u64 = 50_000_000;

/// Flushes that a run has room for. The original's later thresholds, the bytes of two seconds, need a run of minutes.
const FLUSHES_MIN: u64 = 8;

/// Parts of one system call, as Erlang's runtime does it.
const PARTS_MAX: usize = 1_024;

/// What the original's writer reached.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Original {
    /// Bytes of a message; of a range, the mean.
    pub(super) size: usize,
    pub(super) messages: u64,
    /// Until the system had all that was flushed.
    pub(super) seconds: f64,
    /// The rate of accumulating, which the original printed.
    pub(super) accepted_per_s: f64,
    pub(super) flush_bytes: u64,
    pub(super) flushes: u64,
    #[serde(flatten)]
    pub(super) found: Found,
    #[serde(skip)]
    pub(super) file_system: Option<FileSystem>,
}

type Flush = JoinHandle<io::Result<()>>;

pub(super) fn run(
    plain: &PlainRun,
    directory: &Path,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<Run<Record>> {
    let PlainRun {
        sizes, messages, ..
    } = *plain;
    let total = messages.saturating_mul(sizes.mean() as u64);
    let flush_bytes = (total / FLUSHES_MIN).clamp(1, FLUSH_BYTES);
    let title = format!("the original's writer, {sizes}");
    let parameters = format!(
        "{title}: {} messages, flushes of {} bytes",
        count(messages),
        count(flush_bytes)
    );
    console.line(&parameters);
    console.start_bar(&title, messages);
    let path = directory.join("original");
    let begun = Instant::now();
    let (accepted, flushes) = accumulate(plain, &path, flush_bytes, console, interrupt)?;
    let accepted_seconds = begun.elapsed().as_secs_f64();
    let flushed = flushes.len() as u64;
    let mut failed = Vec::new();
    for flush in flushes {
        match flush.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => failed.push(error),
            Err(_) => return Err(anyhow!("a flush panicked")),
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    console.end_bars();
    let check = OrderCheck::new(0, sizes, &[accepted]);
    let found = read_back::plain_file(&path, sizes, check)?;
    std::fs::remove_file(&path)?;
    let failure = failed.first().map(|error| {
        format!(
            "{} of {flushed} flushes could not be written: {error}; {} of {} messages are lost",
            failed.len(),
            count(found.lost),
            count(accepted)
        )
    });
    Ok(Run {
        parameters,
        title,
        side: Side::Failure,
        record: Record::Original(Original {
            size: sizes.mean(),
            messages: accepted,
            seconds,
            accepted_per_s: accepted as f64 / accepted_seconds.max(1e-9),
            flush_bytes,
            flushes: flushed,
            found,
            file_system: FileSystem::of(directory),
        }),
        figures: Vec::new(),
        tables: Vec::new(),
        failure,
    })
}

/// Accepts the messages. Returns how many it has accepted, and the flushes that it has begun.
fn accumulate(
    plain: &PlainRun,
    path: &Path,
    flush_bytes: u64,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<(u64, Vec<Flush>)> {
    let file = OpenOptions::new().append(true).create_new(true).open(path);
    let file = Arc::new(file.context("cannot write the original's file")?);
    let mut messages = Messages::new(0, plain.sizes);
    let mut flushes = Vec::new();
    let mut list: VecDeque<Box<[u8]>> = VecDeque::new();
    let (mut bytes, mut since) = (0, Instant::now());
    for index in 0..plain.messages {
        if index % LOOK_EVERY == 0 {
            if interrupt.has_come() {
                return Ok((index, flushes));
            }
            console.move_bar(index, String::new());
        }
        if bytes < flush_bytes {
            let message = messages.get(Number::new(0, index));
            bytes += message.len() as u64;
            list.push_front(message.into());
            continue;
        }
        // The message that has come now is not in the list.
        let block = std::mem::take(&mut list);
        if plain.prints_flushes {
            let seconds = since.elapsed().as_secs_f64();
            console.line(&line("original", block.len() as u64, bytes, seconds));
        }
        (bytes, since) = (0, Instant::now());
        let file = file.clone();
        let flush = thread::Builder::new().name("flush".to_owned());
        flushes.push(
            flush
                .spawn(move || write(&file, block))
                .context("cannot start a flush")?,
        );
    }
    Ok((plain.messages, flushes))
}

/// Writes a block as it is.
fn write(mut file: &File, mut block: VecDeque<Box<[u8]>>) -> io::Result<()> {
    for part in block.make_contiguous().chunks(PARTS_MAX) {
        let mut slices: Vec<IoSlice<'_>> = part.iter().map(|it| IoSlice::new(it)).collect();
        let mut left = slices.as_mut_slice();
        while !left.is_empty() {
            match file.write_vectored(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => IoSlice::advance_slices(&mut left, bytes),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}
