//! `freeboard stream cat`: a stream's records, from anywhere.

use std::{
    fmt::Display,
    io::{self, Write},
    path::Path,
    process::ExitCode,
    str::FromStr,
};

use anyhow::{Context, Result};
use clap::Args;
use freeboard::stream::{
    ReadError, ReadFrom, ReaderOptions, StreamReader, format::segment_number, storage::Storage,
    stream_header,
};
use jiff::Timestamp;

use super::{KeyArgs, StreamArgs, Unchecked, line, open_storage};

/// Output is handed over in pieces of this size.
const PIECE_BYTES: usize = 64 << 10;

/// Knobs of `freeboard stream cat`.
#[derive(Debug, Clone, Args)]
pub(crate) struct CatArgs {
    #[command(flatten)]
    stream: StreamArgs,
    #[command(flatten)]
    key: KeyArgs,

    /// Begin with this record, or with what was written at this time: start, a sequence, or a time as
    /// 2026-11-21T10:00:00Z
    #[arg(long, value_name = "WHERE", default_value = "start")]
    from: Where,

    /// The youngest first, back to the beginning
    #[arg(long, conflicts_with = "from")]
    backwards: bool,

    /// Say what is damaged on standard error, and go on behind it
    #[arg(long, conflicts_with = "backwards")]
    skip_damage: bool,
}

/// Where to begin.
#[derive(Debug, Clone, Copy)]
struct Where(ReadFrom);

impl FromStr for Where {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "start" {
            return Ok(Self(ReadFrom::Start));
        }
        if let Ok(sequence) = text.parse() {
            return Ok(Self(ReadFrom::Sequence(sequence)));
        }
        let time = text.strip_prefix("time:").unwrap_or(text);
        let time: Timestamp = time
            .parse()
            .map_err(|_| format!("`{text}` is neither start, a sequence, nor a time"))?;
        // Before 1970 is the start, and what 64 bits cannot count is after all records.
        let time_ns = u64::try_from(time.as_nanosecond().max(0)).unwrap_or(u64::MAX);
        Ok(Self(ReadFrom::Time(time_ns)))
    }
}

/// Opens a stream to be read.
pub(super) fn open(stream: &StreamArgs, key: &KeyArgs, from: ReadFrom) -> Result<StreamReader> {
    let key = key.key(&stream.path)?;
    let unchecked = |error: &dyn Display| Unchecked(format!("{}: {error}", stream.path.display()));
    let (storage, _) = open_storage(&stream.path)
        .map_err(|error| unchecked(&format!("cannot open the directory: {error}")))?;
    let header = stream_header(storage.as_ref(), None).ok();
    if key.is_none() && header.is_some_and(|header| header.algorithm.is_sealed()) {
        // Nobody may be there to read it.
        let _ = writeln!(
            io::stderr(),
            "no key: checksums are checked, and tags are not"
        );
    }
    ReaderOptions::new()
        .from(from)
        .key(key)
        .open_on(storage)
        .map_err(|error| unchecked(&error).into())
}

pub(super) fn cat(args: &CatArgs) -> Result<ExitCode> {
    let is_json = args.stream.json;
    if args.backwards {
        let mut reader = open(&args.stream, &args.key, ReadFrom::Tail)?;
        // What looks like the end may be damage, which shows when it is read on.
        reader.next_ref()?;
        let mut out = Output::default();
        for record in reader.backwards() {
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    out.flush()?;
                    return Err(error.into());
                }
            };
            let record = freeboard::stream::RecordRef {
                sequence: record.sequence,
                time_ns: record.time_ns,
                payload: &record.payload,
            };
            line::write(record, is_json, &mut out.piece);
            if !out.is_wanted()? {
                return Ok(ExitCode::SUCCESS);
            }
        }
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut reader = open(&args.stream, &args.key, args.from.0)?;
    let mut out = Output::default();
    let mut code = ExitCode::SUCCESS;
    loop {
        match reader.next_ref() {
            Ok(Some(record)) => line::write(record, is_json, &mut out.piece),
            Ok(None) => break,
            Err(error @ ReadError::Damaged { .. }) if args.skip_damage => {
                out.flush()?;
                // Nobody may be there to read it.
                let _ = writeln!(io::stderr(), "damaged: {error}");
                code = ExitCode::FAILURE;
                reader.skip_damage()?;
            }
            Err(error) => {
                out.flush()?;
                return Err(error.into());
            }
        }
        if !out.is_wanted()? {
            return Ok(code);
        }
    }
    out.flush()?;
    if let Some(torn) = torn(&args.stream.path, &mut reader)? {
        return Err(torn);
    }
    Ok(code)
}

/// What is wrong with the end that was come to, if there is no stream, or nobody writes the chunk that
/// stands there.
pub(super) fn torn(path: &Path, reader: &mut StreamReader) -> Result<Option<anyhow::Error>> {
    if reader.next_sequence() == 1 && is_empty(reader.storage().as_ref())? {
        let nothing = Unchecked(format!("{}: there is no stream", path.display()));
        return Ok(Some(nothing.into()));
    }
    let Some(torn) = reader.torn_end()? else {
        return Ok(None);
    };
    // Who writes it has the lock.
    let is_written = reader.storage().is_locked();
    Ok((!is_written).then(|| torn.into()))
}

/// Whether there is not one segment.
fn is_empty(storage: &dyn Storage) -> Result<bool> {
    let names = storage.list().context("cannot list the directory")?;
    Ok(!names.iter().any(|name| segment_number(name).is_some()))
}

/// Standard output, in pieces.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub(super) piece: Vec<u8>,
    is_gone: bool,
}

impl Output {
    /// Hands a full piece over; whether anybody still reads.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub(super) fn is_wanted(&mut self) -> Result<bool> {
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(!self.is_gone)
    }

    /// Hands over what there is.
    ///
    /// # Errors
    /// Any but that the reader has gone.
    pub(super) fn flush(&mut self) -> Result<()> {
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(&self.piece).and_then(|()| stdout.flush());
        self.piece.clear();
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_gone = true;
                Ok(())
            }
            written => written.context("cannot write to standard output"),
        }
    }
}
