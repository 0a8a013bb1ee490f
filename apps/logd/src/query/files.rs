//! Lines of log files: a file with its rotated files, plain or packed with gzip.
//!
//! The files are read from the oldest to the youngest, by the time of their last change. This time is the index: a file
//! that was last changed before `since` has no line that is wanted.
//!
//! A line's time is that at its beginning, behind a priority if there is one; a line without a time has that of the line
//! before. Lines without a priority count as notices.
//!
//! All files are opened before the first is read, and listed again if a name has changed meanwhile: beside a writer that
//! rotates and packs, no line is missing and none comes twice. A reader that follows the log stays with its file until
//! another one has the name, reads it to its end, and then those that came after it.

use std::{
    fs::{self, File, Metadata},
    io::{self, Read, Seek as _},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, UNIX_EPOCH},
};

use bytes::{Bytes, BytesMut};
use flate2::read::MultiGzDecoder;
use jiff::{Timestamp, civil, fmt::strtime, tz::TimeZone};

use super::{Output, Query, QueryError};
use crate::{
    batch::Format,
    frame::{Framer, Frames, Framing},
    parse,
    record::{LogRecord, SOURCE_NAME_BYTES_MAX},
};

/// The end of the name of a file that is packed with gzip.
const PACKED: &str = ".gz";

const READ_BYTES: usize = 64 << 10;

/// A longer line is shown in parts.
const LINE_BYTES_MAX: usize = 1 << 20;

/// A time without a year is of the year before if it is so much later than the last change of its file.
const FUTURE_NS: u64 = 24 * 3_600 * 1_000_000_000;

/// How often the files are listed again because they changed while they were opened. Rotation is rare: once is much.
const LISTINGS_MAX: usize = 100;

/// How long a reader that follows waits for the file at first, if there are only rotated ones.
const ROTATION: Duration = Duration::from_secs(5);

/// How long a reader that follows waits before it reads again.
const WAIT: Duration = Duration::from_millis(100);

/// A log file, open: it stays what it is if it is renamed, packed or removed.
struct LogFile {
    path: PathBuf,
    name: String,
    file: File,
    /// Its device and its number there.
    identity: (u64, u64),
    changed_ns: u64,
    /// Whether it is the one that lines are appended to.
    is_active: bool,
}

impl LogFile {
    /// `None`: it is no file.
    fn open(path: PathBuf, name: String, is_active: bool) -> io::Result<Option<Self>> {
        let file = File::open(&path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Ok(None);
        }
        Ok(Some(Self {
            path,
            name,
            file,
            identity: (metadata.dev(), metadata.ino()),
            changed_ns: changed_ns(&metadata)?,
            is_active,
        }))
    }

    fn is_packed(&self) -> bool {
        self.name.ends_with(PACKED)
    }

    fn reader(&self) -> io::Result<Box<dyn Read>> {
        let file = self.file.try_clone()?;
        Ok(if self.is_packed() {
            Box::new(MultiGzDecoder::new(io::BufReader::new(file)))
        } else {
            Box::new(file)
        })
    }
}

fn changed_ns(metadata: &Metadata) -> io::Result<u64> {
    let changed = metadata.modified()?.duration_since(UNIX_EPOCH);
    let changed = changed.unwrap_or_default();
    Ok(u64::try_from(changed.as_nanos()).unwrap_or(u64::MAX))
}

pub(super) fn read(query: &Query, output: &mut Output<'_>) -> Result<(), QueryError> {
    if query.follow && query.path.is_dir() {
        return Err(QueryError::Follow(query.path.clone()));
    }
    let since_ns = query.filter.since_ns.unwrap_or(0);
    let mut files = files(query, since_ns, output)?;
    let deadline = Instant::now() + ROTATION;
    // Between two files of a rotation there is none with this name.
    while query.follow
        && !files.last().is_some_and(|file| file.is_active)
        && Instant::now() < deadline
        && !output.is_done()
    {
        thread::sleep(WAIT);
        files = self::files(query, since_ns, output)?;
    }
    if let Some(lines) = query.lines {
        output.collect(lines);
    }
    let followed = files.pop_if(|file| query.follow && file.is_active);
    if !read_all(query, &files, output)? {
        return Ok(());
    }
    match followed {
        Some(file) => follow(query, file, output),
        None if query.follow => Err(QueryError::NoLog(query.path.clone())),
        None => Ok(()),
    }
}

/// Shows the lines of these files. Returns whether the next file may have some that are wanted.
fn read_all(query: &Query, files: &[LogFile], output: &mut Output<'_>) -> Result<bool, QueryError> {
    for file in files {
        let mut read = || -> Result<bool, FileError> {
            let mut lines = Lines::new(query, file).map_err(FileError::Io)?;
            Ok(lines.read_on(output)? && lines.finish(output)?)
        };
        match read() {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(FileError::Query(error)) => return Err(error),
            Err(FileError::Io(error)) => {
                output.damage(&format!("{}: {error}", file.path.display()))?;
            }
        }
    }
    Ok(true)
}

