//! A plain file as a sink: a line per record, in the form of rsyslog's files.
//!
//! ```text
//!   2026-11-23T12:24:16.123456+00:00 web-1 app[7]: text     control characters are escaped
//!
//!   app.log                                the file that lines are appended to
//!   app.log-20261123T122416.123456Z        rotated, not packed yet
//!   app.log-20261123T112416.000003Z.gz     rotated and packed; it keeps the time of the last change
//!   .app.log-20261123T122416.123456Z.gz.tmp   being packed; removed at the next start
//! ```
//!
//! The file is locked, so a second server does not write to it.
//!
//! Before each write the sink checks whether its file still has its name: if it was removed or renamed, a new one is begun.
//!
//! A batch that somebody waits for is kept until its lines are synced. One sync covers all batches since the last: the sink
//! syncs when no further batch waits, and under load every [`SYNC_TIME`] or [`SYNC_BYTES`].

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::PathBuf,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant, UNIX_EPOCH},
};

use jiff::{Span, Timestamp, tz::TimeZone};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

use super::{
    Sink, SinkConfig, SinkError, SinkGauge, Undurable,
    rotated::{Packer, create_directory, packed_name, rotated_name, sync_directory},
    stdout::{Lines, StdoutForm},
};
use crate::{batch::Batch, input::received_now_ns};

#[cfg(test)]
use super::faults::{call, sync_data};

/// A call of the operating system. Tests let each of them fail.
#[cfg(not(test))]
fn call<T>(run: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    run()
}

#[cfg(not(test))]
fn sync_data(file: &File) -> io::Result<()> {
    file.sync_data()
}

/// Fails if the file was removed: its lines are gone with it.
fn check_linked(file: &File) -> io::Result<()> {
    match call(|| file.metadata())?.nlink() {
        0 => Err(io::Error::other("it was removed while it was in use")),
        _ => Ok(()),
    }
}

/// Under load, what somebody waits for is synced after so long.
const SYNC_TIME: Duration = Duration::from_millis(20);

/// Under load, what is to be synced is after so many bytes.
const SYNC_BYTES: u64 = 8 << 20;

/// When a new file is begun, besides on demand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// Before it would have more bytes. A batch that is larger has a file of its own.
    pub bytes: Option<u64>,
    /// With the first line of each such period, by the clock of the time zone.
    pub period: Option<Period>,
}

/// A period of rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Period {
    /// An hour.
    Hourly,
    /// A day.
    Daily,
}

impl Period {
    /// The end of the period that this time is in, in nanoseconds since 1970.
    fn end_ns(self, time_ns: u64, zone: &TimeZone) -> u64 {
        const HOUR_NS: u64 = 3_600_000_000_000;
        let end = || {
            let time = Timestamp::from_nanosecond(i128::from(time_ns)).ok()?;
            let time = time.to_zoned(zone.clone());
            let end = match self {
                Self::Hourly => time.checked_add(Span::new().hours(1)).ok()?,
                Self::Daily => time.tomorrow().ok()?,
            };
            let end = match self {
                Self::Hourly => end.with().minute(0).second(0).subsec_nanosecond(0).build(),
                Self::Daily => end.start_of_day(),
            };
            u64::try_from(end.ok()?.timestamp().as_nanosecond()).ok()
        };
        end().unwrap_or(time_ns.saturating_add(HOUR_NS))
    }
}

/// Which rotated files are kept. Each limit is enough by itself to remove the oldest. If one is set, and the disk is full, the
/// oldest is removed within the limits too, until lines can be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// The most files.
    pub files: Option<usize>,
    /// The most bytes of all.
    pub bytes: Option<u64>,
}

/// A file that lines are appended to.
#[derive(Clone, Debug)]
pub struct FileSinkConfig {
    /// The file. Rotated ones have its name and the time behind it. Its directory is created.
    pub path: PathBuf,
    /// The form of the lines.
    pub form: StdoutForm,
    /// When a new one is begun.
    pub rotation: Rotation,
    /// Whether rotated files are packed with gzip.
    pub compress: bool,
    /// Which rotated files are kept.
    pub keep: Keep,
    /// Whether all lines are synced to the disk: when no further batch waits, and at the latest after 8 MiB. Otherwise only
    /// those are that somebody [waits for](Batch::wants_durable), and a power failure may lose others.
    pub sync: bool,
    /// The time zone of the times and of the periods.
    pub zone: TimeZone,
}

