//! `freeboard stream restore`: an archive, back in a directory.

use std::{ops::ControlFlow, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use clap::Args;
use freeboard::stream::{
    Head,
    archive::{ArchiveError, RestoreEnd, RestoreOptions, restore as restore_stream},
};
use jiff::Timestamp;
use serde_json::json;

use super::{KeyArgs, archive};
use crate::{
    console::{self, Console},
    figures::{counted, mebibytes, size},
    interrupt::Interrupt,
    parse,
    usage::Usage,
};

/// Knobs of `freeboard stream restore`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RestoreArgs {
    /// The archive: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///PATH
    #[arg(value_name = "URL")]
    from: String,

    /// The directory of the stream, which does not exist or is empty
    #[arg(value_name = "PATH")]
    path: PathBuf,

    #[command(flatten)]
    key: KeyArgs,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// End with this record, or with the last batch before it
    #[arg(long, value_name = "SEQUENCE", conflicts_with = "to_time")]
    to_record: Option<u64>,

    /// End with what was written at this time, as 2026-11-21T10:00:00Z
    #[arg(long, value_name = "TIME")]
    to_time: Option<Timestamp>,

    /// A head that was kept elsewhere, which the archive must have: SEQUENCE:TAG
    #[arg(long, value_name = "SEQ:TAG", conflicts_with_all = ["to_record", "to_time"])]
    expect_head: Option<Head>,

    /// Receive at most so many bytes per second, as 500000, 200K or 20M
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes)]
    rate: Option<u64>,
}

pub(super) fn restore(args: &RestoreArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let key = args.key.key(&args.path)?;
    let archive = archive::open(&args.from, args.rate)?;
    let time_ns = |time: Timestamp| u64::try_from(time.as_nanosecond().max(0)).unwrap_or(u64::MAX);
    let end = match (args.to_record, args.to_time) {
        (Some(record), _) => RestoreEnd::Sequence(record),
        (None, Some(time)) => RestoreEnd::Time(time_ns(time)),
        (None, None) => RestoreEnd::Archive,
    };
    let options = RestoreOptions {
        end,
        expect_head: args.expect_head,
    };
    let _listening = interrupt.listen(|| {});
    let console = Console::new(true);
    let mut is_started = false;
    let mut tell = |progress: freeboard::stream::Progress| {
        if !is_started {
            console.start_bar("restore", progress.bytes_total);
            is_started = true;
        }
        console.move_bar(progress.bytes_done, mebibytes(progress.bytes_done));
        match interrupt.has_come() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let restored = restore_stream(&archive, &args.path, key.as_ref(), &options, &mut tell);
    console.end_bars();
    let restored = match restored {
        Err(ArchiveError::Stopped) => return Ok(interrupt.exit_code()),
        Err(error @ ArchiveError::NotEmpty(_)) => return Err(Usage::new(error.to_string()).into()),
        restored => restored.with_context(|| args.from.clone())?,
    };
    let verified = &restored.verified;
    let head = verified.head.map(|head| head.to_string());
    let text = if args.json {
        json!({
            "fetched_bytes": restored.bytes,
            "records": verified.records,
            "first_record": verified.first_record,
            "last_record": verified.last_record,
            "tags_checked": verified.tags_checked,
            "head": head,
        })
        .to_string()
    } else {
        format!(
            "whole: {}, {} to {}, {}, restored to {}{}",
            counted(verified.records, "record"),
            verified.first_record,
            verified.last_record,
            size(verified.bytes),
            args.path.display(),
            head.map_or_else(String::new, |head| format!("\nhead {head}")),
        )
    };
    console::write_stdout(&(text + "\n")).context("cannot write to standard output")?;
    Ok(ExitCode::SUCCESS)
}
