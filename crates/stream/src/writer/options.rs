//! What a stream is opened with.

use std::{path::Path, sync::Arc, time::Duration};

use freeboard_flow::{LaneConfig, Overload};

use crate::{
    format::{ALIGNMENT, Algorithm, SealUnit},
    log::OpenError,
    seal::MasterKey,
    storage::{Disk, Storage},
};

use super::{StreamWriter, buffer_size::BufferSize, retention::Retention, sync_mode::SyncMode};

/// The largest value of [`StreamOptions::record_bytes_max`], in bytes.
pub const RECORD_BYTES_LIMIT: usize = 512 << 20;

/// The smallest segment, in bytes.
pub const SEGMENT_BYTES_MIN: u64 = 64 << 10;

/// The most shards that a stream may have.
pub const SHARDS_MAX: usize = 64;

/// Opens streams for writing.
///
/// ```
/// use freeboard_stream::StreamOptions;
///
/// let directory = tempfile::tempdir()?;
/// let stream = StreamOptions::new().open(directory.path().join("orders"))?;
/// let sequence = stream.append(b"an order")?.wait()?;
/// assert_eq!(sequence, 1);
/// stream.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct StreamOptions {
    pub(super) algorithm: Algorithm,
    pub(super) unit: SealUnit,
    /// Whether the caller chose the seal.
    pub(super) is_seal_chosen: bool,
    pub(super) key: Option<MasterKey>,
    pub(super) sync: SyncMode,
    pub(super) buffer: BufferSize,
    pub(super) memory: LaneConfig,
    pub(super) flush_after: Duration,
    pub(super) segment_bytes: u64,
    pub(super) retention: Retention,
    pub(super) record_bytes_max: usize,
    pub(super) shards: Option<usize>,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::None,
            unit: SealUnit::Batch,
            is_seal_chosen: false,
            key: None,
            sync: SyncMode::Batch,
            buffer: BufferSize::Auto,
            memory: LaneConfig::bounded(64 << 20),
            flush_after: Duration::from_millis(10),
            segment_bytes: 256 << 20,
            retention: Retention::default(),
            record_bytes_max: 16 << 20,
            shards: None,
        }
    }
}

impl StreamOptions {
    /// Not sealed, group commit, 64 MiB of memory, segments of 256 MiB that are kept for ever.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what the stream is sealed with, and by what unit; by default keyed BLAKE3 by batch if there is a key,
    /// else nothing. A stream keeps its seal for life.
    #[must_use]
    pub fn seal(mut self, algorithm: Algorithm, unit: SealUnit) -> Self {
        self.algorithm = algorithm;
        self.unit = unit;
        self.is_seal_chosen = true;
        self
    }

    /// Sets the key to seal with. There is no default: sealing without one is an error. It is not used if
    /// [`Algorithm::None`] was chosen. The writer drops its copy when the stream is open; drop the options too, and
    /// the key is no longer in memory.
    #[must_use]
    pub fn key(mut self, key: MasterKey) -> Self {
        self.key = Some(key);
        if !self.is_seal_chosen {
            self.algorithm = Algorithm::Blake3;
        }
        self
    }

    /// Sets when a record counts as durable.
    #[must_use]
    pub fn sync(mut self, mode: SyncMode) -> Self {
        self.sync = mode;
        self
    }

    /// Sets the size of the buffers that producers fill, which is that of the chunks on the disk
    /// under load.
    #[must_use]
    pub fn buffer(mut self, size: BufferSize) -> Self {
        self.buffer = size;
        self
    }

    /// Sets the most bytes of buffers in memory and what happens to records that arrive when they
    /// are full: a lane's bound, in bytes, and its policy.
    ///
    /// [`Overload::DropOldest`] and [`Overload::Coalesce`] are refused: an accepted record is kept.
    #[must_use]
    pub fn memory(mut self, lane: LaneConfig) -> Self {
        self.memory = lane;
        self
    }

    /// Sets how long a record stays in a buffer that does not fill and that nobody waits for.
    #[must_use]
    pub fn flush_after(mut self, time: Duration) -> Self {
        self.flush_after = time;
        self
    }

