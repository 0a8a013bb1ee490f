//! Why a record could not be read.

use std::io;

use thiserror::Error;

use crate::format::FormatError;

/// Why a record could not be read. The reader stays where it is.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// A file operation failed.
    #[error("cannot {what}: {error}")]
    Io {
        /// The segment, unless it was an operation on the directory.
        segment: Option<u64>,
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
    /// The stream was sealed with another key.
    #[error("the key is not the one that segment {segment} was sealed with")]
    WrongKey {
        /// The segment whose key check failed.
        segment: u64,
    },
    /// A key was given, and the stream says that it is not sealed.
    #[error("a key was given, and segment {segment} says that it is not sealed")]
    NotSealed {
        /// The segment.
        segment: u64,
    },
    /// Retention has removed the wanted record.
    #[error("record {wanted} is no longer kept: the oldest is {oldest}")]
    Gone {
        /// The sequence of the wanted record.
        wanted: u64,
        /// The sequence of the oldest record.
        oldest: u64,
    },
    /// The stream is damaged here, and continues after the damage: see
    /// [`StreamReader::skip_damage`](crate::StreamReader::skip_damage).
    #[error("segment {segment} at byte {offset}, record {record}: {reason}")]
    Damaged {
        /// The damaged segment.
        segment: u64,
        /// The offset of the damage in that segment's file, in bytes.
        offset: u64,
        /// The sequence of the first record that cannot be read.
        record: u64,
        /// The fault.
        reason: String,
    },
}

impl ReadError {
    /// Whether a file that had just been listed is missing: retention has removed it.
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { error, .. } if error.kind() == io::ErrorKind::NotFound)
    }

    pub(super) fn damaged(
        segment: u64,
        offset: u64,
        record: u64,
        reason: impl Into<String>,
    ) -> Self {
        Self::Damaged {
            segment,
            offset,
            record,
            reason: reason.into(),
        }
    }

    /// The segment that could not be read, if this error names one.
    pub(super) fn unreadable(&self) -> Option<u64> {
        match self {
            Self::Io { segment, .. } => *segment,
            Self::Format { segment, .. } => Some(*segment),
            _ => None,
        }
    }

    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |error| Self::Io {
            segment: None,
            what,
            error,
        }
    }

    /// An operation on a segment failed: to open, read or search it.
    pub(super) fn segment_io(operation: &str, segment: u64) -> impl FnOnce(io::Error) -> Self {
        let what = format!("{operation} segment {segment}");
        move |error| Self::Io {
            segment: Some(segment),
            what,
            error,
        }
    }
}
