//! Reads lines back: `freeboard logs`.
//!
//! ```text
//!   stream ─▶ seek by time ─▶ check the seal ─▶ decode ─┐
//!                                                       ├─▶ filter ─▶ (the last N) ─▶ print
//!   files  ─▶ skip by time ─▶ unpack ─▶ frame ─▶ parse ─┘
//! ```
//!
//! A stream is entered at the segment of `since` (a binary search over the headers of the segments), and in it by the
//! segment's index. Each chunk is checked before its lines are shown. Where the stream is damaged, a mark is shown in
//! place of the missing lines, and reading goes on behind the damage.

mod files;
mod filter;
mod show;
mod stream;
mod time;

use std::{
    collections::VecDeque,
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use freeboard::stream::{
    MasterKey, ReadError,
    format::segment_number,
    storage::{LOCK_NAME, Storage},
};
use jiff::tz::TimeZone;

use crate::record::LogRecord;

pub use filter::{Filter, Grep, GrepError, SeverityError, SeverityRange};
pub use show::Form;
pub(crate) use show::Printer;
pub use time::{TimeError, parse_time};

/// Output is handed over in pieces of this size.
const PIECE_BYTES: usize = 64 << 10;

/// Whether the query is stopped is checked once in so many lines, and when there are no further ones.
const STOP_CHECKED_LINES: u64 = 1_024;

/// The most memory of the last lines that are collected before they are shown; further lines displace the oldest.
pub const LAST_BYTES_MAX: usize = 256 << 20;

/// What to read, and how to show it.
#[derive(Debug)]
pub struct Query {
    /// The directory of a stream; a log file, which is read with its rotated files; or a directory of them.
    pub path: PathBuf,
    /// Where the stream is, if `path` is only its name: an archive.
    pub storage: Option<Arc<dyn Storage>>,
    /// The key that the stream was sealed with. Without it, checksums and the chain are checked.
    pub key: Option<MasterKey>,
    /// Which lines.
    pub filter: Filter,
    /// Only so many of the last of them.
    pub lines: Option<usize>,
    /// Wait for further lines.
    pub follow: bool,
    /// Lines may have come to this log so long after they were received: reading ends at records that were written
    /// so long after `until`.
    pub late_by: Duration,
    /// The form of the output.
    pub form: Form,
    /// The time zone of the output.
    pub zone: TimeZone,
}

/// How it went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryReport {
    /// Lines that were shown.
    pub lines: u64,
    /// Places where the log is damaged; a mark was shown at each.
    pub damages: u64,
}

