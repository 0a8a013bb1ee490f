//! Why a stream could not be opened for writing.

use std::{fmt, io};

use freeboard_flow::{ConfigError, Epoch};
use thiserror::Error;

use crate::{
    fence::Stale,
    format::{Algorithm, FormatError, SealUnit},
};

/// Why a stream could not be opened for writing.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A file operation failed.
    #[error("cannot {what}: {error}")]
    Io {
        /// The operation.
        what: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// Another writer has the stream open.
    #[error("another writer has this stream open")]
    Locked,
    /// A newer epoch has opened the stream.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// The stream is opened with epochs, and this writer has none: it would not notice newer ones.
    #[error("epoch {newest} has opened the stream: it can be opened only with an epoch")]
    EpochMissing {
        /// The newest epoch.
        newest: Epoch,
    },
    /// Sealing needs a key, and none was given.
    #[error("sealing with {algorithm} needs a key")]
    KeyMissing {
        /// The algorithm.
        algorithm: Algorithm,
    },
    /// The stream was sealed with another key.
    #[error("the key is not the one that segment {segment} was sealed with")]
    WrongKey {
        /// The segment whose key check failed.
        segment: u64,
    },
    /// The stream is sealed in another way than the options say.
    #[error(
        "the stream is sealed with {found} by {found_unit}, not with {asked} by {asked_unit}: a stream keeps its \
         seal for life"
    )]
    OtherSeal {
        /// The algorithm of the stream.
        found: Algorithm,
        /// Its unit.
        found_unit: SealUnit,
        /// The algorithm of the options.
        asked: Algorithm,
        /// Their unit.
        asked_unit: SealUnit,
    },
    /// This version cannot read a header.
    #[error("segment {segment}: {error}")]
    Format {
        /// The segment.
        segment: u64,
        /// The fault of its header.
        error: FormatError,
    },
    /// The stream has no record at which it could be truncated so.
    #[error(
        "the stream cannot be truncated after record {asked}: it has the records {first} to {last}"
    )]
    Truncation {
        /// The sequence after which all records were to be removed.
        asked: u64,
        /// The first record of the stream.
        first: u64,
        /// The last one.
        last: u64,
    },
    /// The file `truncation.pending` is not one that this stream's writer has left. Nothing was changed.
    #[error("truncation.pending: {reason}")]
    PendingTruncation {
        /// What is wrong with it.
        reason: String,
    },
    /// The positions of consumers cannot be believed. Without the file, the stream opens without consumers.
    #[error("positions.mark: {reason}")]
    Positions {
        /// What is wrong with it.
        reason: String,
    },
    /// The stream is damaged, and valid data follows the damage.
    #[error("{0}. Nothing was changed; salvage copies what is whole")]
    Damaged(Box<TailDamage>),
    /// The bound of the memory is not valid.
    #[error("the memory's bound: {0}")]
    Memory(ConfigError),
    /// An option has an invalid value.
    #[error("{option}: {reason}")]
    Option {
        /// The option.
        option: &'static str,
        /// Why the value is invalid.
        reason: String,
    },
}

impl OpenError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |error| Self::Io { what, error }
    }

    pub(crate) fn damaged(damage: TailDamage) -> Self {
        Self::Damaged(Box::new(damage))
    }

    /// Whether a file that had just been listed is missing.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { error, .. } if error.kind() == io::ErrorKind::NotFound)
    }

    /// Whether the disk is full. A later attempt may succeed.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Io { error, .. } if error.kind() == io::ErrorKind::StorageFull)
    }
}

/// Damage that valid data follows. Cutting it off would lose acknowledged records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailDamage {
    /// The damaged segment.
    pub segment: u64,
    /// The offset of the damage in that segment's file, in bytes.
    pub offset: u64,
    /// The sequence of the first record that cannot be read.
    pub record: u64,
    /// The fault.
    pub reason: String,
    /// The later data that proves that it is not the remains of a crash.
    pub behind: String,
}

impl fmt::Display for TailDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "segment {} at byte {}, record {}: {}; {}",
            self.segment, self.offset, self.record, self.reason, self.behind
        )
    }
}
