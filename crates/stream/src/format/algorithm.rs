//! How a stream is sealed.

use std::{fmt, str::FromStr};

use super::FormatError;

/// The algorithm of the tags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// None: CRCs find rot, and tampering is not found.
    #[default]
    None,
    /// HMAC-SHA256, tags of 32 bytes.
    HmacSha256,
    /// HMAC-SHA512, tags of 64 bytes.
    HmacSha512,
    /// Keyed BLAKE3, a tree hash: large inputs are hashed as a tree of pieces of 1 KiB. Tags of 32 bytes.
    Blake3,
    /// HMAC-RIPEMD160, tags of 20 bytes.
    HmacRipemd160,
}

impl Algorithm {
    /// All of them, in the order of their codes.
    pub const ALL: [Self; 5] = [
        Self::None,
        Self::HmacSha256,
        Self::HmacSha512,
        Self::Blake3,
        Self::HmacRipemd160,
    ];

    /// Its code in headers.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The algorithm of a code.
    ///
    /// # Errors
    ///
    /// [`FormatError::Algorithm`] for a code that this version does not know.
    pub fn from_code(code: u8) -> Result<Self, FormatError> {
        let known = Self::ALL.get(usize::from(code));
        known.copied().ok_or(FormatError::Algorithm { code })
    }

    /// The bytes of a tag; 0 for [`Algorithm::None`].
    #[must_use]
    pub const fn tag_bytes(self) -> usize {
        match self {
            Self::None => 0,
            Self::HmacSha256 | Self::Blake3 => 32,
            Self::HmacSha512 => 64,
            Self::HmacRipemd160 => 20,
        }
    }

    /// Whether tags need a key.
    #[must_use]
    pub const fn is_sealed(self) -> bool {
        !matches!(self, Self::None)
    }

    /// Its name on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::HmacSha256 => "hmac-sha256",
            Self::HmacSha512 => "hmac-sha512",
            Self::Blake3 => "blake3",
            Self::HmacRipemd160 => "hmac-ripemd160",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.name() == text)
            .ok_or_else(|| {
                format!(
                    "`{text}` is not one of none, hmac-sha256, hmac-sha512, hmac-ripemd160 and blake3"
                )
            })
    }
}

/// The records that one tag covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SealUnit {
    /// Each record has its own tag: damage is pinned to the record, at a MAC a record.
    Record,
    /// Each chunk has one: the cost is the hash's throughput over large pieces.
    #[default]
    Batch,
}

impl SealUnit {
    /// Its name on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::Batch => "batch",
        }
    }

    /// The bytes of tag that each record carries.
    #[must_use]
    pub const fn record_tag_bytes(self, algorithm: Algorithm) -> usize {
        match self {
            Self::Record => algorithm.tag_bytes(),
            Self::Batch => 0,
        }
    }
}

impl fmt::Display for SealUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for SealUnit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "record" => Ok(Self::Record),
            "batch" => Ok(Self::Batch),
            _ => Err(format!("`{text}` is neither record nor batch")),
        }
    }
}
