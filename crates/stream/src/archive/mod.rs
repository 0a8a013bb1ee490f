//! Archives: the finished segments of a stream in a bucket of S3, Google Cloud Storage or Azure, or in another
//! directory.
//!
//! ```text
//!   DIR/…01.segment ─┐                            URL/…01.segment           the same bytes, without what follows
//!   DIR/…02.segment ─┼─ check ──▶ Archiver ──▶    URL/…02.segment           the last chunk
//!   DIR/…03.segment ─┘            (parts, rate)   URL/…02.segment.upload    an upload in parts that goes on
//!                                                 URL/archive.head          the last record and its chunk's tag
//!   verify, StreamReader, restore ◀── Archive     URL/retention.mark        where segments before were removed
//! ```
//!
//! An archive has the layout of a stream's directory, and [`Archive`] is a [`Storage`] that only reads. So
//! [`verify`](crate::verify()) and [`ReaderOptions::open_on`](crate::ReaderOptions::open_on) work on it as on a directory.
//!
//! **State.** There is no manifest. Names order the segments, headers name the stream, the chain shows that nothing is
//! missing between two chunks, the retention mark proves the beginning, and the head proves the end. The archiver keeps
//! no state on the local disk: it compares the archive with the directory when it begins.
//!
//! **Why a crash at any moment is harmless.** A service shows an object whole or not at all, and so does a directory,
//! where it is renamed when it is synced. Segments are written in order, each before the head that names its end, and
//! the retention mark before the segments that it covers are removed. So at each moment the archive is a whole stream
//! that ends at its head or after it. What was sent of a large segment is noted in the archive; the next run continues
//! it.
//!
//! **Why an archived segment does not change.** A segment is archived when the next one has begun and the chain leads
//! from its last chunk to the next header. Both files are synced first, and read past the page cache. So no crash makes
//! the writer continue inside it. The active segment is archived on request, up to its last whole chunk; later its
//! object is replaced by a longer one with the same beginning, because recovery never cuts off a whole chunk that
//! follows.
//!
//! ```
//! # use std::ops::ControlFlow;
//! use std::sync::Arc;
//! use freeboard_stream::archive::{ArchiveOptions, Archiver, RestoreOptions, restore};
//! use freeboard_stream::{StreamOptions, VerifyOptions, storage::Disk, verify};
//!
//! # let root = tempfile::tempdir()?;
//! # let (log, copy) = (root.path().join("log"), root.path().join("copy"));
//! let stream = StreamOptions::new().open(&log)?;
//! stream.append(b"kept")?.wait()?;
//! stream.close()?;
//!
//! # let url = format!("file://{}", root.path().join("archive").display());
//! // s3://bucket/log, gs://bucket/log, az://container/log or file:///mnt/backup/log
//! let archive = ArchiveOptions::new().rate_max(20_000_000).open(&url)?;
//! let mut archiver = Archiver::new(Arc::new(Disk::open(&log)?), archive.clone());
//! let report = archiver.pass(true, &mut |_| ControlFlow::Continue(()))?;
//! assert_eq!((report.segments, report.archived_record), (1, 1));
//!
//! let options = VerifyOptions { expect_head: archive.head()?, ..VerifyOptions::default() };
//! assert!(verify(&archive, None, &options, &mut |_| {})?.is_whole());
//! restore(&archive, &copy, None, &RestoreOptions::default(), &mut |_| ControlFlow::Continue(()))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod archiver;
mod error;
mod extent;
mod fenced;
mod objects;
mod restore;
mod upload;