/// Shows the lines of a file as they come, and of those that take its name after it.
fn follow(query: &Query, mut file: LogFile, output: &mut Output<'_>) -> Result<(), QueryError> {
    loop {
        match follow_one(query, &file, output) {
            Ok(true) => file = next_followed(query, file, output)?,
            Ok(false) => return Ok(()),
            Err(FileError::Query(error)) => return Err(error),
            Err(FileError::Io(error)) => {
                let path = file.path;
                return Err(QueryError::Io { path, error });
            }
        }
    }
}

/// Shows the lines of a file as they come. Returns whether to read on: another file has its name now, or it was cut.
fn follow_one(query: &Query, file: &LogFile, output: &mut Output<'_>) -> Result<bool, FileError> {
    let mut lines = Lines::new(query, file).map_err(FileError::Io)?;
    loop {
        // First, so that what was written before it got another name is read after this.
        let is_renamed = match query.path.metadata() {
            Ok(metadata) => (metadata.dev(), metadata.ino()) != file.identity,
            // It was renamed or removed, and the next one is not there yet.
            Err(_) => false,
        };
        let metadata = file.file.metadata().map_err(FileError::Io)?;
        lines.shown.changed_ns = changed_ns(&metadata).map_err(FileError::Io)?;
        if metadata.len() < lines.position {
            lines.finish(output)?;
            let name = file.path.display();
            output.remark(&format!("{name} was cut: reading goes on at its beginning"));
            (&file.file).rewind().map_err(FileError::Io)?;
            return Ok(true);
        }
        if !lines.read_on(output)? {
            return Ok(false);
        }
        output.show_last()?;
        output.flush()?;
        if output.is_done() {
            return Ok(false);
        }
        if is_renamed {
            return Ok(lines.finish(output)?);
        }
        thread::sleep(WAIT);
    }
}

/// The file that has the name now. It may not have been the next one: those between are shown.
fn next_followed(
    query: &Query,
    file: LogFile,
    output: &mut Output<'_>,
) -> Result<LogFile, QueryError> {
    let last = file.file.metadata().and_then(|it| changed_ns(&it));
    let last_ns = last.unwrap_or(file.changed_ns);
    let mut newer = match files(query, last_ns, output) {
        Ok(newer) => newer,
        // It is not there at the moment.
        Err(QueryError::NoLog(_)) => return Ok(file),
        Err(error) => return Err(error),
    };
    // What was packed has the time of the last change of the file that was read.
    let is_read = |other: &LogFile| {
        other.identity == file.identity || other.is_packed() && other.changed_ns == last_ns
    };
    if let Some(at) = newer.iter().rposition(is_read) {
        newer.drain(..=at);
    }
    let Some(next) = newer.pop_if(|other| other.is_active) else {
        return Ok(file);
    };
    let name = next.path.display();
    output.remark(&format!(
        "another file is {name} now: reading goes on there"
    ));
    read_all(query, &newer, output)?;
    Ok(next)
}

/// The files of the log that were changed at this time or later, open, the one that was changed last at the end. They are
/// those of one moment: files that are renamed or packed meanwhile are listed again.
fn files(
    query: &Query,
    since_ns: u64,
    output: &mut Output<'_>,
) -> Result<Vec<LogFile>, QueryError> {
    let mut last = None;
    for _ in 0..LISTINGS_MAX {
        let names = names(query)?;
        let opened = open_all(query, &names, since_ns)?;
        if let Some(files) = opened {
            if is_same(&names, &self::names(query)?) {
                return Ok(files);
            }
            last = Some(files);
        }
    }
    output.remark("files were renamed all the time: lines may be missing, or come twice");
    Ok(last.unwrap_or_default())
}

/// A name in the directory, and the file that it had.
type Name = (String, (u64, u64));

fn is_same(names: &[Name], others: &[Name]) -> bool {
    names.iter().all(|name| others.contains(name)) && names.len() == others.len()
}

fn directory(query: &Query) -> &Path {
    match query.path.parent() {
        _ if query.path.is_dir() => &query.path,
        None => Path::new("."),
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
    }
}

