//! `freeboard stream append`: standard input, sealed line by line.

use std::{
    collections::BTreeSet,
    io::{self, BufRead, Read, Write},
    path::Path,
    process::ExitCode,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use freeboard::stream::{
    AppendError, Head, OpenError, Retention, StreamOptions, StreamWriter,
    format::{Algorithm, SealUnit},
    storage::{Disk, Storage},
    stream_header,
};
use serde::Serialize;

use super::{KeyArgs, SealArgs, StreamArgs};
use crate::{
    console,
    figures::{count, counted},
    interrupt::Interrupt,
    usage::Usage,
};

/// The largest value of `--line-bytes-max`: a record and what surrounds it fit into half of a stream's 64 MiB of memory.
const LINE_BYTES_LIMIT: i64 = 31 << 20;

/// How long after a full disk it is tried again.
const RETRY: Duration = Duration::from_millis(100);

/// Knobs of `freeboard stream append`.
#[derive(Debug, Clone, Args)]
pub(crate) struct AppendArgs {
    #[command(flatten)]
    stream: StreamArgs,
    #[command(flatten)]
    seal: SealArgs,
    #[command(flatten)]
    key: KeyArgs,

    /// Bytes of a segment file, at least 65536; for this run only
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    segment_bytes: u64,

    /// Delete the oldest segments while the stream takes more bytes; at least twice --segment-bytes, because the file
    /// that is being written counts with its full size; for this run only
    #[arg(long, value_name = "BYTES")]
    keep_bytes: Option<u64>,

    /// Delete segments whose records are older than this many seconds, up to ten years; for this run only
    #[arg(long, value_name = "SECONDS", value_parser = crate::parse::age)]
    keep_age: Option<Duration>,

    /// The longest line, in bytes, at most 31 MiB
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 20,
          value_parser = clap::value_parser!(u32).range(1..=LINE_BYTES_LIMIT))]
    line_bytes_max: u32,
}

#[derive(Debug, Serialize)]
struct Summary {
    records: u64,
    /// Of the lines; unknown where Ctrl-C came between them.
    bytes: Option<u64>,
    durable: u64,
    head: Option<String>,
}

