//! Why bytes are not a header.

use thiserror::Error;

/// Why bytes were not accepted as a segment or chunk header.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormatError {
    /// It does not begin with the magic bytes.
    #[error("not a header: the magic bytes are missing")]
    Magic,
    /// It was written by a newer version.
    #[error(
        "written in format version {found}, and this program reads versions up to {newest}: \
         use a newer one"
    )]
    Version {
        /// The version in the header.
        found: u16,
        /// The newest that is read.
        newest: u16,
    },
    /// Its checksum does not match: rot.
    #[error("the header's checksum does not match")]
    Checksum,
    /// An algorithm that this version does not know.
    #[error("unknown sealing algorithm {code}")]
    Algorithm {
        /// The code in the header.
        code: u8,
    },
    /// A field that no writer would have written, under a checksum that matches.
    #[error("the header's {field} is out of range")]
    Field {
        /// The field's name.
        field: &'static str,
    },
    /// Fewer bytes than a header has.
    #[error("{bytes} bytes are less than a header")]
    Short {
        /// The bytes there were.
        bytes: usize,
    },
}
