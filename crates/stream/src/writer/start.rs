//! Opens a stream for writing.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64},
    },
};

use freeboard_platform::{
    sync::{Condvar, Mutex},
    thread::{self, JoinHandle},
};

use crate::{
    fence::{Fence, enter, lock, refuse_epochs, stale_or},
    format::{ALIGNMENT, CHUNK_HEADER_BYTES, StreamId, SyncKind, segment_name},
    log::{
        Identity, LogEnd, OpenError, SegmentFile, complete_truncation, prepare_truncation,
        read_positions, recover, reserve_mark,
    },
    seal::Secret,
    storage::{Access, Disk, Storage},
};

use super::{
    committer,
    consumers::Consumers,
    demand::Demand,
    ending::TurnGuard,
    metrics::Gauges,
    options::{BATCH_BYTES_LIMIT, StreamOptions},
    segment_pool::SegmentPool,
    shard::Shard,
    shared::Shared,
    stream_writer::StreamWriter,
    writer_state::WriterState,
};

impl StreamOptions {
    /// Opens the stream in a directory, which is created if it does not exist. A stream has one writer: the directory
    /// is locked until it is closed, also if `stream.lock` is removed meanwhile (but on NFS, which locks only that
    /// file).
    ///
    /// # Errors
    ///
    /// See [`OpenError`]. The remains of a crash are cut off and kept in another file; that is no error.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<StreamWriter, OpenError> {
        let path = path.as_ref();
        self.validate()?;
        let directory = format!("open the directory {}", path.display());
        let disk = Disk::create(path).map_err(OpenError::io(directory))?;
        start(self, Arc::new(disk), Some(path.to_owned()), None)
    }

    /// Opens the stream on any storage.
    pub fn open_on(&self, storage: Arc<dyn Storage>) -> Result<StreamWriter, OpenError> {
        self.validate()?;
        start(self, storage, None, None)
    }

    /// Opens the stream in a directory, and removes all records after the sequence `kept`; 0 removes all. It takes place
    /// as a whole: if it is interrupted by a crash, the stream has all its records, or the next opening ends the removal.
    /// It is durable when this returns. New records get the sequences after `kept`. [`verify`](crate::verify) lists it.
    ///
    /// Readers that are ahead of `kept` must be opened anew. Snapshots after `kept` are removed; a store of which retention
    /// has removed records must not go back behind its oldest snapshot.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and [`OpenError::Truncation`] if the stream has fewer records, or retention has removed
    /// the record after `kept`.
    pub fn open_truncated(
        &self,
        path: impl AsRef<Path>,
        kept: u64,
    ) -> Result<StreamWriter, OpenError> {
        let path = path.as_ref();
        self.validate()?;
        let directory = format!("open the directory {}", path.display());
        let disk = Disk::create(path).map_err(OpenError::io(directory))?;
        start(self, Arc::new(disk), Some(path.to_owned()), Some(kept))
    }

    /// As [`open_truncated`](Self::open_truncated), on any storage.
    pub fn open_truncated_on(
        &self,
        storage: Arc<dyn Storage>,
        kept: u64,
    ) -> Result<StreamWriter, OpenError> {
        self.validate()?;
        start(self, storage, None, Some(kept))
    }
}

fn start(
    options: &StreamOptions,
    storage: Arc<dyn Storage>,
    path: Option<PathBuf>,
    kept: Option<u64>,
) -> Result<StreamWriter, OpenError> {
    let parent = storage.clone();
    start_on(options, storage, path, kept).map_err(|error| match options.epoch {
        // A newer epoch may have removed the files.
        Some(epoch) => stale_or(parent.as_ref(), epoch, error),
        None => error,
    })
}