use std::{
    any::Any,
    collections::BTreeMap,
    fmt, io,
    path::Path,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use freeboard_platform::{
    clock,
    sync::{Mutex, MutexGuard},
    thread,
};

use crate::{
    head::Head,
    storage::{Access, Storage, StorageFile},
};

pub use archiver::{ArchiveProgress, ArchiveReport, Archiver, Keep};
pub use error::ArchiveError;
pub use fenced::{FencedError, FencedState, FencedStore, StateObjects};
use objects::{Cloud, Folder, Objects};
pub use restore::{RestoreEnd, RestoreOptions, RestoreReport, restore};

/// The object with the head of the archive: `SEQUENCE:TAG`.
pub const ARCHIVE_HEAD: &str = "archive.head";

/// The length of a part unless the options say otherwise.
const PART_BYTES_DEFAULT: u64 = 8 << 20;

/// The smallest part that S3 accepts.
const PART_BYTES_MIN: u64 = 5 << 20;

/// The largest part: a few of them are in memory.
const PART_BYTES_MAX: u64 = 1 << 30;

/// The first read of an object, in bytes; each read that continues the one before is four times as long, up to a part.
const READ_BYTES_MIN: u64 = 64 << 10;

/// How an archive is reached.
#[derive(Clone, Debug)]
pub struct ArchiveOptions {
    rate: Option<u64>,
    part_bytes: u64,
    retry_time: Duration,
    settings: Vec<(String, String)>,
}

impl Default for ArchiveOptions {
    fn default() -> Self {
        Self {
            rate: None,
            part_bytes: PART_BYTES_DEFAULT,
            retry_time: Duration::from_secs(120),
            settings: Vec::new(),
        }
    }
}

impl ArchiveOptions {
    /// Without a limit of the rate, in parts of 8 MiB; a failed request is repeated for two minutes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the most bytes per second that are sent or received, at least 1. The mean keeps the limit; one part is sent
    /// at once.
    #[must_use]
    pub fn rate_max(mut self, bytes_per_second: u64) -> Self {
        self.rate = Some(bytes_per_second.max(1));
        self
    }

    /// Sets the length of a part, in bytes, from 5 MiB to 1 GiB. A segment that is longer is sent in parts, four at a
    /// time, and no more than these are in memory. Segments of more than 10,000 parts are sent in longer ones.
    #[must_use]
    pub fn part_bytes(mut self, bytes: u64) -> Self {
        self.part_bytes = bytes.clamp(PART_BYTES_MIN, PART_BYTES_MAX);
        self
    }

    /// Sets for how long a request is repeated, with growing pauses, while the service does not answer or answers with
    /// 429 or 5xx; at most 20 times.
    #[must_use]
    pub fn retry_time(mut self, time: Duration) -> Self {
        self.retry_time = time;
        self
    }

    /// Sets what an environment variable would set, such as `AWS_ENDPOINT` or `AZURE_STORAGE_ACCOUNT_NAME`, and
    /// overrides it. The names are those of the crate `object_store`.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Opens the archive at `url`: `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX` or
    /// `file:///PATH`. No request is made yet.
    ///
    /// Credentials come from the environment or from the machine's role. If the process has no default provider of
    /// cryptography for rustls, ring becomes it, unless the archive is a directory.
    ///
    /// # Errors
    ///
    /// [`ArchiveError::Address`].
    pub fn open(&self, url: &str) -> Result<Archive, ArchiveError> {
        Ok(Archive(Arc::new(Inner {
            objects: self.objects(url)?,
            url: url.to_owned(),
            rate: self.rate,
            part_bytes: self.part_bytes,
            next: Mutex::new(clock::now()),
            listed: Mutex::new(None),
        })))
    }

    /// The objects at an address.
    fn objects(&self, url: &str) -> Result<Arc<dyn Objects>, ArchiveError> {
        let refused = |reason: String| ArchiveError::Address {
            url: url.to_owned(),
            reason,
        };
        const FORMS: &str = "expected s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///PATH";
        let (scheme, rest) = url.split_once("://").ok_or_else(|| refused(FORMS.into()))?;
        Ok(match scheme {
            "file" if rest.starts_with('/') => Arc::new(Folder::new(Path::new(rest))),
            "s3" | "gs" | "az" if !rest.is_empty() && !rest.starts_with('/') => {
                let prefix = rest.split_once('/').map_or("", |(_, prefix)| prefix);
                let cloud = Cloud::open(scheme, url, prefix, &self.settings, self.retry_time);
                Arc::new(cloud.map_err(|error| refused(error.to_string()))?)
            }
            _ => return Err(refused(FORMS.into())),
        })
    }
}

/// An archive. As a [`Storage`] it lists and reads; all calls block the thread. Reads fetch up to a part ahead.
#[derive(Clone)]
pub struct Archive(Arc<Inner>);

struct Inner {
    objects: Arc<dyn Objects>,
    url: String,
    rate: Option<u64>,
    part_bytes: u64,
    /// When the rate allows the next transfer.
    next: Mutex<Instant>,
    /// The objects and their lengths, when they were listed last.
    listed: Mutex<Option<BTreeMap<String, u64>>>,
}

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Archive").field(&self.0.url).finish()
    }
}

