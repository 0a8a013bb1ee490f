//! Lines of log files: a file with its rotated files, plain or packed with gzip.
//!
//! The files are read from the oldest to the youngest, by the time of their last change. This time is the index: a file
//! that was last changed before `since` has no line that is wanted.
//!
//! A line's time is that at its beginning, behind a priority if there is one; a line without a time has that of the line
//! before. Lines without a priority count as notices.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use bytes::{Bytes, BytesMut};
use flate2::read::MultiGzDecoder;
use jiff::{Timestamp, civil, fmt::strtime, tz::TimeZone};

use super::{Output, Query, QueryError};
use crate::{
    frame::{Framer, Frames, Framing},
    parse,
    record::{LogRecord, SOURCE_NAME_BYTES_MAX},
};

const READ_BYTES: usize = 64 << 10;

/// A longer line is shown in parts.
const LINE_BYTES_MAX: usize = 1 << 20;

/// A time without a year is of the year before if it is so much later than the last change of its file.
const FUTURE_NS: u64 = 24 * 3_600 * 1_000_000_000;

/// A log file.
struct LogFile {
    path: PathBuf,
    name: String,
    changed_ns: u64,
}

pub(super) fn read(query: &Query, output: &mut Output<'_>) -> Result<(), QueryError> {
    let files = files(query)?;
    if files.is_empty() {
        return Err(QueryError::NoLog(query.path.clone()));
    }
    if let Some(lines) = query.lines {
        output.collect(lines);
    }
    let since_ns = query.filter.since_ns.unwrap_or(0);
    for file in files.iter().filter(|file| file.changed_ns >= since_ns) {
        match lines(query, file, output) {
            Ok(true) => {}
            Ok(false) => break,
            Err(FileError::Query(error)) => return Err(error),
            Err(FileError::Io(error)) => {
                output.damage(&format!("{}: {error}", file.path.display()))?;
            }
        }
    }
    Ok(())
}

/// The files of the log, the one that was changed last at the end.
fn files(query: &Query) -> Result<Vec<LogFile>, QueryError> {
    let is_directory = query.path.is_dir();
    let base = query
        .path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let directory = match query.path.parent() {
        _ if is_directory => &query.path,
        None => Path::new("."),
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(query.io())? {
        let entry = entry.map_err(query.io())?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        // `app.log`, `app.log.1`, `app.log.2.gz`, `app.log-20261123.gz`; not `app.log2`.
        let rest = name.strip_prefix(base);
        let is_rotated = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']));
        let metadata = entry.path().metadata().map_err(query.io())?;
        if metadata.is_file() && (is_directory || is_rotated) {
            let changed = metadata.modified().map_err(query.io())?;
            let changed = changed.duration_since(UNIX_EPOCH).unwrap_or_default();
            files.push(LogFile {
                path: entry.path(),
                name,
                changed_ns: u64::try_from(changed.as_nanos()).unwrap_or(u64::MAX),
            });
        }
    }
    // Of two files that were changed at once, `app.log.2` is the older one, and `app.log` the youngest.
    files.sort_by(|one, other| {
        let by_time = one.changed_ns.cmp(&other.changed_ns);
        by_time.then_with(|| other.name.cmp(&one.name))
    });
    Ok(files)
}

enum FileError {
    Io(io::Error),
    Query(QueryError),
}

impl From<QueryError> for FileError {
    fn from(error: QueryError) -> Self {
        Self::Query(error)
    }
}

/// Shows the lines of a file. Returns whether the next file may have some that are wanted.
fn lines(query: &Query, file: &LogFile, output: &mut Output<'_>) -> Result<bool, FileError> {
    let opened = File::open(&file.path).map_err(FileError::Io)?;
    let mut reader: Box<dyn Read> = match file.path.extension() {
        Some(extension) if extension == "gz" => {
            Box::new(MultiGzDecoder::new(io::BufReader::new(opened)))
        }
        _ => Box::new(opened),
    };
    let mut lines = Lines {
        query,
        file,
        source: source_name(&file.name),
        time_ns: None,
    };
    let mut framer = Framer::new(Framing::Newline, LINE_BYTES_MAX);
    loop {
        let mut bytes = BytesMut::zeroed(READ_BYTES);
        let count = match reader.read(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            count => count.map_err(FileError::Io)?,
        };
        bytes.truncate(count);
        let frames = match count {
            0 => framer.finish(),
            _ => framer.feed(Bytes::from(bytes)),
        };
        if !lines.show(&frames, output)? {
            return Ok(false);
        }
        if count == 0 {
            return Ok(!output.is_gone);
        }
    }
}

fn source_name(name: &str) -> &str {
    let mut end = name.len().min(SOURCE_NAME_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// The lines of one file.
struct Lines<'a> {
    query: &'a Query,
    file: &'a LogFile,
    source: &'a str,
    /// The time of the line before.
    time_ns: Option<u64>,
}

impl Lines<'_> {
    fn show(&mut self, frames: &Frames<'_>, output: &mut Output<'_>) -> Result<bool, QueryError> {
        for (frame, text) in frames.lines() {
            let parsed = parse::line_of_file(text);
            let time = parse::message(parsed.format, text).time;
            let zone = &self.query.zone;
            if let Some(time_ns) = time_ns(time, self.file.changed_ns, zone) {
                self.time_ns = Some(time_ns);
            }
            let line = LogRecord {
                received_ns: self.time_ns.unwrap_or(self.file.changed_ns),
                priority: parsed.priority,
                format: parsed.format,
                marks: parsed.marks.with(frame.marks),
                source: self.source,
                host_at: parsed.host_at,
                host_bytes: parsed.host_bytes,
                text,
            };
            if !output.line(None, &line)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The time that a line begins with. Without a zone it is local, without a year it is in the year before `changed_ns`.
fn time_ns(text: &[u8], changed_ns: u64, zone: &TimeZone) -> Option<u64> {
    let text = std::str::from_utf8(text)
        .ok()
        .filter(|text| !text.is_empty())?;
    let local = |time: civil::DateTime| Some(time.to_zoned(zone.clone()).ok()?.timestamp());
    let ns = |time: Timestamp| u64::try_from(time.as_nanosecond()).ok();
    if text.as_bytes()[0].is_ascii_digit() {
        let time = text.parse::<Timestamp>().ok();
        return ns(time.or_else(|| local(text.parse().ok()?))?);
    }
    for format in ["%b %e %Y %H:%M:%S%.f", "%b %e %H:%M:%S%.f %Y"] {
        if let Some(time) = strtime::parse(format, text)
            .ok()
            .and_then(|time| time.to_datetime().ok())
        {
            return ns(local(time)?);
        }
    }
    let changed = Timestamp::from_nanosecond(i128::from(changed_ns))
        .ok()?
        .to_zoned(zone.clone());
    let in_year = |year: i16| {
        let time = strtime::parse("%Y %b %e %H:%M:%S%.f", format!("{year} {text}")).ok()?;
        ns(local(time.to_datetime().ok()?)?)
    };
    let time = in_year(changed.year()).filter(|time| *time <= changed_ns.saturating_add(FUTURE_NS));
    // Also the 29th of February, which is not in every year.
    time.or_else(|| in_year(changed.year() - 1))
}
