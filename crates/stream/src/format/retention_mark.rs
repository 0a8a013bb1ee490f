//! The mark of retention. It tells segments that retention removed from segments that were deleted by hand.

use super::{
    ALIGNMENT, Algorithm, FormatError, StreamId, Tag, VERSION,
    fields::{check_version, get, get_u32, get_u64, put, put_checksum},
};

/// The name of the file that holds two marks.
pub const RETENTION_MARK: &str = "retention.mark";

/// The length of that file, in bytes: each mark begins at a multiple of [`ALIGNMENT`].
pub const RETENTION_FILE_BYTES: u64 = 2 * ALIGNMENT as u64;

/// The length of a mark, in bytes.
pub const RETENTION_MARK_BYTES: usize = 256;

const MAGIC: &[u8; 8] = b"FBRETAIN";
const TAG_AT: usize = 48;
const CHECKSUM_AT: usize = RETENTION_MARK_BYTES - 4;

/// Says which segments retention has removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionMark {
    /// The algorithm of the tag.
    pub algorithm: Algorithm,
    /// The stream it belongs to.
    pub stream: StreamId,
    /// All segments before this one may be missing.
    pub first_kept: u64,
    /// The segment under whose key the tag was made.
    pub sealed_in: u64,
    /// The MAC of the fields above; zeros where the stream is not sealed.
    pub tag: Tag,
}

impl RetentionMark {
    /// The fields that the tag covers.
    #[must_use]
    pub fn encode_untagged(&self) -> [u8; TAG_AT] {
        let mut bytes = [0; TAG_AT];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 8, &VERSION.to_le_bytes());
        bytes[10] = self.algorithm.code();
        put(&mut bytes, 16, &self.stream.0);
        put(&mut bytes, 32, &self.first_kept.to_le_bytes());
        put(&mut bytes, 40, &self.sealed_in.to_le_bytes());
        bytes
    }

    /// The mark as it is on the disk.
    #[must_use]
    pub fn encode(&self) -> [u8; RETENTION_MARK_BYTES] {
        let mut bytes = [0; RETENTION_MARK_BYTES];
        put(&mut bytes, 0, &self.encode_untagged());
        put(&mut bytes, TAG_AT, &self.tag);
        put_checksum(&mut bytes);
        bytes
    }

    /// Reads a mark.
    ///
    /// # Errors
    ///
    /// The first fault.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let Ok(bytes) = <&[u8; RETENTION_MARK_BYTES]>::try_from(bytes) else {
            return Err(FormatError::Short { bytes: bytes.len() });
        };
        if &get::<8>(bytes, 0) != MAGIC {
            return Err(FormatError::Magic);
        }
        if crc32c::crc32c(&bytes[..CHECKSUM_AT]) != get_u32(bytes, CHECKSUM_AT) {
            return Err(FormatError::Checksum);
        }
        check_version(bytes, 8, &[VERSION])?;
        let mark = Self {
            algorithm: Algorithm::from_code(bytes[10])?,
            stream: StreamId(get(bytes, 16)),
            first_kept: get_u64(bytes, 32),
            sealed_in: get_u64(bytes, 40),
            tag: get(bytes, TAG_AT),
        };
        // The reserve must also be as a writer writes it.
        if mark.encode() == *bytes && mark.sealed_in > 0 {
            Ok(mark)
        } else {
            Err(FormatError::Field { field: "reserve" })
        }
    }
}
