//! The end of a stream, in a line.

use std::{fmt, str::FromStr};

use crate::format::{Algorithm, TAG_BYTES, Tag};

/// The bytes of an unsealed chunk's tag that are not zero.
const CHECKSUM_BYTES: usize = 12;

/// The last record of a stream and the tag of the chunk that it is in.
///
/// A chain cannot show that its end was cut off; a head that was kept elsewhere can. Its text is
/// `SEQUENCE:TAG`, the tag in hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The sequence of the last record.
    pub sequence: u64,
    /// The tag of the chunk that ends with it.
    pub tag: Tag,
    tag_bytes: usize,
}

impl Head {
    /// The head of a stream that is sealed with `algorithm`.
    #[must_use]
    pub fn new(sequence: u64, tag: Tag, algorithm: Algorithm) -> Self {
        let tag_bytes = match algorithm.tag_bytes() {
            0 => CHECKSUM_BYTES,
            bytes => bytes,
        };
        Self {
            sequence,
            tag,
            tag_bytes,
        }
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.sequence)?;
        self.tag[..self.tag_bytes]
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Head({self})")
    }
}

impl FromStr for Head {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || format!("`{text}` is not a head: SEQUENCE:TAG, the tag in hexadecimal");
        let (sequence, digits) = text.trim().split_once(':').ok_or_else(refused)?;
        let is_hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let tag_bytes = digits.len() / 2;
        if !is_hexadecimal
            || digits.len() % 2 == 1
            || ![CHECKSUM_BYTES, 20, 32, 64].contains(&tag_bytes)
        {
            return Err(refused());
        }
        let mut tag = [0; TAG_BYTES];
        for (byte, at) in tag.iter_mut().zip((0..digits.len()).step_by(2)) {
            *byte = u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| refused())?;
        }
        Ok(Self {
            sequence: sequence.parse().map_err(|_| refused())?,
            tag,
            tag_bytes,
        })
    }
}
