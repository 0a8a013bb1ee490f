//! The result of a check.

use std::{fmt, io};

use thiserror::Error;

use crate::{
    format::{Algorithm, FormatError, SealUnit, StreamId, Truncation},
    head::Head,
};

/// The progress of a check.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The bytes that were checked.
    pub bytes_done: u64,
    /// All bytes.
    pub bytes_total: u64,
}

/// The result of a check.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The stream.
    pub stream: StreamId,
    /// The algorithm of its seal.
    pub algorithm: Algorithm,
    /// The unit of its seal.
    pub unit: SealUnit,
    /// Whether the tags were checked; without a key they cannot be.
    pub tags_checked: bool,
    /// Whether the stream was being written, so that its end was moving.
    pub is_live: bool,
    /// Segments that have begun.
    pub segments: u64,
    /// The number of the last segment's file. It may be a prepared file that holds no records yet.
    pub last_segment: u64,
    /// Chunks that are whole.
    pub chunks: u64,
    /// Records that are whole.
    pub records: u64,
    /// The length of all segment files, in bytes.
    pub bytes: u64,
    /// The sequence of the first record that the stream has kept, 0 for none.
    pub first_record: u64,
    /// The sequence of the last whole record, 0 for none.
    pub last_record: u64,
    /// How many times the stream had been opened for writing.
    pub epoch: u64,
    /// The end of the last whole chunk.
    pub head: Option<Head>,
    /// The truncations that the stream's segments show, oldest first; at most [`TRUNCATIONS_LISTED_MAX`]. A truncation
    /// is no damage.
    pub truncations: Vec<Truncated>,
    /// The number of truncations.
    pub truncation_count: u64,
    /// The damages, in the order of the files; at most as many as the options allow.
    pub damages: Vec<Damage>,
    /// The number of damages.
    pub damage_count: u64,
}

/// The most truncations that a report lists.
pub const TRUNCATIONS_LISTED_MAX: usize = 1_000;

/// A truncation, as the segment that was begun after it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// The number of that segment.
    pub segment: u64,
    /// The last record that was kept and the highest that was removed.
    pub records: Truncation,
    /// When it took place, in nanoseconds since 1970.
    pub time_ns: u64,
}

impl fmt::Display for Truncated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Truncation { kept, removed } = self.records;
        let segment = self.segment;
        write!(
            f,
            "truncated: records {} to {removed} were removed before segment {segment}",
            kept + 1
        )
    }
}

impl VerifyReport {
    /// Whether there is no damage.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.damage_count == 0
    }
}

/// The kind of a damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DamageKind {
    /// Bytes changed, and a checksum says so.
    Rot,
    /// Bytes were changed and their checksums recomputed; a tag or the chain says so.
    Tamper,
    /// Data is missing between other data.
    Gap,
    /// Data is in another position, or there twice.
    Reorder,
    /// Older data has replaced newer data.
    Stale,
    /// The last write is incomplete; nothing says that it ever was durable.
    Torn,
    /// The end is missing.
    Truncated,
}

impl DamageKind {
    /// Its name, in small letters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rot => "rot",
            Self::Tamper => "tamper",
            Self::Gap => "gap",
            Self::Reorder => "reorder",
            Self::Stale => "stale",
            Self::Torn => "torn",
            Self::Truncated => "truncated",
        }
    }
}

impl fmt::Display for DamageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One damage of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The damaged segment.
    pub segment: u64,
    /// The offset of the damage in the segment's file, in bytes.
    pub offset: u64,
    /// The first and the last record that cannot be trusted; `None` where no record is concerned.
    pub records: Option<(u64, u64)>,
    /// The kind.
    pub kind: DamageKind,
    /// A description.
    pub detail: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            segment,
            offset,
            kind,
            ..
        } = self;
        write!(f, "{kind}: segment {segment} at byte {offset}")?;
        match self.records {
            Some((first, last)) if first == last => write!(f, ", record {first}")?,
            Some((first, last)) => write!(f, ", records {first} to {last}")?,
            None => {}
        }
        write!(f, ": {}", self.detail)
    }
}

/// Why a stream could not be checked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// No segment has a header.
    #[error("there is no stream")]
    NoStream,
    /// A file operation failed.
    #[error("cannot {what}: {error}")]
    Io {
        /// The operation.
        what: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// This version cannot read a header.
    #[error("segment {segment}: {error}")]
    Format {
        /// The segment.
        segment: u64,
        /// The fault of its header.
        error: FormatError,
    },
    /// No segment was sealed with this key.
    #[error("the key is not the one that segment {segment} was sealed with")]
    WrongKey {
        /// The first segment.
        segment: u64,
    },
    /// A key was given, and the stream says that it is not sealed.
    #[error("a key was given, and segment {segment} says that it is not sealed")]
    NotSealed {
        /// The first segment.
        segment: u64,
    },
}

impl VerifyError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |error| Self::Io { what, error }
    }
}
