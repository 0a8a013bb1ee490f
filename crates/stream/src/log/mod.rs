//! The stream as one thread sees it: its end, and the header of the next chunk.
//!
//! ```text
//!   open ──▶ recovery ──▶ LogEnd { active segment, chain, counts } ──seal──▶ chunk, and its file and offset
//! ```
//!
//! This layer does not know the writer. [`LogEnd`] seals chunks and assigns offsets; it does no I/O. Two sealed chunks
//! may be written at once, in any order: recovery tells the hole that a crash leaves from damage by the headers'
//! `durable` field.

mod end;
mod error;
mod files;
mod marks;
mod positions;
mod recovery;
mod search;
mod segment_file;
mod truncation;

pub(crate) use end::{Body, Identity, LogEnd};
pub use error::{OpenError, TailDamage};
pub(crate) use files::{Finished, PREPARING, Prepared, prepare, spare_name};
pub(crate) use marks::{read_marks, reserve_mark, write_mark};
pub(crate) use positions::{PositionsFile, read_positions};
pub(crate) use recovery::{first_unproved, recover};
pub(crate) use segment_file::{SegmentFile, WRITE_SLOTS};
pub(crate) use truncation::{PENDING, complete_truncation, prepare_truncation};
