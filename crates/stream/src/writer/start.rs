//! Opening a stream for writing.

use std::{
    any::Any,
    io,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, atomic::AtomicU64},
    thread::{self, JoinHandle},
};

use crate::{
    format::{ALIGNMENT, CHUNK_HEADER_BYTES, StreamId, SyncKind, segment_name},
    log::{Identity, Log, OpenError, SegmentFile, Segments, recover, reserve_mark},
    seal::Secret,
    storage::{Access, Storage},
};

use super::{
    committer, demand::Demand, gauges::Gauges, options::StreamOptions, segment_pool::SegmentPool,
    shard::Shard, shared::Shared, turn_guard::TurnGuard, writer_state::WriterState,
};

/// A stream that is open, and what has to be waited for when it is closed.
pub(super) struct Started {
    pub(super) shared: Arc<Shared>,
    pub(super) threads: Vec<JoinHandle<()>>,
    pub(super) lock: Box<dyn Any + Send + Sync>,
}

/// Takes the lock, finds the end, and starts the threads.
pub(super) fn start(
    options: &StreamOptions,
    storage: Arc<dyn Storage>,
    path: Option<PathBuf>,
) -> Result<Started, OpenError> {
    let lock = storage.lock().map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => OpenError::Locked,
        _ => OpenError::io("lock the stream")(error),
    })?;
    let secret = options.key.as_ref().map(Secret::Master);
    let asked = (options.algorithm, options.unit);
    let recovered = recover(storage.as_ref(), secret, asked, 0)?;
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
                file.file().resize(bytes)?;
                file.file().sync()?;
                Ok((file, bytes))
            };
            Some(reserve().map_err(OpenError::io(format!("go on in segment {number}")))?)
        }
    };
    let last_record = recovered.next_record - 1;
    let log = Log::new(identity, secret, &recovered, active);
    let segment_pool = SegmentPool::new(
        storage.clone(),
        access,
        options.segment_size(),
        options.retention,
        Segments::new(recovered.finished),
    );
    segment_pool.set_durable(last_record);
    if options.retention.is_bounded() {
        match reserve_mark(storage.as_ref()) {
            // It stays until somebody removes it, and no segment could ever go.
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                return Err(OpenError::io("make the mark of retention")(error));
            }
            // Where there is no room for it now, it is tried again when a segment goes.
            _ => {}
        }
    }
    segment_pool.rolled(None, log.next_segment(), log.mark_sealer());
    let shards = options.shard_count();
    let tag_bytes = options.unit.record_tag_bytes(options.algorithm);
    let shared = Arc::new_cyclic(|this| Shared {
        // Without the key: from here on the log's ratchet is enough.
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
        page_bytes_max: (half_of_memory(options) / shards).max(options.buffer.smallest()),
        shards: (0..shards).map(|_| Shard::new()).collect(),
        demand: Demand::new(),
        state: Mutex::new(WriterState::new(options.memory)),
        work: Condvar::new(),
        log: Mutex::new(log),
        segment_pool,
        gauges: Gauges::new(options.buffer),
        fault: Mutex::new(None),
        closed: Mutex::new(None),
        base: AtomicU64::new(last_record),
        written: AtomicU64::new(last_record),
        this: this.clone(),
    });
    let threads = start_threads(&shared).map_err(OpenError::io("start the stream's threads"))?;
    Ok(Started {
        shared,
        threads,
        lock,
    })
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
        ("stream-segment_pool", |shared| {
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
                    // It ends by the closing; whether it panicked changes nothing.
                    let _ = thread.join();
                }
                return Err(error);
            }
        }
    }
    Ok(threads)
}