/// Takes the lock, finds the end, and starts the threads.
fn start_on(
    options: &StreamOptions,
    storage: Arc<dyn Storage>,
    path: Option<PathBuf>,
    kept: Option<u64>,
) -> Result<StreamWriter, OpenError> {
    let secret = options.key.as_ref().map(Secret::Master);
    let asked = (options.algorithm, options.unit);
    let (storage, lock, fence) = match options.epoch {
        None => {
            let lock = lock(storage.as_ref())?;
            refuse_epochs(storage.as_ref())?;
            (storage, lock, None)
        }
        Some(epoch) => {
            let entered = enter(storage, epoch, secret, asked)?;
            (entered.storage, entered.lock, Some(entered.fence))
        }
    };
    // Before a truncation begins, and before it is completed: a newer epoch copies the file of one that has begun.
    let check_epoch = || fence.as_ref().map_or(Ok(()), Fence::check_open);
    let complete_truncation = |recovered: &_| {
        check_epoch()?;
        complete_truncation(storage.as_ref(), secret, recovered)
    };
    let prepare_truncation = |recovered: &_, kept| {
        check_epoch()?;
        prepare_truncation(storage.as_ref(), secret, recovered, kept)
    };
    let recover = || recover(storage.as_ref(), secret, asked, 0);
    let mut recovered = recover()?;
    if complete_truncation(&recovered)? {
        recovered = recover()?;
    }
    if let Some(kept) = kept
        && prepare_truncation(&recovered, kept)?
    {
        complete_truncation(&recovered)?;
        recovered = recover()?;
    }
    let positions = read_positions(storage.as_ref(), secret, &recovered)?;
    // The last epoch is at most the mark's if no other writer has appended since.
    let rolled_back = positions
        .as_ref()
        .filter(|it| options.rolls_back && it.epoch >= recovered.epoch - 1 && it.epoch > 0);
    if let Some(mark) = rolled_back
        && mark.acknowledged < recovered.next_record - 1
        && prepare_truncation(&recovered, mark.acknowledged)?
    {
        complete_truncation(&recovered)?;
        recovered = recover()?;
    }
    let stream = match &recovered.header {
        Some(header) => header.stream,
        None => new_stream_id()?,
    };
    let identity = Identity {
        stream,
        algorithm: options.algorithm,
        unit: options.unit,
        sync: options.sync.kind(),
    };
    let access = match identity.sync {
        SyncKind::Batch => Access::Durable,
        SyncKind::None | SyncKind::Interval => Access::Cached,
    };
    let active = match recovered.active {
        None => None,
        Some((number, offset)) => {
            let reserve = || {
                let file = SegmentFile::open(storage.as_ref(), &segment_name(number), access)?;
                let bytes = options.segment_size().max(offset);
                let bytes = match file.file().resize(bytes) {
                    // The first record begins a new segment: retention may make space for it.
                    Err(error) if error.kind() == io::ErrorKind::StorageFull => offset,
                    resized => resized.map(|()| bytes)?,
                };
                file.file().sync()?;
                Ok((file, bytes))
            };
            Some(reserve().map_err(OpenError::io(format!("continue in segment {number}")))?)
        }
    };
    let last_record = recovered.next_record - 1;
    let log = LogEnd::new(identity, secret, &recovered, active);
    let segment_pool = SegmentPool::new(
        storage.clone(),
        access,
        options.segment_size(),
        options.retention,
        fence.clone(),
        recovered.finished,
    );
    segment_pool.set_durable(last_record);
    if options.retention.is_bounded() {
        match reserve_mark(storage.as_ref()) {
            // It stays until it is removed, and no segment could ever be removed.
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                return Err(OpenError::io("make the retention mark")(error));
            }
            // On a full disk it is tried again when a segment is removed.
            _ => {}
        }
    }
    segment_pool.rolled(None, &log);
    let consumers = Consumers::new(stream, positions, &segment_pool);
    let epoch = if options.rolls_back {
        recovered.epoch
    } else {
        0
    };
    consumers.begin(storage.as_ref(), &segment_pool, epoch, last_record)?;
    let shards = options.shard_count();
    let tag_bytes = options.unit.record_tag_bytes(options.algorithm);
    let shared = Arc::new_cyclic(|this| Shared {
        // Without the key: from here on the ratchet of the log is enough.
        options: StreamOptions {
            key: None,
            ..options.clone()
        },
        path,
        storage,
        identity,
        recovered: last_record,
        tag_bytes,
        record_limit: record_limit(options, tag_bytes),
        batch_limit: batch_limit(options),
        page_bytes_max: (half_of_memory(options) / shards).max(options.buffer.smallest()),
        shards: (0..shards).map(|_| Shard::new()).collect(),
        demand: Demand::new(),
        state: Mutex::new(WriterState::new(options.memory)),
        work: Condvar::new(),
        log: Mutex::new(log),
        segment_pool,
        fence,
        is_stale: AtomicBool::new(false),
        consumers,
        is_snapshotting: AtomicBool::new(false),
        gauges: Gauges::new(options.buffer),
        fault: Mutex::new(None),
        closed: Mutex::new(None),
        base: AtomicU64::new(last_record),
        written: AtomicU64::new(last_record),
        lock_checked_ns: AtomicU64::new(0),
        this: this.clone(),
    });
    let threads = start_threads(&shared).map_err(OpenError::io("start the stream's threads"))?;
    Ok(StreamWriter::new(shared, threads, lock))
}

fn half_of_memory(options: &StreamOptions) -> usize {
    usize::try_from(options.memory.bound() / 2).unwrap_or(usize::MAX)
}

/// Half of memory, so that one record can be written while the next is appended.
fn record_limit(options: &StreamOptions, tag_bytes: usize) -> usize {
    let overhead = CHUNK_HEADER_BYTES + crate::format::record_bytes(0, tag_bytes) + ALIGNMENT;
    options
        .record_bytes_max
        .min(half_of_memory(options).saturating_sub(overhead))
}

/// Half of memory, as for a record.
fn batch_limit(options: &StreamOptions) -> usize {
    half_of_memory(options)
        .saturating_sub(CHUNK_HEADER_BYTES + ALIGNMENT)
        .min(BATCH_BYTES_LIMIT)
}

fn new_stream_id() -> Result<StreamId, OpenError> {
    let mut id = [0; 16];
    let mut filled = 0;
    while filled < id.len() {
        filled += rustix::rand::getrandom(&mut id[filled..], rustix::rand::GetRandomFlags::empty())
            .map_err(|error| OpenError::io("draw a stream id")(error.into()))?;
    }
    Ok(StreamId(id))
}

type Body = fn(&Shared);

fn start_threads(shared: &Arc<Shared>) -> io::Result<Vec<JoinHandle<()>>> {
    let spawn = |(name, body): (&str, Body)| {
        let shared = shared.clone();
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || body(&shared))
    };
    let mut threads = Vec::new();
    let bodies: [(&str, Body); 3] = [
        ("stream-write-0", committer::run),
        ("stream-write-1", committer::run),
        ("stream-segments", |shared| {
            let guard = TurnGuard::new(shared);
            shared
                .segment_pool
                .run(&mut |trouble| shared.troubled(trouble));
            guard.finish();
        }),
    ];
    for body in bodies {
        match spawn(body) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                shared.close();
                for thread in threads {
                    // The close terminates it; a panic of it changes nothing.
                    let _ = thread.join();
                }
                return Err(error);
            }
        }
    }
    Ok(threads)
}
