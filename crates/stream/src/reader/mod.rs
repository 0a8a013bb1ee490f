//! Reading: from anywhere, in both directions, along with the writer.
//!
//! A reader holds one chunk at a time and hands out its records one by one, each after its chunk was
//! checked as a whole: checksums always, tags if it was given the key. It takes no lock and asks the
//! writer for nothing; it reads the files.
//!
//! ```text
//!   segment 7 ──▶ chunk, chunk, chunk ──▶ does the next one follow?
//!                                          │ yes: hand out its records
//!                                          │ no, and segment 8 begins with it: go there
//!                                          │ no, and a later chunk says it was durable: damage
//!                                          └ no: the end, for now
//! ```
//!
//! At the tail a chunk may be seen half written; it is not there until all its checksums hold. Two
//! may be on their way at once, so one behind a hole proves nothing until its header says that what
//! is missing had been durable.
//!
//! **A reader may be ahead of what is durable.** It hands out what is whole in the files, which the
//! writer may still be making durable: in mode batch what is in the writes on their way, in mode
//! interval what was written since the last sync, in mode none all that is in the last segments. A power
//! failure, or a write or sync that fails, may take that away again, and other records get its
//! sequences. Who must not act on such a record compares its sequence with
//! [`Sequences::durable`](crate::Sequences::durable) of the writer; what is up to there stays. Who keeps
//! a place beyond a crash keeps that one. A reader that was ahead when a running writer failed gets
//! [`ReadError::Damaged`] where the stream goes on; one that has lived through a crash of the writer's
//! process is to be opened anew.

mod backwards;
mod cursor;
mod error;
mod gap;
mod options;
mod record;
mod record_stream;
mod seek;
mod segments;
mod stop;
mod stream_reader;

pub use backwards::Backwards;
pub use error::ReadError;
pub use options::{ReadFrom, ReaderOptions};
pub use record::{Record, RecordRef};
pub use record_stream::{RecordStream, StreamCapacity};
pub use stop::ReaderStop;
pub use stream_reader::{FOLLOW_PAUSE_MAX, FOLLOW_PAUSE_MIN, StreamReader};