/// What a query says beside its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note<'a> {
    /// Lines are missing. The output has the same text as a mark in their place.
    Damage(&'a str),
    /// Something else that a reader should know.
    Remark(&'a str),
}

/// Why a query failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// There is no stream and no file.
    #[error("{0}: there is no log")]
    NoLog(PathBuf),
    /// The directory has no segments and no files.
    #[error("{0}: the directory has neither a stream nor log files")]
    NothingInside(PathBuf),
    /// The stream cannot be opened: another key, or a version that is not known.
    #[error("{path}: {error}", path = path.display())]
    Open {
        /// The stream.
        path: PathBuf,
        /// The reason.
        error: ReadError,
    },
    /// Reading failed within the stream.
    #[error("{0}")]
    Read(#[from] ReadError),
    /// A file operation failed.
    #[error("{path}: {error}", path = path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// A directory of files cannot be followed.
    #[error("{0}: a directory of files cannot be followed; name one of them")]
    Follow(PathBuf),
    /// The output failed, and not because its reader has gone.
    #[error("cannot write: {0}")]
    Write(io::Error),
}

impl Query {
    /// All lines of this log, as text in UTC.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            storage: None,
            key: None,
            filter: Filter::default(),
            lines: None,
            follow: false,
            late_by: Duration::from_secs(3_600),
            form: Form::Text,
            zone: TimeZone::UTC,
        }
    }

    /// Shows the lines. Ends when the log ends, when `is_stopped` says so, or when the reader of `out` has gone. `warn`
    /// gets notes for people.
    ///
    /// # Errors
    /// [`QueryError`]. Damage is no error: see [`QueryReport::damages`].
    pub fn run(
        &self,
        out: &mut dyn Write,
        warn: &mut dyn FnMut(Note<'_>),
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<QueryReport, QueryError> {
        let mut output = Output {
            query: self,
            printer: show::Printer::new(self.form, self.zone.clone()),
            out,
            warn,
            is_stopped,
            piece: Vec::new(),
            last: None,
            seen: 0,
            is_gone: false,
            report: QueryReport::default(),
        };
        let done = if self.is_stream()? {
            stream::read(self, &mut output)
        } else {
            files::read(self, &mut output)
        };
        output.show_last()?;
        output.flush()?;
        done.map(|()| output.report)
    }

    fn io(&self) -> impl FnOnce(io::Error) -> QueryError {
        let path = self.path.clone();
        move |error| match error.kind() {
            io::ErrorKind::NotFound => QueryError::NoLog(path),
            _ => QueryError::Io { path, error },
        }
    }

    fn is_stream(&self) -> Result<bool, QueryError> {
        if self.storage.is_some() {
            return Ok(true);
        }
        match self.path.metadata() {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Ok(false),
            // Between two files of a rotation there is none with this name.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(self.io()(error)),
        }
        for entry in self.path.read_dir().map_err(self.io())? {
            let name = entry.map_err(self.io())?.file_name();
            // With the lock alone, a writer has just begun it, or has written nothing.
            if name
                .to_str()
                .is_some_and(|name| name == LOCK_NAME || segment_number(name).is_some())
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The way of lines to the output.
struct Output<'a> {
    query: &'a Query,
    printer: show::Printer,
    out: &'a mut dyn Write,
    warn: &'a mut dyn FnMut(Note<'_>),
    is_stopped: &'a dyn Fn() -> bool,
    piece: Vec<u8>,
    last: Option<Last>,
    /// Lines that were read.
    seen: u64,
    /// Nobody reads the output any more.
    is_gone: bool,
    report: QueryReport,
}

/// The last lines, each as it will be shown.
struct Last {
    lines: VecDeque<Vec<u8>>,
    lines_max: usize,
    bytes: usize,
}

impl Output<'_> {
    /// From now on only the last lines are kept, up to [`Output::show_last`].
    fn collect(&mut self, lines_max: usize) {
        self.last = Some(Last {
            lines: VecDeque::new(),
            lines_max,
            bytes: 0,
        });
    }

    /// Shows a line if the filter wants it. Returns whether anybody still reads.
    fn line(&mut self, sequence: Option<u64>, line: &LogRecord<'_>) -> Result<bool, QueryError> {
        self.seen += 1;
        if self.seen.is_multiple_of(STOP_CHECKED_LINES) && (self.is_stopped)() {
            return Ok(false);
        }
        if !self.query.filter.matches(line) {
            return Ok(true);
        }
        self.report.lines += 1;
        self.printer.line(sequence, line, &mut self.piece);
        self.go_on()
    }

    /// Shows that lines are missing here.
    fn damage(&mut self, text: &str) -> Result<bool, QueryError> {
        self.report.damages += 1;
        let text = format!("damaged: {text}");
        (self.warn)(Note::Damage(&text));
        self.printer.mark(&text, &mut self.piece);
        self.go_on()
    }

    /// Whether nobody reads, or the query is stopped.
    fn is_done(&self) -> bool {
        self.is_gone || (self.is_stopped)()
    }

    fn remark(&mut self, text: &str) {
        (self.warn)(Note::Remark(text));
    }

    fn go_on(&mut self) -> Result<bool, QueryError> {
        if let Some(last) = &mut self.last {
            last.bytes += self.piece.len();
            last.lines.push_back(std::mem::take(&mut self.piece));
            while last.lines.len() > last.lines_max || last.bytes > LAST_BYTES_MAX {
                last.bytes -= last.lines.pop_front().map_or(0, |line| line.len());
            }
        } else if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(!self.is_gone)
    }

    fn show_last(&mut self) -> Result<(), QueryError> {
        let Some(last) = self.last.take() else {
            return Ok(());
        };
        self.report.lines = self.report.lines.min(last.lines.len() as u64);
        for line in last.lines {
            self.piece.extend_from_slice(&line);
            self.go_on()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), QueryError> {
        let written = match self.is_gone {
            true => Ok(()),
            false => self
                .out
                .write_all(&self.piece)
                .and_then(|()| self.out.flush()),
        };
        self.piece.clear();
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_gone = true;
                Ok(())
            }
            written => written.map_err(QueryError::Write),
        }
    }
}