    /// Sets the size of segment files, in bytes; rounded up to 4 KiB. A record that needs more gets
    /// a larger one.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes = bytes;
        self
    }

    /// Sets which segments may go. By default none ever does.
    #[must_use]
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// Sets the largest record, in bytes; 16 MiB by default, at most [`RECORD_BYTES_LIMIT`].
    #[must_use]
    pub fn record_bytes_max(mut self, bytes: usize) -> Self {
        self.record_bytes_max = bytes;
        self
    }

    /// Sets how many buffers are filled side by side; by default as many as there are processors,
    /// at most 8. Each handle of the stream fills one of them.
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// Opens the stream in a directory, which is created if it does not exist. A stream has one writer:
    /// the directory is locked until it is closed, also if `stream.lock` is removed meanwhile (but on
    /// NFS, which locks only that file).
    ///
    /// # Errors
    ///
    /// See [`OpenError`]. What a crash left behind is cut off and kept aside; that is no error.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<StreamWriter, OpenError> {
        let path = path.as_ref();
        self.validate()?;
        let disk = Disk::create(path).map_err(OpenError::io(format!(
            "open the directory {}",
            path.display()
        )))?;
        StreamWriter::open(self, Arc::new(disk), Some(path.to_owned()))
    }

    /// Opens the stream on any storage.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open_on(&self, storage: Arc<dyn Storage>) -> Result<StreamWriter, OpenError> {
        self.validate()?;
        StreamWriter::open(self, storage, None)
    }

    /// The size of segments, in bytes.
    pub(super) fn segment_size(&self) -> u64 {
        self.segment_bytes.next_multiple_of(ALIGNMENT as u64)
    }

    pub(super) fn shard_count(&self) -> usize {
        self.shards.unwrap_or_else(|| {
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            let affordable = self.memory.bound() as usize / self.buffer.smallest() / 2;
            processors.min(8).min(affordable).max(1)
        })
    }

    fn validate(&self) -> Result<(), OpenError> {
        let refuse = |option, reason: String| Err(OpenError::Option { option, reason });
        if self.algorithm.is_sealed() && self.key.is_none() {
            return Err(OpenError::KeyMissing {
                algorithm: self.algorithm,
            });
        }
        self.memory.validate()?;
        let policy = self.memory.overload_policy();
        if matches!(policy, Overload::DropOldest | Overload::Coalesce) {
            return refuse(
                "memory",
                format!("{policy:?} would drop records that were accepted"),
            );
        }
        if let BufferSize::Bytes(bytes) = self.buffer
            && !(ALIGNMENT..=RECORD_BYTES_LIMIT).contains(&bytes)
        {
            return refuse(
                "buffer",
                format!("{bytes} bytes are not between {ALIGNMENT} and {RECORD_BYTES_LIMIT}"),
            );
        }
        if !(1..=RECORD_BYTES_LIMIT).contains(&self.record_bytes_max) {
            return refuse(
                "record_bytes_max",
                format!("it is not between 1 and {RECORD_BYTES_LIMIT}"),
            );
        }
        if self.segment_bytes < SEGMENT_BYTES_MIN {
            return refuse(
                "segment_bytes",
                format!("a segment has at least {SEGMENT_BYTES_MIN} bytes"),
            );
        }
        if self
            .shards
            .is_some_and(|shards| !(1..=SHARDS_MAX).contains(&shards))
        {
            return refuse("shards", format!("it is not between 1 and {SHARDS_MAX}"));
        }
        if let SyncMode::Interval { bytes: 0, .. } = self.sync {
            return refuse("sync", "an interval has at least 1 byte".to_owned());
        }
        // One buffer that fills and one that is written, for each shard.
        let least = (self.shard_count() * 2 * self.buffer.smallest()) as u64;
        if self.memory.bound() < least {
            return refuse(
                "memory",
                format!("{} shards need at least {least} bytes", self.shard_count()),
            );
        }
        Ok(())
    }
}
