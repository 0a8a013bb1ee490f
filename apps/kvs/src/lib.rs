//! A small durable key-value store: actors by key range over one stream.
//!
//! ```text
//!   redis-cli ─▶ connection ─▶ Partition "" to "i"  ─┐ append        ┌─▶ segments
//!   (RESP)       (task)    ─▶ Partition "i" to "q" ─┼─▶ one stream ─┤
//!              ◀─ replies ──── Partition "q" to ...  ─┘ ◀─ durable ──┘    snapshots (thread)
//! ```
//!
//! - A partition holds its keys in memory, in order. It replies to a change when the stream says that it is durable. One
//!   write to the disk carries the changes of all partitions: group commit.
//! - **Each key is linearizable**: a read returns no value that a crash could take back. `tests/it/kills.rs` kills the
//!   store under load and checks the histories.
//! - A snapshot is written after so many changes. Its sequence is that of the last durable record before it is begun. Its
//!   pages may hold later changes, since records say values, not differences, and are applied again in order. The stream
//!   is flushed before the snapshot counts, so it holds nothing that a crash could take back.
//! - Recovery reads the newest snapshot and the records after it, at most about twice as many as lie between two
//!   snapshots. The records before the older of two snapshots are removed.
//!
//! Not offered: transactions, expiry, and more data than memory.

#![forbid(unsafe_code)]

mod partition;
mod record;
mod server;

use std::{
    io::{self, BufReader},
    ops::Bound,
    path::Path,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use freeboard::{
    platform::{
        planted,
        thread::{self, JoinHandle},
    },
    prelude::*,
    stream::{
        CloseError, OpenError, ReadError, ReadFrom, ReaderOptions, Retention, SnapshotError,
        StreamOptions, StreamWriter, newest_snapshot,
        storage::{Disk, Storage},
    },
};
use thiserror::Error;
use tokio::sync::oneshot;

pub use partition::{Command, Condition, RANGE_BYTES_MAX, Reply};
use partition::{Partition, Request};
pub use record::ENTRY_BYTES_MAX;
use record::Map;
pub use server::{CONNECTIONS_MAX, PIPELINE_MAX, RANGE_MAX, serve};

/// The most ranges of keys: each fills a page of the stream of its own.
pub const PARTITIONS_MAX: usize = 32;

/// The entries of a snapshot that a partition hands over at once.
const PAGE_ENTRIES: usize = 4_096;

/// How often it is checked whether a snapshot is due.
const SNAPSHOT_CHECK: Duration = Duration::from_millis(50);

/// The longest pause after snapshots that failed; each one is twice as long as the one before.
const SNAPSHOT_PAUSE_MAX: Duration = Duration::from_secs(60);

/// The options of a store.
#[derive(Clone, Debug)]
pub struct KvsOptions {
    /// The first keys of all ranges but the first, in order. They may change from one opening to the next.
    pub splits: Vec<Bytes>,
    /// The changes after which a snapshot is written.
    pub snapshot_after: u64,
    /// The size of the stream's segments, in bytes.
    pub segment_bytes: u64,
}

impl Default for KvsOptions {
    /// Four ranges, which begin with nothing, `a`, `i` and `q`; a snapshot every million changes.
    fn default() -> Self {
        Self {
            splits: ["a", "i", "q"].map(Bytes::from).to_vec(),
            snapshot_after: 1_000_000,
            segment_bytes: 64 << 20,
        }
    }
}

/// Why a store could not be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KvsError {
    /// The splits are not in order, or too many.
    #[error("splits are keys in order, at most {} of them", PARTITIONS_MAX - 1)]
    Splits,
    /// The stream cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The stream cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The snapshot cannot be found.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The snapshot cannot be read.
    #[error("the snapshot cannot be read: {0}")]
    Entries(#[from] io::Error),
    /// A record is not one of this store.
    #[error("record {0} is not a change of a key")]
    Record(u64),
    /// The actors or the thread of snapshots cannot be started.
    #[error("cannot start: {0}")]
    Start(String),
}

/// What a store found when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The sequence of the snapshot, 0 without one.
    pub snapshot: u64,
    /// The records after it.
    pub replayed: u64,
}

