//! Rotated files: their names, and the thread that packs them and removes the oldest ones.
//!
//! The thread reads the directory each time, so that it finishes what a killed process has begun.

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, SyncSender},
    },
    thread::{self, JoinHandle},
};

use flate2::{Compression, write::GzEncoder};
use jiff::Timestamp;

use super::{
    SinkError,
    file::{FileSinkConfig, Keep},
};

/// Bytes that are packed between two checks whether the server stops.
const PACK_BYTES: usize = 1 << 20;

/// A new name in a directory is durable when the directory is.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|path| !path.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// Creates the directory of a file, durably.
pub(super) fn create_directory(path: &Path) -> io::Result<()> {
    let Some(parent) = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    else {
        return Ok(());
    };
    if parent.try_exists()? {
        return Ok(());
    }
    create_directory(parent)?;
    match fs::create_dir(parent) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => sync_directory(parent),
    }
}

/// `NAME-20261123T122416.123456Z`: names sort by time.
pub(super) fn rotated_name(path: &Path, time_ns: u64) -> PathBuf {
    let time = Timestamp::from_nanosecond(i128::from(time_ns)).unwrap_or_default();
    let mut name = path.as_os_str().to_owned();
    name.push(time.strftime("-%Y%m%dT%H%M%S.%6fZ").to_string());
    name.into()
}

pub(super) fn packed_name(rotated: &Path) -> PathBuf {
    let mut name = rotated.as_os_str().to_owned();
    name.push(".gz");
    name.into()
}

/// Packs and removes rotated files, on a thread of its own.
pub(super) struct Packer {
    requests: Option<SyncSender<()>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_stopped: AtomicBool,
    /// The oldest file is to be removed, also within the limits.
    is_disk_full: AtomicBool,
}

impl Packer {
    pub(super) fn start(config: &FileSinkConfig) -> Result<Self, SinkError> {
        let mut packer = Self {
            requests: None,
            shared: Arc::default(),
            thread: None,
        };
        if config.compress || config.keep != Keep::default() {
            // A request covers all files, so one that waits is enough.
            let (requests, queue) = mpsc::sync_channel(1);
            let (config, shared) = (config.clone(), packer.shared.clone());
            let run = move || {
                while queue.recv().is_ok() {
                    if let Err(error) = tidy(&config, &shared) {
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
    pub(super) fn run(&self) {
        if let Some(requests) = &self.requests {
            let _ = requests.try_send(());
        }
    }

    /// As [`run`](Self::run), and removes the oldest file.
    pub(super) fn make_space(&self) {
        // Ordering: Relaxed: the request orders it.
        self.shared.is_disk_full.store(true, Ordering::Relaxed);
        self.run();
    }

    pub(super) fn stop(&mut self) {
        // Ordering: Relaxed: it only shortens the work.
        self.shared.is_stopped.store(true, Ordering::Relaxed);
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

fn tidy(config: &FileSinkConfig, shared: &Shared) -> io::Result<()> {
    let name = config.path.file_name().unwrap_or_default();
    let prefix = format!("{}-", name.to_string_lossy());
    let parent = config.path.parent();
    let directory = parent.filter(|path| !path.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    // By their times. A killed process may leave a file both plain and packed.
    let mut rotated: BTreeSet<String> = BTreeSet::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let plain = |name: &str| {
            let plain = name.strip_suffix(".gz").unwrap_or(name).to_owned();
            let is_rotated = plain
                .strip_prefix(&prefix)
                .is_some_and(|time| is_time(time.as_bytes()));
            is_rotated.then_some(plain)
        };
        let temporary = name
            .strip_prefix('.')
            .and_then(|it| it.strip_suffix(".tmp"));
        if temporary.and_then(plain).is_some() {
            fs::remove_file(entry.path())?;
        } else {
            rotated.extend(plain(&name));
        }
    }
    let mut packed = Ok(());
    if config.compress {
        for name in &rotated {
            packed = pack(directory, name, &shared.is_stopped);
            if packed.is_err() || shared.is_stopped.load(Ordering::Relaxed) {
                break;
            }
        }
    }
    // Also when packing failed: on a full disk it fails until some are removed.
    let is_disk_full = shared.is_disk_full.swap(false, Ordering::Relaxed);
    let mut kept_bytes = 0;
    for (index, name) in rotated.iter().rev().enumerate() {
        let both = [directory.join(name), directory.join(format!("{name}.gz"))];
        let bytes = |path: &PathBuf| fs::metadata(path).map_or(0, |found| found.len());
        kept_bytes += both.iter().map(bytes).sum::<u64>();
        let is_oldest = index + 1 == rotated.len();
        let is_kept = config.keep.files.is_none_or(|files| index < files)
            && config.keep.bytes.is_none_or(|bytes| kept_bytes <= bytes)
            && !(is_disk_full && is_oldest && config.keep != Keep::default());
        if !is_kept {
            for path in both {
                match fs::remove_file(path) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    result => result?,
                }
            }
        }
    }
    packed
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

/// Packs a file, if it is not packed, unless the server stops. A killed process leaves the file, or the packed one, or both,
/// which are then equal.
fn pack(directory: &Path, name: &str, is_stopped: &AtomicBool) -> io::Result<()> {
    let path = directory.join(name);
    let temporary = directory.join(format!(".{name}.gz.tmp"));
    let written = pack_to(&temporary, &path, is_stopped);
    if !matches!(written, Ok(true)) {
        // On a full disk it takes what others need.
        let _ = fs::remove_file(&temporary);
        return match written {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            written => written.map(drop),
        };
    }
    let packed = packed_name(&path);
    fs::rename(&temporary, &packed)?;
    sync_directory(&packed)?;
    fs::remove_file(&path)
}

/// Writes the packed form of `path` to `temporary`, durably; `false` if the server stops.
fn pack_to(temporary: &Path, path: &Path, is_stopped: &AtomicBool) -> io::Result<bool> {
    let mut plain = File::open(path)?;
    let found = plain.metadata()?;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    let out = options.mode(found.mode()).open(temporary)?;
    let mut encoder = GzEncoder::new(io::BufWriter::new(out), Compression::default());
    loop {
        if is_stopped.load(Ordering::Relaxed) {
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
    Ok(true)
}