pub(super) fn append(args: &AppendArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let stream = open(args)?;
    let closing = stream.clone();
    let is_json = args.stream.json;
    let interrupted = interrupt.clone();
    let _listening = interrupt.listen(move || {
        // The main thread waits for input that may never come.
        let ended = finish(&closing, None, is_json);
        std::process::exit(if ended.is_ok() {
            i32::from(interrupted.code())
        } else {
            1
        });
    });
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    let (mut lines, mut bytes) = (0u64, 0u64);
    let failed = loop {
        line.clear();
        // Not a byte more than it takes to know that the line is too long.
        let mut rest = input.by_ref().take(u64::from(args.line_bytes_max) + 1);
        match rest.read_until(b'\n', &mut line) {
            Ok(0) => break None,
            Ok(_) => {}
            Err(error) => break Some(format!("standard input: {error}")),
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        if text.len() > args.line_bytes_max as usize {
            break Some(format!(
                "line {} has more than {} bytes: raise --line-bytes-max",
                lines + 1,
                count(args.line_bytes_max.into())
            ));
        }
        if let Err(error) = append_line(&stream, text) {
            break Some(format!("line {}: {error}", lines + 1));
        }
        lines += 1;
        bytes += text.len() as u64;
    };
    // It ends by itself now. Where a Ctrl-C came first, this waits until that has ended the process.
    let _ending = interrupt.listen(|| {});
    let summary = finish(&stream, Some(bytes), is_json);
    match failed {
        Some(reason) => bail!(
            "{reason}; the {} before it {} appended",
            counted(lines, "line"),
            if lines == 1 { "was" } else { "were" }
        ),
        None => summary.map(|()| ExitCode::SUCCESS),
    }
}

fn open(args: &AppendArgs) -> Result<StreamWriter> {
    let path = &args.stream.path;
    // Anything less deletes nearly all that is there as soon as the next file is made ready.
    let keep_bytes_min = args.segment_bytes.saturating_mul(2);
    if let Some(bytes) = args.keep_bytes.filter(|bytes| *bytes < keep_bytes_min) {
        return Err(Usage::new(format!(
            "--keep-bytes {bytes} is less than two segments: give {keep_bytes_min} or more, or smaller --segment-bytes"
        ))
        .into());
    }
    let key = args.key.key(path)?;
    // A stream that is there knows how it is sealed.
    let there = Disk::open(path).ok();
    let known = there
        .as_ref()
        .and_then(|disk| stream_header(disk, None).ok())
        .map(|header| (header.algorithm, header.unit));
    let by_default = match key {
        Some(_) => (Algorithm::Blake3, SealUnit::Batch),
        None => Default::default(),
    };
    let (seal, unit) = known.unwrap_or(by_default);
    let is_sealed = args.seal.seal.unwrap_or(seal).is_sealed();
    // With another seal than the stream has, the error is about that.
    if key.is_some() && !is_sealed && !known.is_some_and(|(seal, _)| seal.is_sealed()) {
        let text = "a key is named, and with the seal none it would not be used";
        return Err(Usage::new(format!("{}: {text}", path.display())).into());
    }
    let aside = set_aside(path);
    let mut options = StreamOptions::new()
        .seal(
            args.seal.seal.unwrap_or(seal),
            args.seal.seal_unit.unwrap_or(unit),
        )
        .sync(args.seal.sync.unwrap_or_default())
        .segment_bytes(args.segment_bytes)
        .record_bytes_max(args.line_bytes_max as usize)
        .retention(Retention {
            bytes: args.keep_bytes,
            age: args.keep_age,
            acknowledged: false,
        });
    if let Some(key) = key {
        options = options.key(key);
    }
    match options.open(path) {
        Ok(stream) => {
            for name in set_aside(path).difference(&aside) {
                // Nobody may be there to read it.
                let _ = writeln!(
                    io::stderr(),
                    "what stood behind the last whole record was set aside: {name}"
                );
            }
            Ok(stream)
        }
        Err(error @ (OpenError::Option { .. } | OpenError::KeyMissing { .. })) => {
            Err(Usage::new(format!("{error}{}", hint(&error))).into())
        }
        Err(error @ (OpenError::OtherSeal { .. } | OpenError::WrongKey { .. })) => {
            Err(Usage::new(format!("{}: {error}", path.display())).into())
        }
        // Its text tells of its source.
        Err(error) => Err(anyhow!("{}: {error}{}", path.display(), hint(&error))),
    }
}

/// The names of what was set aside in a stream's directory.
fn set_aside(path: &Path) -> BTreeSet<String> {
    let names = Disk::open(path).and_then(|disk| disk.list());
    let names = names.unwrap_or_default().into_iter();
    names.filter(|name| name.ends_with(".broken")).collect()
}

fn hint(error: &OpenError) -> &'static str {
    match error {
        OpenError::KeyMissing { .. } => ": name one with --key-file or --key-env",
        OpenError::Locked => " and holds its stream.lock",
        _ => "",
    }
}

/// Appends one line; waits while the disk is full.
fn append_line(stream: &StreamWriter, line: &[u8]) -> Result<(), AppendError> {
    let mut is_told = false;
    loop {
        match stream.append(line) {
            // What becomes of it is seen at the end, by the stream's counts.
            Ok(_ticket) => return Ok(()),
            Err(error @ (AppendError::DiskFull | AppendError::Reopening)) => {
                if !is_told {
                    // Nobody may be there to read it.
                    let _ = writeln!(io::stderr(), "{error}; waiting");
                    is_told = true;
                }
                thread::sleep(RETRY);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Closes the stream and says what it has.
fn finish(stream: &StreamWriter, bytes: Option<u64>, is_json: bool) -> Result<()> {
    let head: Option<Head> = stream.clone().close().context("the stream did not close")?;
    let snapshot = stream.snapshot();
    let records = snapshot.accepted - snapshot.recovered;
    if is_json {
        let summary = Summary {
            records,
            bytes,
            durable: snapshot.durable,
            head: head.map(|head| head.to_string()),
        };
        let text = serde_json::to_string(&summary)? + "\n";
        console::write_stdout(&text).context("cannot write to standard output")?;
    } else {
        let head = head.map_or_else(|| "no records".to_owned(), |head| format!("head {head}"));
        // Nobody may be there to read it.
        let _ = writeln!(
            io::stderr(),
            "{} appended; {head}",
            counted(records, "line")
        );
    }
    let lost = snapshot.records_unknown + snapshot.records_unwritten;
    if lost > 0 {
        bail!(
            "{} lines are not known to be durable: {}",
            count(lost),
            stream.fault().unwrap_or_default()
        );
    }
    Ok(())
}
