//! `freeboard stream archive`: a stream in a bucket, or in another directory.

use std::{
    io::{self, Write},
    ops::ControlFlow,
    process::ExitCode,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use freeboard::stream::{
    archive::{ArchiveError, ArchiveOptions, ArchiveReport, Archiver, Keep},
    storage::Disk,
};
use serde_json::json;

use super::{KeyArgs, StreamArgs, Unchecked};
use crate::{
    console::{self, Console},
    figures::{counted, mebibytes, size},
    interrupt::Interrupt,
    parse,
    usage::Usage,
};

/// The pause between two passes of `--follow`.
const POLL: Duration = Duration::from_secs(1);

/// The longest pause after a pass that failed; the first is that between two passes, and each is twice the one before.
const RETRY_MAX: Duration = Duration::from_secs(60);

/// How soon an interrupt ends a pause.
const NAP: Duration = Duration::from_millis(50);

/// Knobs of `freeboard stream archive`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ArchiveArgs {
    #[command(flatten)]
    stream: StreamArgs,
    #[command(flatten)]
    key: KeyArgs,

    /// The archive: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///PATH
    #[arg(long, value_name = "URL")]
    to: String,

    /// Go on until Ctrl-C: send each segment when it is finished
    #[arg(long)]
    follow: bool,

    /// Send and receive at most so many bytes per second, as 500000, 200K or 20M
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes)]
    rate: Option<u64>,

    /// Remove the oldest segments from the archive while it has more bytes, as 500G; a sealed stream needs the key
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes)]
    keep_bytes: Option<u64>,

    /// Remove segments from the archive whose records are older than this many seconds; a sealed stream needs the key
    #[arg(long, value_name = "SECONDS", value_parser = parse::age)]
    keep_age: Option<Duration>,

    /// Remove the archived segments from the directory, but for the last; the stream must have no writer, and a sealed
    /// one needs the key
    #[arg(long, conflicts_with = "follow")]
    retire: bool,
}

pub(super) fn archive(args: &ArchiveArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let path = &args.stream.path;
    let unchecked = |error: String| Unchecked(format!("{}: {error}", path.display()));
    let key = args.key.key(path)?;
    let disk = Disk::open_stream(path).map_err(|error| unchecked(error.to_string()))?;
    let mut archiver = Archiver::new(Arc::new(disk), open(&args.to, args.rate)?)
        .key(key)
        .keep(Keep {
            bytes: args.keep_bytes,
            age: args.keep_age,
        });
    // The first one ends the run in order.
    let _listening = interrupt.listen(|| {});
    let mut sum = ArchiveReport::default();
    let failed = if args.follow {
        follow(&mut archiver, &mut sum, interrupt).err()
    } else {
        pass(&mut archiver, true, &mut sum, &|| interrupt.has_come()).err()
    };
    if matches!(failed, Some(ArchiveError::Stopped)) {
        say("stopped; the next run continues");
        return Ok(interrupt.exit_code());
    }
    if let Some(error) = failed {
        return Err(error).with_context(|| format!("{} to {}", path.display(), args.to));
    }
    let retired = if args.retire { archiver.retire()? } else { 0 };
    report(args, &sum, retired)?;
    Ok(if args.follow {
        interrupt.exit_code()
    } else {
        ExitCode::SUCCESS
    })
}

/// Opens an archive.
pub(super) fn open(url: &str, rate: Option<u64>) -> Result<freeboard::stream::archive::Archive> {
    let mut options = ArchiveOptions::new();
    if let Some(rate) = rate {
        options = options.rate_max(rate);
    }
    let archive = options.open(url);
    archive.map_err(|error| Usage::new(error.to_string()).into())
}

fn pass(
    archiver: &mut Archiver,
    with_end: bool,
    sum: &mut ArchiveReport,
    must_stop: &dyn Fn() -> bool,
) -> Result<(), ArchiveError> {
    let console = Console::new(true);
    let mut segment = 0;
    let done = archiver.pass(with_end, &mut |progress| {
        if segment != progress.segment {
            console.end_bars();
            let title = format!("segment {}", progress.segment);
            console.start_bar(&title, progress.segment_bytes);
            segment = progress.segment;
        }
        console.move_bar(progress.sent_bytes, mebibytes(progress.sent_bytes));
        if must_stop() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    console.end_bars();
    let done = done?;
    sum.segments += done.segments;
    sum.bytes += done.bytes;
    sum.removed += done.removed;
    sum.archived_record = done.archived_record;
    sum.head = done.head;
    Ok(())
}

/// Archives what is finished until an interrupt, and then the end.
fn follow(
    archiver: &mut Archiver,
    sum: &mut ArchiveReport,
    interrupt: &Interrupt,
) -> Result<(), ArchiveError> {
    let mut pause = POLL;
    loop {
        let is_last = interrupt.has_come();
        match pass(archiver, is_last, sum, &|| false) {
            Ok(()) if is_last => return Ok(()),
            Ok(()) => pause = POLL,
            Err(error) if error.is_temporary() && !is_last => {
                say(&format!("{error}; the next attempt is in {pause:?}"));
                wait(pause, interrupt);
                pause = (pause * 2).min(RETRY_MAX);
                continue;
            }
            Err(error) => return Err(error),
        }
        wait(POLL, interrupt);
    }
}

fn wait(pause: Duration, interrupt: &Interrupt) {
    let until = Instant::now() + pause;
    while !interrupt.has_come() && Instant::now() < until {
        thread::sleep(NAP);
    }
}

fn say(text: &str) {
    // Nobody may be there to read it.
    let _ = writeln!(io::stderr(), "{text}");
}

fn report(args: &ArchiveArgs, sum: &ArchiveReport, retired: u64) -> Result<()> {
    let head = sum.head.map(|head| head.to_string());
    let text = if args.stream.json {
        json!({
            "segments": sum.segments,
            "bytes": sum.bytes,
            "removed": sum.removed,
            "retired": retired,
            "archived_record": sum.archived_record,
            "head": head,
        })
        .to_string()
    } else {
        let mut text = format!(
            "{}, {}, sent",
            counted(sum.segments, "segment"),
            size(sum.bytes)
        );
        if sum.removed > 0 {
            text += &format!(
                "; {} removed from the archive",
                counted(sum.removed, "segment")
            );
        }
        if retired > 0 {
            text += &format!("; {} removed here", counted(retired, "segment"));
        }
        match head {
            Some(head) => {
                text + &format!(
                    "\narchived up to record {}; head {head}",
                    sum.archived_record
                )
            }
            None => text + "\nnothing is archived yet",
        }
    };
    console::write_stdout(&(text + "\n")).context("cannot write to standard output")
}
