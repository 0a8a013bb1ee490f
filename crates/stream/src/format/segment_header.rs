//! The header of a segment.

use super::{
    ALIGNMENT, Algorithm, FormatError, SealUnit, StreamId, TAG_BYTES, Tag, VERSION,
    fields::{check_version, get, get_u32, get_u64, put, put_checksum},
};

const MAGIC: &[u8; 8] = b"FBSEGMNT";
const KEY_CHECK_AT: usize = 144;
const TAG_AT: usize = 176;
const CHECKSUM_AT: usize = ALIGNMENT - 4;
const FLAG_RECORD: u8 = 1;
const FLAG_RECYCLED: u8 = 8;

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The algorithm of the tags.
    pub algorithm: Algorithm,
    /// The records that one tag covers.
    pub unit: SealUnit,
    /// Whether the file was recycled, so that stale bytes may follow the last chunk.
    pub is_recycled: bool,
    /// The stream it belongs to.
    pub stream: StreamId,
    /// Its number among the segments of the stream, from 1.
    pub number: u64,
    /// How many times the stream had been opened for writing.
    pub epoch: u64,
    /// The sequence of its first chunk.
    pub first_chunk: u64,
    /// The sequence of its first record.
    pub first_record: u64,
    /// When it was begun, in nanoseconds since 1970.
    pub created_ns: u64,
    /// The bytes that were preallocated for it.
    pub segment_bytes: u64,
    /// The tag of the last chunk of the segment before; zeros in a stream's first.
    pub previous: Tag,
    /// A MAC over a fixed text under this segment's key: a wrong key never passes.
    pub key_check: [u8; 32],
    /// The MAC of the fields above; zeros where the stream is not sealed.
    pub tag: Tag,
}

impl SegmentHeader {
    /// The fields that the header's tag covers, key check included.
    #[must_use]
    pub fn encode_untagged(&self) -> [u8; TAG_AT] {
        let mut bytes = [0; TAG_AT];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 8, &VERSION.to_le_bytes());
        bytes[10] = self.algorithm.code();
        bytes[11] = (FLAG_RECORD * u8::from(self.unit == SealUnit::Record))
            | (FLAG_RECYCLED * u8::from(self.is_recycled));
        put(&mut bytes, 16, &self.stream.0);
        put(&mut bytes, 32, &self.number.to_le_bytes());
        put(&mut bytes, 40, &self.epoch.to_le_bytes());
        put(&mut bytes, 48, &self.first_chunk.to_le_bytes());
        put(&mut bytes, 56, &self.first_record.to_le_bytes());
        put(&mut bytes, 64, &self.created_ns.to_le_bytes());
        put(&mut bytes, 72, &self.segment_bytes.to_le_bytes());
        put(&mut bytes, 80, &self.previous);
        put(&mut bytes, KEY_CHECK_AT, &self.key_check);
        bytes
    }

    /// The header as it is on the disk.
    #[must_use]
    pub fn encode(&self) -> [u8; ALIGNMENT] {
        let mut bytes = [0; ALIGNMENT];
        put(&mut bytes, 0, &self.encode_untagged());
        put(&mut bytes, TAG_AT, &self.tag);
        put_checksum(&mut bytes);
        bytes
    }

    /// Reads a header from the first bytes of a segment.
    ///
    /// # Errors
    ///
    /// The first fault, the checksum before any other field but the magic.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let Some(bytes) = bytes.first_chunk::<ALIGNMENT>() else {
            return Err(FormatError::Short { bytes: bytes.len() });
        };
        if &get::<8>(bytes, 0) != MAGIC {
            return Err(FormatError::Magic);
        }
        if crc32c::crc32c(&bytes[..CHECKSUM_AT]) != get_u32(bytes, CHECKSUM_AT) {
            return Err(FormatError::Checksum);
        }
        check_version(bytes, 8)?;
        let algorithm = Algorithm::from_code(bytes[10])?;
        let flags = bytes[11];
        if flags & !(FLAG_RECORD | FLAG_RECYCLED) != 0 {
            return Err(FormatError::Field { field: "flags" });
        }
        let header = Self {
            algorithm,
            unit: if flags & FLAG_RECORD == 0 {
                SealUnit::Batch
            } else {
                SealUnit::Record
            },
            is_recycled: flags & FLAG_RECYCLED != 0,
            stream: StreamId(get(bytes, 16)),
            number: get_u64(bytes, 32),
            epoch: get_u64(bytes, 40),
            first_chunk: get_u64(bytes, 48),
            first_record: get_u64(bytes, 56),
            created_ns: get_u64(bytes, 64),
            segment_bytes: get_u64(bytes, 72),
            previous: get(bytes, 80),
            key_check: get(bytes, KEY_CHECK_AT),
            tag: get(bytes, TAG_AT),
        };
        let counts = [
            header.number,
            header.epoch,
            header.first_chunk,
            header.first_record,
        ];
        if counts.contains(&0) || counts.contains(&u64::MAX) {
            return Err(FormatError::Field { field: "sequence" });
        }
        let reserve = &bytes[TAG_AT + TAG_BYTES..CHECKSUM_AT];
        if get_u32(bytes, 12) != 0 || reserve.iter().any(|byte| *byte != 0) {
            return Err(FormatError::Field { field: "reserve" });
        }
        Ok(header)
    }
}
