//! Sealed, durable, append-only logs at the disk's speed; for threads, tasks and actors.
//!
//! A stream is a directory of segment files. Any number of producers append records of bytes. Each append returns a
//! [`Ticket`] that is resolved when the record is durable. Records that are appended while one batch is written form the
//! next batch.
//!
//! ```text
//!   append ──▶ shard ──full, or waited for──▶ seal ──▶ O_DIRECT|O_DSYNC ──▶ ticket
//!   (copy, checksum)                      (MAC, chain)   (4 KiB aligned)
//!
//!   directory:  00000000000000000001.segment   finished     .index   (to seek, never trusted)
//!               00000000000000000002.segment   active       .broken  (cut off after a crash)
//!               00000000000000000003.segment   prepared     stream.lock
//! ```
//!
//! Group commit and the refusal to retry a failed sync follow PostgreSQL, the simulated crashes FoundationDB and
//! TigerBeetle.
//!
//! - [`mod@format`]: the bytes on the disk. [`seal`]: keys, tags, the chain.
//! - [`StreamOptions`], [`StreamWriter`], [`Ticket`]: writing.
//! - [`ReaderOptions`], [`StreamReader`]: reading, from any position, beside the writer.
//! - [`verify`]: checks whether a stream is what was written. [`salvage`]: copies the whole records of a damaged one.
//! - [`storage`]: the directory, real or simulated.
//! - `archive`, with the feature of that name: streams on S3, Google Cloud Storage, Azure or in another directory.
//!
//! ```
//! use freeboard_stream::{MasterKey, StreamOptions, format::{Algorithm, SealUnit}};
//!
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path();
//! let stream = StreamOptions::new()
//!     .seal(Algorithm::Blake3, SealUnit::Batch)
//!     .key(MasterKey::new(b"32 bytes out of /dev/urandom ...")?)
//!     .open(path)?;
//! let producer = stream.clone();
//! let other = std::thread::spawn(move || producer.append(b"from another thread").map(|t| t.wait()));
//! stream.append(b"from this one")?.wait()?;
//! other.join().expect("it does not panic")??;
//! let head = stream.close()?.expect("two records");
//! assert_eq!(head.sequence, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

#[cfg(feature = "actor")]
pub mod actor;
#[cfg(feature = "archive")]
pub mod archive;
mod fence;
pub mod format;
mod head;
mod index;
mod log;
#[cfg(all(test, loom))]
mod loom_tests;
mod reader;
mod salvage;
mod scan;
pub mod seal;
mod snapshot;
pub mod storage;
mod sync;
mod verify;
mod writer;

pub use fence::Stale;
pub use format::{Algorithm, CONSUMER_NAME_BYTES_MAX, CONSUMERS_MAX, SealUnit};
pub use freeboard_flow::Epoch;
pub use head::Head;
pub use index::rebuild_index;
pub use log::{OpenError, TailDamage};
pub use reader::{
    Backwards, FOLLOW_PAUSE_MAX, FOLLOW_PAUSE_MIN, ReadError, ReadFrom, ReaderOptions, ReaderStop,
    Record, RecordRef, StreamReader,
};
pub use salvage::{SalvageOptions, SalvageReport, salvage};
pub use seal::{KeyError, MasterKey};
pub use snapshot::{SNAPSHOTS_KEPT, Snapshot, SnapshotError, SnapshotWriter, newest_snapshot};
pub use verify::{
    Damage, DamageKind, Progress, TRUNCATIONS_LISTED_MAX, Truncated, VerifyError, VerifyOptions,
    VerifyReport, stream_header, verify,
};
pub use writer::{
    AppendError, AppendManyError, BATCH_BYTES_LIMIT, BUFFER_BYTES_MAX, BUFFER_BYTES_MIN,
    BufferSize, CloseError, ConsumerError, RECORD_BYTES_LIMIT, Retention, SEGMENT_BYTES_MIN,
    SHARDS_MAX, Sequences, StreamOptions, StreamSnapshot, StreamWriter, SyncMode, Ticket,
    TicketError, Written,
};