impl Archive {
    /// Its address.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.0.url
    }

    /// The head that the archiver left, for [`VerifyOptions::expect_head`](crate::VerifyOptions): the archive ends there
    /// or later. `None` if there is none. Whoever can remove segments from the archive can change it, so keep a head
    /// elsewhere too.
    ///
    /// # Errors
    ///
    /// [`ArchiveError::Object`] if it cannot be read, or is no head.
    pub fn head(&self) -> Result<Option<Head>, ArchiveError> {
        let read = || {
            let Some(text) = self.text(ARCHIVE_HEAD)? else {
                return Ok(None);
            };
            let head = text.parse().map(Some);
            head.map_err(|reason: String| io::Error::new(io::ErrorKind::InvalidData, reason))
        };
        read().map_err(ArchiveError::object(format!("read {ARCHIVE_HEAD}")))
    }

    /// A small object, if it exists.
    fn text(&self, name: &str) -> io::Result<Option<String>> {
        let Some(bytes) = self.listing()?.get(name).copied() else {
            return Ok(None);
        };
        let bytes = self.read(name, 0, bytes.min(READ_BYTES_MIN))?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn objects(&self) -> &dyn Objects {
        self.0.objects.as_ref()
    }

    /// Lists the objects anew.
    fn listing(&self) -> io::Result<BTreeMap<String, u64>> {
        let listed: BTreeMap<_, _> = self.objects().list()?.into_iter().collect();
        *lock(&self.0.listed) = Some(listed.clone());
        Ok(listed)
    }

    fn read(&self, name: &str, offset: u64, bytes: u64) -> io::Result<Vec<u8>> {
        if bytes == 0 {
            return Ok(Vec::new());
        }
        self.pace(bytes);
        self.objects().read(name, offset..offset + bytes)
    }

    /// Waits until the rate allows to transfer so many bytes.
    fn pace(&self, bytes: u64) {
        let Some(rate) = self.0.rate else { return };
        let now = clock::now();
        let begin = {
            let mut next = lock(&self.0.next);
            let begin = now.max(*next);
            *next = begin + Duration::from_secs_f64(bytes as f64 / rate as f64);
            begin
        };
        thread::sleep(begin - now);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read_only<T>() -> io::Result<T> {
    let reason = "an archive is written by the archiver only";
    Err(io::Error::new(io::ErrorKind::Unsupported, reason))
}

impl Storage for Archive {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.listing()?.into_keys().collect())
    }

    fn create(
        &self,
        _name: &str,
        _bytes: u64,
        _access: Access,
    ) -> io::Result<Arc<dyn StorageFile>> {
        read_only()
    }

    /// Opens an object of the last listing.
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn StorageFile>> {
        if !matches!(access, Access::Read | Access::ReadDevice) {
            return read_only();
        }
        let listed = lock(&self.0.listed)
            .as_ref()
            .map(|it| it.get(name).copied());
        let bytes = match listed {
            Some(listed) => listed,
            None => self.listing()?.get(name).copied(),
        };
        Ok(Arc::new(ArchiveFile {
            archive: self.clone(),
            name: name.to_owned(),
            bytes: bytes.ok_or(io::ErrorKind::NotFound)?,
            window: Mutex::default(),
        }))
    }

    fn rename(&self, _from: &str, _to: &str) -> io::Result<()> {
        read_only()
    }

    fn remove(&self, _name: &str) -> io::Result<()> {
        read_only()
    }

    fn sync_directory(&self) -> io::Result<()> {
        read_only()
    }

    fn lock(&self) -> io::Result<Box<dyn Any + Send + Sync>> {
        read_only()
    }

    fn is_locked(&self) -> bool {
        false
    }
}

/// An object that is read.
#[derive(Debug)]
struct ArchiveFile {
    archive: Archive,
    name: String,
    bytes: u64,
    window: Mutex<Window>,
}

/// The part of an object that was read last.
#[derive(Debug, Default)]
struct Window {
    begin: u64,
    bytes: Vec<u8>,
}

impl Window {
    fn end(&self) -> u64 {
        self.begin + self.bytes.len() as u64
    }

    /// How many bytes are read at `offset`: a scan reads ahead, a search here and there does not.
    fn ahead(&self, offset: u64, most: u64) -> u64 {
        let is_next = offset == self.end() && offset > 0;
        let bytes = if is_next {
            self.bytes.len() as u64 * 4
        } else {
            0
        };
        bytes.clamp(READ_BYTES_MIN, most)
    }
}

impl StorageFile for ArchiveFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut window = lock(&self.window);
        let mut read = 0;
        while read < buffer.len() && offset + (read as u64) < self.bytes {
            let at = offset + read as u64;
            if !(window.begin..window.end()).contains(&at) {
                let most = self.archive.0.part_bytes;
                let ahead = window.ahead(at, most).max((buffer.len() - read) as u64);
                let wanted = ahead.min(most).min(self.bytes - at);
                window.bytes = self.archive.read(&self.name, at, wanted)?;
                window.begin = at;
                if window.bytes.is_empty() {
                    // It was replaced by a shorter one.
                    break;
                }
            }
            let from = &window.bytes[(at - window.begin) as usize..];
            let count = from.len().min(buffer.len() - read);
            buffer[read..read + count].copy_from_slice(&from[..count]);
            read += count;
        }
        Ok(read)
    }

    fn write_at(&self, _parts: &[&[u8]], _offset: u64) -> io::Result<()> {
        read_only()
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn resize(&self, _bytes: u64) -> io::Result<()> {
        read_only()
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }

    fn is_direct(&self) -> bool {
        false
    }
}
