//! Why a record could not be read.

use std::io;

use thiserror::Error;

use crate::format::FormatError;

/// Why a record could not be read. The reader stays where it is.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file system refused something.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was attempted.
        what: String,
        /// What it said.
        source: io::Error,
    },
    /// A header that this version does not read.
    #[error("segment {segment}: {error}")]
    Format {
        /// The segment.
        segment: u64,
        /// What is wrong with it.
        error: FormatError,
    },
    /// The key is not the one that the stream was sealed with.
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
    /// Retention has taken what was wanted.
    #[error("record {wanted} is no longer kept: the oldest is {oldest}")]
    Gone {
        /// The sequence that was to be read.
        wanted: u64,
        /// The sequence of the oldest record there is.
        oldest: u64,
    },
    /// What comes next is damaged, and there is more behind it: see
    /// [`StreamReader::skip_damage`](crate::StreamReader::skip_damage).
    #[error("segment {segment} at byte {offset}, record {record}: {reason}")]
    Damaged {
        /// The segment it is in.
        segment: u64,
        /// The offset in that segment's file, in bytes.
        offset: u64,
        /// The sequence of the first record that cannot be read.
        record: u64,
        /// What is wrong there.
        reason: String,
    },
}

impl ReadError {
    /// Whether a file was gone that had just been listed: retention has taken it.
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
