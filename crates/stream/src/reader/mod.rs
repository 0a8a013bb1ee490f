//! Reading: from any position, in both directions, beside the writer.
//!
//! A reader holds one chunk at a time and hands out its records one by one, after the chunk was checked as a whole:
//! checksums always, tags if it was given the key. It takes no lock and asks the writer for nothing; it reads the files.
//!
//! ```text
//!   segment 7 ──▶ chunk, chunk, chunk ──▶ does the next one follow?
//!                                          │ yes: hand out its records
//!                                          │ no, and segment 8 begins with it: go there
//!                                          │ no, and a later chunk says it was durable: damage
//!                                          └ no: the end, for now
//! ```
//!
//! At the end a chunk may be seen half written; it counts once all its checksums hold. Two may be written at once, so a
//! chunk after a hole proves nothing until its header says that the missing chunk had been durable.
//!
//! **A reader may be ahead of the durable records.** It hands out what is whole in the files. The writer may still be
//! making that durable: the writes in flight (mode batch), the data since the last sync (mode interval), or the last
//! segments (mode none). A power failure, or a write or sync that fails, may lose those records, and other records get
//! their sequences. A caller that must not act on such a record compares its sequence with
//! [`Sequences::durable`](crate::Sequences::durable) of the writer; records up to there stay. A caller that keeps a
//! position beyond a crash keeps that one. A reader that was ahead when a running writer failed gets
//! [`ReadError::Damaged`] where the stream continues. After a crash of the writer's process, open a new reader.

mod backwards;
mod error;
mod gap;
mod options;
mod record;
mod seek;
mod segments;
mod stream_reader;

pub use backwards::Backwards;
pub use error::ReadError;
pub use options::{ReadFrom, ReaderOptions};
pub use record::{Record, RecordRef};
pub use stream_reader::{FOLLOW_PAUSE_MAX, FOLLOW_PAUSE_MIN, ReaderStop, StreamReader};