/// A store that is open.
pub struct Kvs {
    splits: Vec<Bytes>,
    partitions: Vec<ActorRef<Partition>>,
    stream: StreamWriter,
    recovery: Recovery,
    snapshots: JoinHandle<()>,
    snapshot_failures: Arc<AtomicU64>,
    /// While it exists, snapshots are written.
    is_open: Arc<()>,
}

impl Kvs {
    /// Opens the store in a directory, which is created if it does not exist, and starts its actors in `system`.
    ///
    /// # Errors
    ///
    /// See [`KvsError`].
    pub fn open(
        system: &System,
        directory: impl AsRef<Path>,
        options: &KvsOptions,
    ) -> Result<Self, KvsError> {
        let directory = directory.as_ref();
        let disk = Disk::create(directory).map_err(|error| OpenError::Io {
            what: format!("open the directory {}", directory.display()),
            error,
        })?;
        Self::open_on(system, Arc::new(disk), options)
    }

    /// As [`open`](Self::open), on any storage.
    ///
    /// # Errors
    ///
    /// See [`KvsError`].
    pub fn open_on(
        system: &System,
        storage: Arc<dyn Storage>,
        options: &KvsOptions,
    ) -> Result<Self, KvsError> {
        let splits = options.splits.clone();
        if splits.len() >= PARTITIONS_MAX || !splits.is_sorted_by(|split, next| split < next) {
            return Err(KvsError::Splits);
        }
        let stream = StreamOptions::new()
            .segment_bytes(options.segment_bytes)
            .shards(splits.len() + 1)
            .retention(Retention {
                acknowledged: true,
                ..Retention::default()
            })
            .open_on(storage)?;
        let (maps, recovery) = recover(&stream, &splits)?;
        let start = |error: &dyn std::fmt::Display| KvsError::Start(error.to_string());
        let partition = |map: Map| {
            let partition = Partition::new(map, stream.clone());
            system
                .spawn_once(SpawnOptions::new(), partition)
                .map_err(|error| start(&error))
        };
        let partitions = maps.into_iter().map(partition);
        let partitions = partitions.collect::<Result<Vec<_>, _>>()?;
        let snapshot_failures = Arc::new(AtomicU64::new(0));
        let is_open = Arc::new(());
        let mut snapshots = Snapshots {
            partitions: partitions.clone(),
            stream: stream.clone(),
            last: recovery.snapshot,
            failures: snapshot_failures.clone(),
            after: options.snapshot_after,
        };
        let thread = thread::Builder::new().name("kvs-snapshots".to_owned());
        let open = Arc::downgrade(&is_open);
        let thread = thread.spawn(move || snapshots.run(&open));
        Ok(Self {
            splits,
            partitions,
            stream,
            recovery,
            snapshots: thread.map_err(|error| start(&error))?,
            snapshot_failures,
            is_open,
        })
    }

    /// What was found when it was opened.
    #[must_use]
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// The recovery, and the snapshots that could not be written, each of which is tried again.
    pub(crate) fn info(&self) -> String {
        // Ordering: Relaxed, a figure.
        let failures = self.snapshot_failures.load(Ordering::Relaxed);
        let Recovery { snapshot, replayed } = self.recovery;
        format!(
            "recovered_snapshot:{snapshot}\r\nrecovered_records:{replayed}\r\nsnapshot_failures:{failures}\r\n"
        )
    }

    fn partition_of(&self, key: &[u8]) -> usize {
        self.splits.partition_point(|split| *split <= key)
    }

    /// Sends a command about one key. The reply comes when what it says is durable; none comes if the store's actors have
    /// terminated, and whether the key was changed is not known then.
    pub async fn request(&self, key: &[u8], command: Command) -> oneshot::Receiver<Reply> {
        request(&self.partitions[self.partition_of(key)], command).await
    }