impl FileSinkConfig {
    /// Never rotated, synced only where somebody waits, times in UTC.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            form: StdoutForm::default(),
            rotation: Rotation::default(),
            compress: false,
            keep: Keep::default(),
            sync: false,
            zone: TimeZone::UTC,
        }
    }

    /// The sink of this name.
    #[must_use]
    pub fn sink(self, name: impl Into<String>) -> SinkConfig {
        SinkConfig::with_gauge(name, move |gauge| {
            let mut sink = FileSink {
                gauge: gauge.clone(),
                packer: Packer::start(&self)?,
                lines: Lines::new(self.form.of_sink(), self.zone.clone()),
                config: self.clone(),
                open: None,
                identity: None,
                is_rotation_wanted: false,
                pending: Vec::new(),
                pending_since: None,
                unsynced_lines: 0,
                unsynced_bytes: 0,
            };
            let ready = create_directory(&sink.config.path).and_then(|()| sink.ready());
            ready.map_err(|error| sink.error(&error))?;
            sink.packer.run();
            Ok(Box::new(sink) as Box<dyn Sink>)
        })
    }
}

/// The file that lines are appended to.
struct OpenFile {
    file: File,
    bytes: u64,
    period_end_ns: u64,
}

struct FileSink {
    config: FileSinkConfig,
    open: Option<OpenFile>,
    /// The device of the file that was opened last, and its number there.
    identity: Option<(u64, u64)>,
    lines: Lines,
    is_rotation_wanted: bool,
    /// Batches that are to become durable.
    pending: Vec<Undurable>,
    /// When the first of them was written.
    pending_since: Option<Instant>,
    /// What was written since the last sync. Nothing, while the file is not open.
    unsynced_lines: u64,
    unsynced_bytes: u64,
    packer: Packer,
    gauge: Arc<SinkGauge>,
}

impl FileSink {
    fn error(&self, error: &io::Error) -> SinkError {
        SinkError::Busy(format!("{}: {error}", self.config.path.display()))
    }

    /// Opens the file if it is not open, or is no longer the one of this name, and rotates it if it is time.
    fn ready(&mut self) -> io::Result<()> {
        let named = match call(|| fs::metadata(&self.config.path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            found => Some(found?),
        };
        let identity = named.as_ref().map(|named| (named.dev(), named.ino()));
        match &mut self.open {
            Some(open) if self.identity == identity => {
                // Another program may have cut it.
                open.bytes = named.map_or(0, |named| named.len());
            }
            Some(_) => {
                // Another program has renamed or removed it.
                self.let_go()?;
            }
            None => {}
        }
        if self.open.is_none() {
            self.open()?;
        }
        if self.lines.is_untouched() && self.is_due() {
            self.rotate_now()?;
        }
        Ok(())
    }

    fn open(&mut self) -> io::Result<()> {
        let path = &self.config.path;
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o640);
        let mut file = call(|| options.open(path))?;
        let found = call(|| file.metadata())?;
        if !found.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        // Where a file system has no locks, nothing is known of other processes.
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(io::Error::other("another log server writes to it"));
        }
        let identity = Some((found.dev(), found.ino()));
        if self.identity != identity {
            // A line that was begun in the file before is written here as a whole.
            self.lines.go_back_to_line();
            self.identity = identity;
        }
        let mut bytes = found.len();
        if bytes == 0 {
            call(|| sync_directory(path))?;
        } else if self.lines.is_at_line() {
            let mut last = [0];
            call(|| file.read_exact_at(&mut last, bytes - 1))?;
            if last != *b"\n" {
                // A power failure, or an error, has cut its last line.
                call(|| file.write_all(b"\n"))?;
                bytes += 1;
            }
        }
        let changed = found.modified()?.duration_since(UNIX_EPOCH);
        let changed_ns = match bytes {
            0 => received_now_ns(),
            _ => changed.map_or(0, |since| since.as_nanos() as u64),
        };
        let period = self.config.rotation.period;
        let end_ns = |period: Period| period.end_ns(changed_ns, &self.config.zone);
        self.open = Some(OpenFile {
            file,
            bytes,
            period_end_ns: period.map_or(u64::MAX, end_ns),
        });
        Ok(())
    }

    fn is_due(&self) -> bool {
        let Some(open) = &self.open else { return false };
        let bytes = open.bytes + self.lines.left() as u64;
        let is_full = self.config.rotation.bytes.is_some_and(|max| bytes > max);
        let has_lines = self.lines.left() > 0;
        let is_over = has_lines && received_now_ns() >= open.period_end_ns;
        open.bytes > 0 && (is_full || is_over || self.is_rotation_wanted)
    }

    /// Gives the file its other name, and opens a new one.
    fn rotate_now(&mut self) -> io::Result<()> {
        self.let_go()?;
        let path = &self.config.path;
        let mut now_ns = received_now_ns();
        let rotated = loop {
            let rotated = rotated_name(path, now_ns);
            let packed = packed_name(&rotated);
            if !call(|| rotated.try_exists())? && !call(|| packed.try_exists())? {
                break rotated;
            }
            now_ns += 1_000;
        };
        call(|| fs::rename(path, rotated))?;
        self.is_rotation_wanted = false;
        self.open()?;
        self.packer.run();
        Ok(())
    }

    /// Makes durable what is to be, and lets go of the batches that wait for it.
    fn sync(&mut self) -> io::Result<()> {
        // It also syncs the beginning of a batch: only this handle gets the error if that was lost.
        let is_begun = !self.lines.is_untouched();
        let is_wanted = self.config.sync || !self.pending.is_empty() || is_begun;
        let synced = match &self.open {
            Some(open) if is_wanted && self.unsynced_bytes > 0 => {
                sync_data(&open.file).and_then(|()| check_linked(&open.file))
            }
            _ => Ok(()),
        };
        let lines = if is_wanted || synced.is_err() {
            self.unsynced_bytes = 0;
            std::mem::take(&mut self.unsynced_lines)
        } else {
            0
        };
        self.pending_since = None;
        let pending = self.pending.drain(..);
        if synced.is_ok() {
            pending.for_each(Undurable::settle);
        } else {
            drop(pending);
            // The kernel may have dropped what it could not write, and the next sync would succeed.
            self.gauge.lose(lines);
            self.lines.restart();
            self.open = None;
        }
        synced
    }

    /// Closes the file, and syncs it before if that is wanted.
    fn let_go(&mut self) -> io::Result<()> {
        let synced = self.sync();
        self.open = None;
        (self.unsynced_lines, self.unsynced_bytes) = (0, 0);
        synced
    }

    fn append(&mut self) -> io::Result<()> {
        self.ready()?;
        let open = self.open.as_mut().expect("it is ready");
        let left = self.lines.left();
        let written = call(|| self.lines.write(&mut open.file));
        let bytes = (left - self.lines.left()) as u64;
        open.bytes += bytes;
        self.unsynced_bytes += bytes;
        if written.is_err() {
            // It is opened again: the error may be of this handle alone.
            let _ = self.let_go();
        }
        written
    }
}

