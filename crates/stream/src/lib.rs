//! Sealed, durable, append-only logs at the disk's speed; for threads, tasks and actors alike.
//!
//! A stream is a directory of segment files. Any number of producers append records of bytes; each
//! append returns a [`Ticket`] that is resolved when the record is durable. What was appended while
//! one batch was on its way to the disk is the next batch.
//!
//! ```text
//!   append ──▶ shard ──full, or waited for──▶ seal ──▶ O_DIRECT|O_DSYNC ──▶ ticket
//!   (copy, checksum)                      (MAC, chain)   (4 KiB aligned)
//!
//!   directory:  00000000000000000001.segment   finished     .index   (to seek, never trusted)
//!               00000000000000000002.segment   active       .broken  (what a crash cut off)
//!               00000000000000000003.segment   prepared     stream.lock
//! ```
//!
//! The design follows scene 2's stream writer (one contiguous buffer, a chained hash, a buffer that
//! follows the rate) and mends what it left open; group commit and the refusal to retry a failed
//! sync are PostgreSQL's, the simulated crashes FoundationDB's and TigerBeetle's.
//!
//! - [`mod@format`]: the bytes on the disk. [`seal`]: keys, tags, the chain.
//! - [`StreamOptions`], [`StreamWriter`], [`Ticket`]: writing.
//! - [`ReaderOptions`], [`StreamReader`]: reading, from anywhere, along with the writer.
//! - [`verify`]: whether a stream is what was written.
//! - [`storage`]: where the bytes go.
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
pub mod storage;
mod sync;
mod verify;
mod writer;

pub use format::{Algorithm, SealUnit};
pub use head::Head;
pub use index::rebuild_index;
pub use log::{OpenError, TailDamage};
pub use reader::{
    Backwards, FOLLOW_PAUSE_MAX, FOLLOW_PAUSE_MIN, ReadError, ReadFrom, ReaderOptions, ReaderStop,
    Record, RecordRef, RecordStream, StreamCapacity, StreamReader,
};
pub use salvage::{SalvageOptions, SalvageReport, salvage};
pub use seal::{KeyError, MasterKey};
pub use verify::{
    Damage, DamageKind, Progress, VerifyError, VerifyOptions, VerifyReport, stream_header, verify,
};
pub use writer::{
    AppendError, AppendManyError, BUFFER_BYTES_MAX, BUFFER_BYTES_MIN, BufferSize, CloseError,
    RECORD_BYTES_LIMIT, Retention, SEGMENT_BYTES_MIN, SHARDS_MAX, Sequences, StreamOptions,
    StreamSnapshot, StreamWriter, SyncMode, Ticket, TicketError,
};
