//! The stream as one thread sees it: where the next chunk goes, and what its header says.
//!
//! ```text
//!   open ──▶ recovery ──▶ Log { active segment, chain, counts } ──place──▶ Placed ──▶ (written by
//!                                      │                                        whoever has it)
//!                                 Segments: the finished, the prepared, the retired
//! ```
//!
//! `Log` seals and assigns places; it does no I/O but to begin a segment. Two placed batches may be
//! on their way to the disk at once, in any order; the headers' `durable` field is what lets
//! recovery tell the hole that leaves from damage.

mod damage;
mod error;
mod identity;
mod place;
mod recovery;
mod search;
mod segment_file;
mod segments;
mod tail;
mod walk;

pub use damage::TailDamage;
pub use error::OpenError;
pub(crate) use identity::Identity;
pub(crate) use place::{Filled, Log, Part, Placed};
pub(crate) use recovery::recover;
pub(crate) use segment_file::SegmentFile;
pub(crate) use segments::{
    Finished, Prepared, Retired, Segments, prepare, read_marks, reserve_mark, spare_name,
    write_mark,
};
