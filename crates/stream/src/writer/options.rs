//! The options of a stream that is written.

use std::{fmt, sync::Arc, time::Duration};

use freeboard_flow::{Epoch, LaneConfig, Overload};

use crate::{
    format::{ALIGNMENT, Algorithm, SealUnit},
    log::OpenError,
    seal::MasterKey,
};

use super::{buffer_size::BufferSize, sync_mode::SyncMode};

/// The largest value of [`StreamOptions::record_bytes_max`], in bytes.
pub const RECORD_BYTES_LIMIT: usize = 512 << 20;

/// The most bytes of a batch ([`StreamWriter::append_batch`](crate::StreamWriter::append_batch)), with 8 bytes and a
/// tag for each record. A batch may also take at most half of the stream's memory.
pub const BATCH_BYTES_LIMIT: usize = RECORD_BYTES_LIMIT;

/// The smallest segment, in bytes.
pub const SEGMENT_BYTES_MIN: u64 = 64 << 10;

/// The most shards that a stream may have.
pub const SHARDS_MAX: usize = 64;

/// A write that has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its records.
    pub records: u64,
    /// Its bytes, headers and padding included.
    pub bytes: u64,
    /// The time that it took.
    pub time: Duration,
}

/// The function that is called after each write.
#[derive(Clone)]
pub(super) struct Observer(pub(super) Arc<dyn Fn(Written) + Send + Sync>);

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer(..)")
    }
}

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
    pub(super) rolls_back: bool,
    pub(super) epoch: Option<Epoch>,
    pub(super) shards: Option<usize>,
    pub(super) observer: Option<Observer>,
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
            rolls_back: false,
            epoch: None,
            shards: None,
            observer: None,
        }
    }
}

impl StreamOptions {
    /// Not sealed, group commit, 64 MiB of memory, segments of 256 MiB that are kept for ever.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the algorithm and the unit of the seal; by default keyed BLAKE3 by batch if there is a key, else none. A
    /// stream keeps its seal for life.
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

    /// Sets the size of the pages that producers fill, which is that of the chunks on the disk under load.
    #[must_use]
    pub fn buffer(mut self, size: BufferSize) -> Self {
        self.buffer = size;
        self
    }

    /// Sets the bound of the buffers in memory, in bytes, and the policy for records that arrive when they are full.
    ///
    /// Policies that drop queued records ([`Overload::DropOldest`], [`Overload::Coalesce`], [`Overload::CoDel`],
    /// [`Overload::MaxAge`]) are refused: an accepted record is kept.
    #[must_use]
    pub fn memory(mut self, lane: LaneConfig) -> Self {
        self.memory = lane;
        self
    }

    /// Sets how long a record stays in a page that does not fill and that no caller waits for.
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

    /// Sets which segments are removed. By default none is.
    #[must_use]
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// Sets whether records of which no ticket had resolved before a crash are removed when the stream is opened again,
    /// so that it ends with an acknowledged record. Without it they stay if they are whole: a write may be on the disk
    /// though the process was killed before its ticket resolved.
    ///
    /// While it is set, a ticket resolves only after a mark says durably that its record was acknowledged: one more
    /// synchronous write of 4 KiB for each group of records. The removal is a truncation, which
    /// [`verify`](crate::verify) lists. Records that a writer without this option has appended stay.
    #[must_use]
    pub fn rollback_unacknowledged(mut self, is_on: bool) -> Self {
        self.rolls_back = is_on;
        self
    }

    /// Sets the epoch of this writer: a fencing token that is higher for each activation of what the stream belongs to.
    /// Opening fails with [`OpenError::Stale`] if a newer epoch has opened the stream. It fences writers of older epochs,
    /// also one that is paused and holds the directory's lock: what they have acknowledged is in the stream, and they
    /// acknowledge nothing after it ([`TicketError::Stale`](crate::TicketError::Stale)). The same epoch may open the stream
    /// again when it is closed.
    ///
    /// Each group of records costs one more read of a small file. The files are in a directory of the epoch:
    /// [`Disk::open_stream`](crate::storage::Disk::open_stream) finds it. From then on the stream is opened only with
    /// epochs. `docs/streams.md` says what a shared file system must promise.
    #[must_use]
    pub fn epoch(mut self, epoch: Epoch) -> Self {
        self.epoch = Some(epoch);
        self
    }

    /// Sets the largest record, in bytes; 16 MiB by default, at most [`RECORD_BYTES_LIMIT`].
    #[must_use]
    pub fn record_bytes_max(mut self, bytes: usize) -> Self {
        self.record_bytes_max = bytes;
        self
    }

