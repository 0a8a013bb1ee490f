//! Why a body is no message.

use super::{BODY_BYTES_MAX, NAME_BYTES_MAX};

/// Why a body is no message: the reason that its dead letter carries.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// Too long to be looked at.
    #[error("the body has {bytes} bytes, more than {BODY_BYTES_MAX}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Not the JSON of such a message.
    #[error("not the JSON of such a message: {0}")]
    Json(#[from] serde_json::Error),
    /// A name is empty.
    #[error("`{field}` is empty")]
    Empty {
        /// Which one.
        field: &'static str,
    },
    /// A name is too long.
    #[error("`{field}` has {bytes} bytes, more than {NAME_BYTES_MAX}")]
    NameTooLong {
        /// Which one.
        field: &'static str,
        /// Its length.
        bytes: usize,
    },
}
