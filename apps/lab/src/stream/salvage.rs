//! `freeboard stream salvage`: what is whole, into a new stream.

use std::{
    fs,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context, Result};
use clap::Args;
use freeboard::{
    flow::LaneConfig,
    stream::{
        RecordRef, SalvageOptions, StreamOptions, StreamWriter, salvage as salvage_stream,
        storage::Disk, stream_header,
    },
};
use serde_json::json;

use super::{KeyArgs, StreamArgs, Unchecked};
use crate::{
    console::{self, Console},
    figures::{count, counted, mebibytes},
    usage::Usage,
};

/// Knobs of `freeboard stream salvage`.
#[derive(Debug, Clone, Args)]
pub(crate) struct SalvageArgs {
    #[command(flatten)]
    stream: StreamArgs,

    /// The directory of the new stream, which does not exist or is empty
    #[arg(value_name = "TO")]
    to: PathBuf,

    #[command(flatten)]
    key: KeyArgs,

    /// Copy records too whose checksums hold and whose tags do not: somebody may have altered them
    #[arg(long)]
    doubtful: bool,
}

pub(super) fn salvage(args: &SalvageArgs) -> Result<ExitCode> {
    let path = &args.stream.path;
    if fs::read_dir(&args.to).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Usage::new(format!("{} is not empty", args.to.display())).into());
    }
    let key = args.key.key(path)?;
    let unchecked = |error: String| Unchecked(format!("{}: {error}", path.display()));
    let disk = Disk::open_stream(path).map_err(|error| unchecked(error.to_string()))?;
    let header =
        stream_header(&disk, key.as_ref()).map_err(|error| unchecked(error.to_string()))?;
    let mut options = StreamOptions::new()
        .memory(LaneConfig::bounded(256 << 20))
        .record_bytes_max(64 << 20);
    // Sealed alike, if there is a key to do it with.
    if let Some(key) = &key {
        options = options.seal(header.algorithm, header.unit).key(key.clone());
    }
    if key.is_none() && header.algorithm.is_sealed() {
        // Nobody may be there to read it.
        let _ = writeln!(
            io::stderr(),
            "no key: what is sealed with {} is not checked against it, and the copy is not sealed",
            header.algorithm
        );
    }
    let console = Console::new(true);
    let mut to: Option<StreamWriter> = None;
    let mut is_started = false;
    let report = salvage_stream(
        &disk,
        key.as_ref(),
        &SalvageOptions {
            doubtful: args.doubtful,
        },
        &mut |progress| {
            if !is_started {
                console.start_bar("salvage", progress.bytes_total);
                is_started = true;
            }
            console.move_bar(progress.bytes_done, mebibytes(progress.bytes_done));
        },
        &mut |record: RecordRef<'_>| {
            let stream = match &to {
                Some(stream) => stream,
                None => to.insert(options.open(&args.to).map_err(io::Error::other)?),
            };
            // The close makes all of it durable, or says that it could not.
            let appended = stream.append(record.payload);
            appended.map(|_ticket| ()).map_err(io::Error::other)
        },
    );
    console.end_bars();
    let report = report.map_err(|error| unchecked(error.to_string()))?;
    let mut head = None;
    if let Some(stream) = to {
        let snapshot = stream.clone();
        head = stream
            .close()
            .with_context(|| args.to.display().to_string())?;
        let snapshot = snapshot.snapshot();
        if snapshot.records_unknown + snapshot.records_unwritten > 0 {
            anyhow::bail!("{}: not everything could be written", args.to.display());
        }
    }
    let text = if args.stream.json {
        json!({
            "copied": report.copied,
            "doubtful": report.doubtful,
            "lost": report.lost,
            "unreadable": report.unreadable,
            "head": head.map(|head| head.to_string()),
        })
        .to_string()
    } else {
        let lost: Vec<String> = report
            .lost
            .iter()
            .map(|(first, last)| format!("lost: records {first} to {last}\n"))
            .collect();
        let unreadable: Vec<String> = report
            .unreadable
            .iter()
            .map(|(segment, offset)| {
                format!("unreadable: segment {segment} at byte {offset}; how many records is not known\n")
            })
            .collect();
        format!(
            "{}{}{} copied to {}, {} doubtful{}{}",
            lost.concat(),
            unreadable.concat(),
            counted(report.copied, "record"),
            args.to.display(),
            count(report.doubtful),
            if args.doubtful {
                " among them"
            } else {
                " left out"
            },
            head.map_or_else(String::new, |head| {
                format!("\nnumbered from 1; head {head}")
            })
        )
    };
    console::write_stdout(&(text + "\n")).context("cannot write to standard output")?;
    let is_all = report.lost.is_empty()
        && report.unreadable.is_empty()
        && (report.doubtful == 0 || args.doubtful);
    Ok(if is_all {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