    /// Sets how many pages are filled at the same time; by default as many as there are processors, at most 8. Each
    /// handle of the stream fills one of them.
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// Calls `observer` after each write, before the tickets of its records resolve. It must not block: the thread that
    /// has written calls it, and tickets wait for its return. That thread holds no lock. Calls may overlap, and may come
    /// in another order than the writes. A panic is ignored.
    #[must_use]
    pub fn on_write(mut self, observer: impl Fn(Written) + Send + Sync + 'static) -> Self {
        self.observer = Some(Observer(Arc::new(observer)));
        self
    }

    /// The size of segments, in bytes.
    pub(super) fn segment_size(&self) -> u64 {
        self.segment_bytes.next_multiple_of(ALIGNMENT as u64)
    }

    pub(super) fn shard_count(&self) -> usize {
        self.shards.unwrap_or_else(|| {
            let processors =
                freeboard_platform::thread::available_parallelism().map_or(1, usize::from);
            let affordable = self.memory.bound() as usize / self.buffer.smallest().max(1) / 2;
            processors.min(8).min(affordable).max(1)
        })
    }

    pub(super) fn validate(&self) -> Result<(), OpenError> {
        if self.algorithm.is_sealed() && self.key.is_none() {
            return Err(OpenError::KeyMissing {
                algorithm: self.algorithm,
            });
        }
        self.memory.validate().map_err(OpenError::Memory)?;
        let policy = self.memory.overload_policy();
        let drops = matches!(
            policy,
            Overload::DropOldest
                | Overload::Coalesce
                | Overload::CoDel { .. }
                | Overload::MaxAge(_)
        );
        let buffer = match self.buffer {
            BufferSize::Auto => ALIGNMENT,
            BufferSize::Bytes(bytes) => bytes,
        };
        let is_record_valid = (1..=RECORD_BYTES_LIMIT).contains(&self.record_bytes_max);
        let are_shards_valid = self
            .shards
            .is_none_or(|shards| (1..=SHARDS_MAX).contains(&shards));
        // A page that fills and a page that is written, for each shard.
        let shards = self.shard_count();
        let least = shards.saturating_mul(self.buffer.smallest().saturating_mul(2)) as u64;
        let checks = [
            (
                !drops,
                "memory",
                format!("{policy:?} would drop records that were accepted"),
            ),
            (
                (ALIGNMENT..=RECORD_BYTES_LIMIT).contains(&buffer),
                "buffer",
                format!("{buffer} bytes are not between {ALIGNMENT} and {RECORD_BYTES_LIMIT}"),
            ),
            (
                is_record_valid,
                "record_bytes_max",
                format!("it is not between 1 and {RECORD_BYTES_LIMIT}"),
            ),
            (
                self.segment_bytes >= SEGMENT_BYTES_MIN,
                "segment_bytes",
                format!("a segment has at least {SEGMENT_BYTES_MIN} bytes"),
            ),
            (
                are_shards_valid,
                "shards",
                format!("it is not between 1 and {SHARDS_MAX}"),
            ),
            (
                !matches!(self.sync, SyncMode::Interval { bytes: 0, .. }),
                "sync",
                "an interval has at least 1 byte".to_owned(),
            ),
            (
                self.memory.bound() >= least,
                "memory",
                format!("{shards} shards need at least {least} bytes"),
            ),
        ];
        let failed = checks.into_iter().find(|(holds, ..)| !holds);
        failed.map_or(Ok(()), |(_, option, reason)| {
            Err(OpenError::Option { option, reason })
        })
    }
}

/// Which of a stream's finished segments are removed, the oldest first. Whole segments only, never the active one. Each
/// limit that is set is enough by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// The most bytes that the stream's segments take. It is the only limit that removes records which a named consumer
    /// has not acknowledged ([`StreamSnapshot::segments_unread`](crate::StreamSnapshot::segments_unread) counts them).
    pub bytes: Option<u64>,
    /// The most time since its last record was written.
    pub age: Option<Duration>,
    /// Whether a segment is removed when all its records were acknowledged: by all named consumers
    /// ([`StreamWriter::acknowledge_as`](crate::StreamWriter::acknowledge_as)) and, once it was called, by
    /// [`StreamWriter::acknowledge`](crate::StreamWriter::acknowledge).
    pub acknowledged: bool,
}

impl Retention {
    /// Whether a segment is ever removed.
    #[must_use]
    pub const fn is_bounded(&self) -> bool {
        self.bytes.is_some() || self.age.is_some() || self.acknowledged
    }
}