/// The names of the files of the log.
fn names(query: &Query) -> Result<Vec<Name>, QueryError> {
    let is_directory = query.path.is_dir();
    let base = query.path.file_name().and_then(|name| name.to_str());
    let base = base.unwrap_or_default();
    let mut names = Vec::new();
    for entry in fs::read_dir(directory(query)).map_err(query.io())? {
        let entry = entry.map_err(query.io())?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        // `app.log`, `app.log.1`, `app.log.2.gz`, `app.log-20261123.gz`; not `app.log2`, and nothing that is being packed.
        let rest = name.strip_prefix(base);
        let is_rotated = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']));
        let is_wanted = (is_directory || is_rotated) && !name.ends_with(".tmp");
        if !is_wanted {
            continue;
        }
        match entry.path().metadata() {
            Ok(metadata) if metadata.is_file() => {
                names.push((name, (metadata.dev(), metadata.ino())));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(query.io()(error)),
        }
    }
    Ok(names)
}

/// `None`: one of them is there no more.
fn open_all(
    query: &Query,
    names: &[Name],
    since_ns: u64,
) -> Result<Option<Vec<LogFile>>, QueryError> {
    let directory = directory(query);
    let active = query.path.file_name().filter(|_| !query.path.is_dir());
    let mut files: Vec<LogFile> = Vec::new();
    for (name, identity) in names {
        let is_active = active.is_some_and(|active| active == name.as_str());
        match LogFile::open(directory.join(name), name.clone(), is_active) {
            Ok(Some(file)) if file.identity == *identity => files.push(file),
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(query.io()(error)),
        }
    }
    if files.is_empty() {
        let path = query.path.clone();
        return Err(match path.is_dir() {
            true => QueryError::NothingInside(path),
            false => QueryError::NoLog(path),
        });
    }
    // A file that is packed, or was just packed, and is not removed yet: `app.log.1` and `app.log.1.gz`.
    let is_packed_twin = |packed: &LogFile| {
        let plain = packed.name.strip_suffix(PACKED);
        let is_plain = |file: &LogFile| {
            Some(file.name.as_str()) == plain && file.changed_ns <= packed.changed_ns
        };
        files.iter().any(is_plain)
    };
    let twins: Vec<_> = files
        .iter()
        .filter(|file| is_packed_twin(file))
        .map(|file| file.identity)
        .collect();
    files.retain(|file| {
        let is_wanted = file.is_active || file.changed_ns >= since_ns;
        is_wanted && !twins.contains(&file.identity)
    });
    // Of two files that were changed at once, `app.log.2` is older than `app.log.1`, and `app.log-20260101` than
    // `app.log-20260102`. While lines are appended, the times change: `app.log` is the youngest in any case.
    files.sort_by(|one, other| {
        let by_name = one.name.cmp(&other.name);
        let are_dated = is_dated(&one.name) && is_dated(&other.name);
        let by_time = one.changed_ns.cmp(&other.changed_ns);
        let by_age = by_time.then(if are_dated {
            by_name
        } else {
            by_name.reverse()
        });
        one.is_active.cmp(&other.is_active).then(by_age)
    });
    Ok(Some(files))
}

/// Whether the name has a date of eight digits.
fn is_dated(name: &str) -> bool {
    let is_date = |part: &[u8]| part[0] == b'-' && part[1..].iter().all(u8::is_ascii_digit);
    name.as_bytes().windows(9).any(is_date)
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

fn source_name(name: &str) -> &str {
    let mut end = name.len().min(SOURCE_NAME_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// Reads the lines of one file.
struct Lines<'a> {
    shown: Shown<'a>,
    reader: Box<dyn Read>,
    framer: Framer,
    /// Bytes that were read.
    position: u64,
}

impl<'a> Lines<'a> {
    fn new(query: &'a Query, file: &'a LogFile) -> io::Result<Self> {
        Ok(Self {
            shown: Shown {
                query,
                source: source_name(&file.name),
                changed_ns: file.changed_ns,
                time_ns: None,
            },
            reader: file.reader()?,
            framer: Framer::new(Framing::Newline, LINE_BYTES_MAX),
            position: (&file.file).stream_position()?,
        })
    }

    /// Shows the lines that are complete. Returns whether further ones may be wanted.
    fn read_on(&mut self, output: &mut Output<'_>) -> Result<bool, FileError> {
        loop {
            let mut bytes = BytesMut::zeroed(READ_BYTES);
            let count = match self.reader.read(&mut bytes) {
                Ok(0) => return Ok(!output.is_gone),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                count => count.map_err(FileError::Io)?,
            };
            self.position += count as u64;
            bytes.truncate(count);
            let frames = self.framer.feed(Bytes::from(bytes));
            if !self.shown.show(&frames, output)? {
                return Ok(false);
            }
        }
    }

    /// Shows the line that is not complete, if there is one.
    fn finish(&mut self, output: &mut Output<'_>) -> Result<bool, QueryError> {
        self.shown.show(&self.framer.finish(), output)
    }
}

/// The lines of one file on their way to the output.
struct Shown<'a> {
    query: &'a Query,
    source: &'a str,
    /// When the file was last changed.
    changed_ns: u64,
    /// The time of the line before.
    time_ns: Option<u64>,
}

impl Shown<'_> {
    fn show(&mut self, frames: &Frames<'_>, output: &mut Output<'_>) -> Result<bool, QueryError> {
        for (frame, text) in frames.lines() {
            let parsed = parse::line_of_file(text);
            let time = match parsed.format {
                Format::Json => time_of_json(text),
                format => parse::message(format, text).time,
            };
            let zone = &self.query.zone;
            if let Some(time_ns) = time_ns(time, self.changed_ns, zone) {
                self.time_ns = Some(time_ns);
            }
            let line = LogRecord {
                received_ns: self.time_ns.unwrap_or(self.changed_ns),
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

/// The time of a line that the sink has written as JSON: it begins with its time. Empty if it does not.
fn time_of_json(text: &[u8]) -> &[u8] {
    let value = text.strip_prefix(br#"{"time":""#).unwrap_or_default();
    value.split(|&byte| byte == b'"').next().unwrap_or_default()
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
