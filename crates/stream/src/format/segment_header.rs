//! The header of a segment.

use super::{
    ALIGNMENT, Algorithm, FormatError, SealUnit, StreamId, TAG_BYTES, Tag, VERSION,
    VERSION_TRUNCATED,
    fields::{check_version, get, get_u32, get_u64, put, put_checksum},
};

const MAGIC: &[u8; 8] = b"FBSEGMNT";
const KEY_CHECK_AT: usize = 144;
const TAG_AT: usize = 176;
const TRUNCATION_AT: usize = TAG_AT + TAG_BYTES;
const TRUNCATION_BYTES: usize = 16;
const CHECKSUM_AT: usize = ALIGNMENT - 4;
const FLAG_RECORD: u8 = 1;
const FLAG_RECYCLED: u8 = 8;

/// The records that a truncation has removed before its segment was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// The sequence of the last record that was kept; 0 for none.
    pub kept: u64,
    /// The highest sequence that was removed. The same sequences are used again.
    pub removed: u64,
}

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
    /// The truncation after which it was begun. A header that has one is of version 3.
    pub truncation: Option<Truncation>,
}

impl SegmentHeader {
    /// The fields that the header's tag covers, key check included, but for those of
    /// [`encode_truncation`](Self::encode_truncation), which follow them.
    #[must_use]
    pub fn encode_untagged(&self) -> [u8; TAG_AT] {
        let mut bytes = [0; TAG_AT];
        put(&mut bytes, 0, MAGIC);
        let version = self.truncation.map_or(VERSION, |_| VERSION_TRUNCATED);
        put(&mut bytes, 8, &version.to_le_bytes());
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

    /// The fields of the truncation, which the tag covers too; empty without one.
    #[must_use]
    pub fn encode_truncation(&self) -> Vec<u8> {
        let fields = self.truncation.map(|it| [it.kept, it.removed]);
        let fields = fields.iter().flatten();
        fields.flat_map(|field| field.to_le_bytes()).collect()
    }

    /// The header as it is on the disk.
    #[must_use]
    pub fn encode(&self) -> [u8; ALIGNMENT] {
        let mut bytes = [0; ALIGNMENT];
        put(&mut bytes, 0, &self.encode_untagged());
        put(&mut bytes, TAG_AT, &self.tag);
        put(&mut bytes, TRUNCATION_AT, &self.encode_truncation());
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
        let version = check_version(bytes, 8, &[VERSION, VERSION_TRUNCATED])?;
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
            truncation: (version == VERSION_TRUNCATED).then(|| Truncation {
                kept: get_u64(bytes, TRUNCATION_AT),
                removed: get_u64(bytes, TRUNCATION_AT + 8),
            }),
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
        // A truncation may leave a part of a chunk, with which its segment begins.
        let is_possible =
            |it: Truncation| it.kept < it.removed && header.first_record - 1 <= it.kept;
        if !header.truncation.is_none_or(is_possible) {
            return Err(FormatError::Field {
                field: "truncation",
            });
        }
        let reserve = match header.truncation {
            Some(_) => TRUNCATION_AT + TRUNCATION_BYTES,
            None => TRUNCATION_AT,
        };
        let reserve = &bytes[reserve..CHECKSUM_AT];
        if get_u32(bytes, 12) != 0 || reserve.iter().any(|byte| *byte != 0) {
            return Err(FormatError::Field { field: "reserve" });
        }
        Ok(header)
    }
}