    /// Terminates the actors after their requests, and closes the stream.
    ///
    /// # Errors
    ///
    /// If the stream cannot be closed.
    pub fn close(self) -> Result<(), CloseError> {
        drop(self.is_open);
        self.snapshots.thread().unpark();
        // A panic of it changes nothing.
        let _ = self.snapshots.join();
        // Before the partitions, so that no reply is dropped that waits for its record.
        let _ = self.stream.flush();
        for partition in &self.partitions {
            partition.stop_gracefully();
            partition.join();
        }
        self.stream.close().map(drop)
    }
}

async fn request(partition: &ActorRef<Partition>, command: Command) -> oneshot::Receiver<Reply> {
    let (sender, receiver) = oneshot::channel();
    let _ = partition.send(Request(command, sender)).await;
    receiver
}

/// Reads the newest snapshot, and the records after it.
fn recover(stream: &StreamWriter, splits: &[Bytes]) -> Result<(Vec<Map>, Recovery), KvsError> {
    let mut maps = vec![Map::new(); splits.len() + 1];
    let index = |key: &Bytes| splits.partition_point(|split| split <= key);
    let mut snapshot = 0;
    if let Some(newest) = newest_snapshot(stream.storage().as_ref(), None)? {
        snapshot = newest.sequence;
        record::read_entries(
            &mut BufReader::with_capacity(1 << 20, newest),
            |key, value| {
                maps[index(&key)].insert(key, value);
            },
        )?;
    }
    let mut replayed = 0;
    let from = ReadFrom::Sequence(snapshot + 1);
    let mut reader = ReaderOptions::new()
        .from(from)
        .open_on(stream.storage().clone())?;
    while let Some(change) = reader.next_ref()? {
        let (key, value) =
            record::decode(change.payload).ok_or(KvsError::Record(change.sequence))?;
        let map = &mut maps[index(&key)];
        match value {
            Some(value) => map.insert(key, value),
            None if planted!("deletion-forgotten") => None,
            None => map.remove(&key),
        };
        replayed += 1;
    }
    Ok((maps, Recovery { snapshot, replayed }))
}

/// Writes snapshots when they are due.
struct Snapshots {
    partitions: Vec<ActorRef<Partition>>,
    stream: StreamWriter,
    /// The sequence of the last one.
    last: u64,
    after: u64,
    failures: Arc<AtomicU64>,
}

impl Snapshots {
    /// Runs until the store is closed or dropped.
    fn run(&mut self, is_open: &Weak<()>) {
        let mut pause = SNAPSHOT_CHECK;
        // It is checked before each wait, so that no unpark is missed.
        while is_open.strong_count() > 0 {
            thread::park_timeout(pause);
            let durable = self.stream.sequences().durable;
            if durable - self.last < self.after {
                continue;
            }
            match self.write(durable) {
                Ok(()) => (self.last, pause) = (durable, SNAPSHOT_CHECK),
                Err(_) => {
                    // Ordering: Relaxed, a figure.
                    self.failures.fetch_add(1, Ordering::Relaxed);
                    pause = SNAPSHOT_PAUSE_MAX.min(2 * pause);
                }
            }
        }
    }

    fn write(&self, sequence: u64) -> Result<(), SnapshotError> {
        let unneeded = self.stream.write_snapshot(sequence, |writer| {
            for partition in &self.partitions {
                let mut from = Bound::Unbounded;
                loop {
                    let page = Command::Range(from, Bound::Unbounded, PAGE_ENTRIES);
                    let page = thread::block_on(async { request(partition, page).await.await });
                    let Ok(Reply::Values(page)) = page else {
                        return Err(io::Error::other("the partition does not answer"));
                    };
                    let Some([key, _]) = page.as_chunks().0.last() else {
                        break;
                    };
                    from = Bound::Excluded(key.clone());
                    for [key, value] in page.as_chunks().0 {
                        record::write_entry(writer, key, value)?;
                    }
                }
            }
            // The pages may hold changes that are not durable yet.
            self.stream.flush().map(drop).map_err(io::Error::other)
        })?;
        self.stream.acknowledge(unneeded);
        Ok(())
    }
}
