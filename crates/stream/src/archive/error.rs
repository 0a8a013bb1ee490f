//! Why an archive could not be written, read or restored.

use std::{io, path::PathBuf};

use thiserror::Error;

use crate::{format::StreamId, verify::VerifyError};

/// Why a stream could not be archived or restored.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The address names no archive.
    #[error("{url} is not the address of an archive: {reason}")]
    Address {
        /// The address.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An object could not be read or written. The request was repeated for the time that the options allow.
    #[error("cannot {what} in the archive: {error}")]
    Object {
        /// The operation.
        what: String,
        /// The answer of the service.
        error: io::Error,
    },
    /// An operation on a local file failed.
    #[error("cannot {what}: {error}")]
    File {
        /// The operation.
        what: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// There is nothing to archive or to restore.
    #[error("there is no stream {place}")]
    NoStream {
        /// Where there is none.
        place: &'static str,
    },
    /// A local segment is not whole. It is not archived.
    #[error("segment {segment} is damaged at byte {offset} and is not archived: {reason}")]
    Damaged {
        /// The segment.
        segment: u64,
        /// The offset in its file, in bytes.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// The key is not the one that the stream was sealed with.
    #[error("the key is not the one that segment {segment} was sealed with")]
    WrongKey {
        /// The segment.
        segment: u64,
    },
    /// Retention of a sealed stream needs its key.
    #[error("the stream is sealed: removing segments needs its key, to seal the retention mark")]
    KeyMissing,
    /// The archive is of another stream.
    #[error(
        "the archive is of stream {archived}, and the directory has stream {here}: use an empty archive"
    )]
    OtherStream {
        /// The stream in the archive.
        archived: StreamId,
        /// The stream in the directory.
        here: StreamId,
    },
    /// A segment of the archive does not hold what the directory holds.
    #[error(
        "segment {segment} in the archive differs from the one in the directory: the object was changed, or the \
         directory is an older copy that was written to; verify both, and remove the object or use an empty archive"
    )]
    Differs {
        /// The segment.
        segment: u64,
    },
    /// The directory ends before the archive does.
    #[error(
        "the archive goes up to segment {archived}, and the directory to segment {here}: the directory is an older \
         copy, or was truncated; use an empty archive"
    )]
    Behind {
        /// The last segment in the archive.
        archived: u64,
        /// The last segment in the directory.
        here: u64,
    },
    /// Segments are neither in the archive nor in the directory.
    #[error(
        "segments {first} to {last} are neither in the archive nor in the directory: retention removed them before \
         they were archived; use an empty archive, and keep segments for longer"
    )]
    Gap {
        /// The first missing segment.
        first: u64,
        /// The last missing segment.
        last: u64,
    },
    /// The writer of the stream has it open.
    #[error("the stream is being written: its writer removes segments, not the archiver")]
    Locked,
    /// The directory to restore into is not empty.
    #[error("{} is not empty", .0.display())]
    NotEmpty(PathBuf),
    /// The caller has stopped it. It continues where it was.
    #[error("stopped by the caller")]
    Stopped,
    /// The restored stream could not be checked.
    #[error("cannot check the restored stream: {0}")]
    Unchecked(#[from] VerifyError),
    /// The restored stream is damaged, as the archive is. It stays in the directory named here.
    #[error("the archive is damaged: {damage}; what could be restored is in {}", directory.display())]
    NotWhole {
        /// The first damage.
        damage: String,
        /// Where the files are.
        directory: PathBuf,
    },
}

impl ArchiveError {
    pub(super) fn object(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |error| Self::Object { what, error }
    }

    pub(super) fn file(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |error| Self::File { what, error }
    }

    /// Whether the same call may succeed later, without a change by the user.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Object { .. } | Self::Stopped)
    }
}
