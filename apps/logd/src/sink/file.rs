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
//! A thread packs rotated files and removes the oldest ones. It looks at the directory each time, so that it finishes
//! what a killed process has begun. Before each write the sink checks whether its file still has its name: if it was
//! removed or renamed, a new one is begun.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, SyncSender},
    },
    task::{Context, Poll},
    thread::{self, JoinHandle},
    time::UNIX_EPOCH,
};

use flate2::{Compression, write::GzEncoder};
use jiff::{Span, Timestamp, tz::TimeZone};

use super::{Sink, SinkConfig, SinkError, stdout::Lines};
use crate::{batch::Batch, input::received_now_ns, query::Form};

/// Batches that wait until they are durable; at so many, the file is synced before the next one.
const PENDING_MAX: usize = 1_024;

/// Bytes that are packed between two checks whether the server stops.
const PACK_BYTES: usize = 1 << 20;

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

/// Which rotated files are kept. Each limit is enough by itself to remove the oldest.
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
    /// The file. Rotated ones have its name and the time behind it.
    pub path: PathBuf,
    /// When a new one is begun.
    pub rotation: Rotation,
    /// Whether rotated files are packed with gzip.
    pub compress: bool,
    /// Which rotated files are kept.
    pub keep: Keep,
    /// Whether lines are synced to the disk: whenever the sink has written all batches that wait for it, and at the latest
    /// after 1,024 batches that [want it](Batch::wants_durable). Otherwise a power failure may lose the last ones.
    pub sync: bool,
    /// The time zone of the times and of the periods.
    pub zone: TimeZone,
}

impl FileSinkConfig {
    /// Never rotated, not synced, times in UTC.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
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
        SinkConfig::new(name, move || {
            let mut sink = FileSink {
                packer: Packer::start(&self)?,
                lines: Lines::new(Form::Iso, self.zone.clone()),
                config: self.clone(),
                open: None,
                is_rotation_wanted: false,
                pending: Vec::new(),
                is_dirty: false,
            };
            sink.ready().map_err(|error| sink.error(&error))?;
            sink.packer.run();
            Ok(Box::new(sink) as Box<dyn Sink>)
        })
    }
}

/// The file that lines are appended to.
struct OpenFile {
    file: File,
    bytes: u64,
    /// Its device and its number there.
    identity: (u64, u64),
    period_end_ns: u64,
}

struct FileSink {
    config: FileSinkConfig,
    open: Option<OpenFile>,
    lines: Lines,
    is_rotation_wanted: bool,
    /// Batches that are to become durable.
    pending: Vec<Arc<Batch>>,
    /// Whether something was written since the last sync.
    is_dirty: bool,
    packer: Packer,
}

impl FileSink {
    fn error(&self, error: &io::Error) -> SinkError {
        SinkError::Busy(format!("{}: {error}", self.config.path.display()))
    }

    /// Opens the file if it is not open, or is no longer the one of this name, and rotates it if it is time.
    fn ready(&mut self) -> io::Result<()> {
        let named = match fs::metadata(&self.config.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            found => Some(found?),
        };
        let identity = named.map(|named| (named.dev(), named.ino()));
        if self
            .open
            .as_ref()
            .is_some_and(|open| Some(open.identity) != identity)
        {
            // Somebody has renamed or removed it.
            self.sync()?;
            self.open = None;
        }
        if self.open.is_none() {
            self.open = Some(self.open()?);
        }
        if self.lines.is_untouched() && self.is_due() {
            self.rotate_now()?;
        }
        Ok(())
    }

