//! Why a stream could not be opened for writing.

use std::io;

use freeboard_flow::ConfigError;
use thiserror::Error;

use super::damage::TailDamage;
use crate::format::{Algorithm, FormatError, SealUnit};

/// Why a stream could not be opened for writing.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file system refused something.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was attempted.
        what: String,
        /// What it said.
        source: io::Error,
    },
    /// Another writer has the stream.
    #[error("another writer has this stream open")]
    Locked,
    /// Sealing was asked for, and no key was given; there is no default one.
    #[error("sealing with {algorithm} needs a key")]
    KeyMissing {
        /// What was to seal.
        algorithm: Algorithm,
    },
    /// The key is not the one that the stream was sealed with.
    #[error("the key is not the one that segment {segment} was sealed with")]
    WrongKey {
        /// The segment whose key check failed.
        segment: u64,
    },
    /// The stream is sealed in another way than was asked for.
    #[error(
        "the stream is sealed with {found} by {found_unit}, and {asked} by {asked_unit} was asked \
         for: a stream keeps its seal for life"
    )]
    OtherSeal {
        /// How it is sealed.
        found: Algorithm,
        /// By what unit.
        found_unit: SealUnit,
        /// What was asked for.
        asked: Algorithm,
        /// By what unit.
        asked_unit: SealUnit,
    },
    /// A header that this version does not read.
    #[error("segment {segment}: {error}")]
    Format {
        /// The segment.
        segment: u64,
        /// What is wrong with it.
        error: FormatError,
    },
    /// Damage with valid data behind it.
    #[error("{0}. Nothing was changed; salvage copies what is whole")]
    Damaged(Box<TailDamage>),
    /// The bound on memory is not one.
    #[error("the memory's bound: {0}")]
    Memory(#[from] ConfigError),
    /// An option's value cannot be used.
    #[error("{option}: {reason}")]
    Option {
        /// The option.
        option: &'static str,
        /// What is wrong with its value.
        reason: String,
    },
}

impl OpenError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// Whether it failed for want of room on the disk, which may come.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull)
    }
}