impl Sink for FileSink {
    fn poll_write(
        &mut self,
        batch: &Arc<Batch>,
        _: &mut Context<'_>,
    ) -> Poll<Result<(), SinkError>> {
        self.lines.print(batch);
        if let Err(error) = self.append() {
            if error.kind() == io::ErrorKind::StorageFull {
                self.packer.make_space();
            }
            return Poll::Ready(Err(self.error(&error)));
        }
        self.lines.clear();
        self.unsynced_lines += batch.len() as u64;
        if batch.wants_durable() {
            self.pending.push(Undurable::new(batch));
            self.pending_since.get_or_insert_with(Instant::now);
        }
        let is_late = |since: Instant| since.elapsed() >= SYNC_TIME;
        if (self.pending_since.is_some_and(is_late) || self.unsynced_bytes >= SYNC_BYTES)
            && let Err(error) = self.sync()
        {
            // The batch was written. Those that are lost say so themselves.
            let error = self.error(&error);
            tracing::error!("{error}");
            self.gauge.fail(&error);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_idle(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        let rotated = if self.is_rotation_wanted {
            self.ready()
        } else {
            Ok(())
        };
        let result = rotated.and_then(|()| self.sync());
        Poll::Ready(result.map_err(|error| self.error(&error)))
    }

    fn rotate(&mut self) {
        self.is_rotation_wanted = self.open.as_ref().is_none_or(|open| open.bytes > 0);
    }

    fn close(mut self: Box<Self>) -> Result<(), SinkError> {
        let synced = self.sync().map_err(|error| self.error(&error));
        self.packer.stop();
        synced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_end_by_the_clock_of_the_zone_also_when_it_is_set() {
        let zone = TimeZone::get("Europe/Berlin").expect("it is known");
        let check = |period: Period, from: &str, until: &str| {
            let [from, until] = [from, until].map(|time| {
                let time: Timestamp = time.parse().expect("a time");
                time.as_nanosecond() as u64
            });
            assert_eq!(period.end_ns(from, &zone), until);
        };
        let (hourly, daily) = (Period::Hourly, Period::Daily);
        check(hourly, "2026-11-23T12:00:00+01", "2026-11-23T13:00:00+01");
        check(hourly, "2026-11-23T12:59:59.9+01", "2026-11-23T13:00:00+01");
        check(daily, "2026-11-23T00:00:00+01", "2026-11-24T00:00:00+01");
        // The clock goes forward at 2, and back at 3.
        check(hourly, "2026-03-29T01:30:00+01", "2026-03-29T03:00:00+02");
        check(daily, "2026-03-29T01:30:00+01", "2026-03-30T00:00:00+02");
        check(hourly, "2026-10-25T02:30:00+02", "2026-10-25T02:00:00+01");
        check(hourly, "2026-10-25T02:30:00+01", "2026-10-25T03:00:00+01");
        check(daily, "2026-10-25T02:30:00+02", "2026-10-26T00:00:00+01");
    }
}