    fn open(&self) -> io::Result<OpenFile> {
        let path = &self.config.path;
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o640);
        let mut file = options.open(path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut bytes = found.len();
        if bytes == 0 {
            sync_directory(path)?;
        } else if self.lines.is_untouched() {
            let mut last = [0];
            file.read_exact_at(&mut last, bytes - 1)?;
            if last != *b"\n" {
                // A power failure has cut its last line.
                file.write_all(b"\n")?;
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
        Ok(OpenFile {
            file,
            bytes,
            identity: (found.dev(), found.ino()),
            period_end_ns: period.map_or(u64::MAX, end_ns),
        })
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
        self.sync()?;
        let path = &self.config.path;
        let mut now_ns = received_now_ns();
        let rotated = loop {
            let rotated = rotated_name(path, now_ns);
            let packed = packed_name(&rotated);
            if !rotated.try_exists()? && !packed.try_exists()? {
                break rotated;
            }
            now_ns += 1_000;
        };
        fs::rename(path, rotated)?;
        self.open = None;
        self.is_rotation_wanted = false;
        self.open = Some(self.open()?);
        self.packer.run();
        Ok(())
    }

    /// Makes durable what was written, and settles the batches that wait for it.
    fn sync(&mut self) -> io::Result<()> {
        if self.config.sync
            && std::mem::take(&mut self.is_dirty)
            && let Some(open) = &self.open
            && let Err(error) = open.file.sync_data()
        {
            // The kernel may have dropped what it could not write, and the next sync would succeed.
            for batch in self.pending.drain(..) {
                batch.note_lost();
            }
            self.open = None;
            return Err(error);
        }
        self.pending.clear();
        Ok(())
    }

    fn append(&mut self) -> io::Result<()> {
        self.ready()?;
        let open = self.open.as_mut().expect("it is ready");
        let left = self.lines.left();
        let written = self.lines.write(&mut open.file);
        let bytes = left - self.lines.left();
        open.bytes += bytes as u64;
        self.is_dirty |= bytes > 0;
        if written.is_err() {
            // It is opened again: the error may be of this handle alone.
            self.open = None;
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
            return Poll::Ready(Err(self.error(&error)));
        }
        self.lines.clear();
        if self.config.sync && batch.wants_durable() {
            self.pending.push(batch.clone());
            if self.pending.len() >= PENDING_MAX
                && let Err(error) = self.sync()
            {
                tracing::error!("{}: {error}", self.config.path.display());
            }
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

/// A new name in a directory is durable when the directory is.
fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|path| !path.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// `NAME-20261123T122416.123456Z`: names sort by time.
fn rotated_name(path: &Path, time_ns: u64) -> PathBuf {
    let time = Timestamp::from_nanosecond(i128::from(time_ns)).unwrap_or_default();
    let mut name = path.as_os_str().to_owned();
    name.push(time.strftime("-%Y%m%dT%H%M%S.%6fZ").to_string());
    name.into()
}

fn packed_name(rotated: &Path) -> PathBuf {
    let mut name = rotated.as_os_str().to_owned();
    name.push(".gz");
    name.into()
}

/// Packs and removes rotated files, on a thread of its own.
struct Packer {
    requests: Option<SyncSender<()>>,
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Packer {
    fn start(config: &FileSinkConfig) -> Result<Self, SinkError> {
        let mut packer = Self {
            requests: None,
            is_stopped: Arc::default(),
            thread: None,
        };
        if config.compress || config.keep != Keep::default() {
            // A request covers all files, so one that waits is enough.
            let (requests, queue) = mpsc::sync_channel(1);
            let (config, is_stopped) = (config.clone(), packer.is_stopped.clone());
            let run = move || {
                while queue.recv().is_ok() {
                    if let Err(error) = tidy(&config, &is_stopped) {
                        tracing::error!("rotated files of {}: {error}", config.path.display());
                    }
                }
            };
            let thread = thread::Builder::new().name("logd rotation".to_owned());
            let spawned = thread.spawn(run);
            packer.thread =
                Some(spawned.map_err(|error| SinkError::Busy(format!("no thread: {error}")))?);
            packer.requests = Some(requests);
        }
        Ok(packer)
    }

    /// Packs and removes what there is.
    fn run(&self) {
        if let Some(requests) = &self.requests {
            let _ = requests.try_send(());
        }
    }

    fn stop(&mut self) {
        // Ordering: Relaxed: it only shortens the work.
        self.is_stopped.store(true, Ordering::Relaxed);
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Packer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn tidy(config: &FileSinkConfig, is_stopped: &AtomicBool) -> io::Result<()> {
    let name = config.path.file_name().unwrap_or_default();
    let prefix = format!("{}-", name.to_string_lossy());
    let parent = config.path.parent();
    let directory = parent.filter(|path| !path.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let mut rotated = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let is_rotated = |name: &str| {
            let time = name.strip_prefix(&prefix);
            let time = time.map(|time| time.strip_suffix(".gz").unwrap_or(time));
            time.is_some_and(|time| is_time(time.as_bytes()))
        };
        let temporary = name
            .strip_prefix('.')
            .and_then(|it| it.strip_suffix(".tmp"));
        if temporary.is_some_and(is_rotated) {
            fs::remove_file(entry.path())?;
        } else if is_rotated(&name) {
            rotated.push(name);
        }
    }
    rotated.sort();
    for name in &mut rotated {
        if !config.compress || name.ends_with(".gz") {
            continue;
        }
        if !pack(directory, name, is_stopped)? {
            return Ok(());
        }
        name.push_str(".gz");
    }
    rotated.dedup();
    let mut kept_bytes = 0;
    for (index, name) in rotated.iter().rev().enumerate() {
        let path = directory.join(name);
        kept_bytes += fs::metadata(&path)?.len();
        let is_kept = config.keep.files.is_none_or(|files| index < files)
            && config.keep.bytes.is_none_or(|bytes| kept_bytes <= bytes);
        if !is_kept {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Whether this is how [`rotated_name`] writes a time.
fn is_time(text: &[u8]) -> bool {
    const SHAPE: &[u8] = b"00000000T000000.000000Z";
    let fits = |(byte, shape): (&u8, &u8)| match shape {
        b'0' => byte.is_ascii_digit(),
        _ => byte == shape,
    };
    text.len() == SHAPE.len() && text.iter().zip(SHAPE).all(fits)
}

/// Packs a file; `false` if the server stops. A killed process leaves the file, or the packed one, or both, which are then equal.
fn pack(directory: &Path, name: &str, is_stopped: &AtomicBool) -> io::Result<bool> {
    let path = directory.join(name);
    let temporary = directory.join(format!(".{name}.gz.tmp"));
    let packed = directory.join(format!("{name}.gz"));
    let mut plain = File::open(&path)?;
    let found = plain.metadata()?;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    let out = options.mode(found.mode()).open(&temporary)?;
    let mut encoder = GzEncoder::new(io::BufWriter::new(out), Compression::default());
    loop {
        if is_stopped.load(Ordering::Relaxed) {
            fs::remove_file(&temporary)?;
            return Ok(false);
        }
        let mut part = Read::by_ref(&mut plain).take(PACK_BYTES as u64);
        if io::copy(&mut part, &mut encoder)? == 0 {
            break;
        }
    }
    let out = encoder.finish()?.into_inner().map_err(io::Error::from)?;
    // `freeboard logs` finds files by the time of their last change.
    out.set_modified(found.modified()?)?;
    out.sync_all()?;
    fs::rename(&temporary, &packed)?;
    sync_directory(&packed)?;
    fs::remove_file(&path)?;
    Ok(true)
}
