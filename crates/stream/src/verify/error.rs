//! Why a stream could not be checked.

use std::io;

use thiserror::Error;

use crate::format::FormatError;

/// Why a stream could not be checked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// There is no segment with a header.
    #[error("there is no stream")]
    NoStream,
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
        move |source| Self::Io { what, source }
    }
}
