//! The positions of named consumers, and the last acknowledged record.

use super::{
    ALIGNMENT, Algorithm, FormatError, StreamId, TAG_BYTES, Tag, VERSION,
    fields::{check_version, get, get_u32, get_u64, put, put_checksum},
};

/// The name of the file that holds two of them.
pub const POSITIONS: &str = "positions.mark";

/// The most named consumers of a stream.
pub const CONSUMERS_MAX: usize = 32;

/// The most bytes of a consumer's name, in UTF-8.
pub const CONSUMER_NAME_BYTES_MAX: usize = 55;

const MAGIC: &[u8; 8] = b"FBPOSITN";
const TAG_AT: usize = 64;
const ENTRIES_AT: usize = TAG_AT + TAG_BYTES;
const ENTRY_BYTES: usize = 64;
const SEQUENCE_AT: usize = ENTRY_BYTES - 8;
const CHECKSUM_AT: usize = ALIGNMENT - 4;

/// How far consumers have come, and which records were acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Positions {
    /// The algorithm of the tag.
    pub algorithm: Algorithm,
    /// The stream it belongs to.
    pub stream: StreamId,
    /// Of the two in the file, the one with the higher generation counts.
    pub generation: u64,
    /// The segment under whose key the tag was made.
    pub sealed_in: u64,
    /// The epoch of the writer that keeps `acknowledged`; 0 if it is not kept.
    pub epoch: u64,
    /// No ticket of a later record has resolved.
    pub acknowledged: u64,
    /// The consumers by name, and the last record that each has acknowledged; at most [`CONSUMERS_MAX`].
    pub consumers: Vec<(String, u64)>,
    /// The MAC of all but itself and the checksum; zeros where the stream is not sealed.
    pub tag: Tag,
}

impl Positions {
    /// The fields that the tag covers.
    #[must_use]
    pub fn encode_untagged(&self) -> Vec<u8> {
        let mut bytes = self.page();
        bytes.truncate(CHECKSUM_AT);
        bytes
    }

    /// The page as it is on the disk.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.page();
        put(&mut bytes, TAG_AT, &self.tag);
        put_checksum(&mut bytes);
        bytes
    }

    fn page(&self) -> Vec<u8> {
        let mut bytes = vec![0; ALIGNMENT];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 8, &VERSION.to_le_bytes());
        bytes[10] = self.algorithm.code();
        bytes[11] = self.consumers.len() as u8;
        put(&mut bytes, 16, &self.stream.0);
        put(&mut bytes, 32, &self.generation.to_le_bytes());
        put(&mut bytes, 40, &self.sealed_in.to_le_bytes());
        put(&mut bytes, 48, &self.epoch.to_le_bytes());
        put(&mut bytes, 56, &self.acknowledged.to_le_bytes());
        let entries = bytes[ENTRIES_AT..].chunks_exact_mut(ENTRY_BYTES);
        for (entry, (name, sequence)) in entries.zip(&self.consumers) {
            entry[0] = name.len() as u8;
            put(entry, 1, name.as_bytes());
            put(entry, SEQUENCE_AT, &sequence.to_le_bytes());
        }
        bytes
    }

    /// Reads a page.
    ///
    /// # Errors
    ///
    /// The first fault.
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
        check_version(bytes, 8, &[VERSION])?;
        let field = |field| FormatError::Field { field };
        let count = usize::from(bytes[11]);
        if count > CONSUMERS_MAX {
            return Err(field("count"));
        }
        let entries = bytes[ENTRIES_AT..].chunks_exact(ENTRY_BYTES).take(count);
        let consumer = |entry: &[u8]| {
            let name = entry[1..SEQUENCE_AT].get(..entry[0].into());
            let name = name.and_then(|name| str::from_utf8(name).ok());
            let name = name.ok_or(field("name"))?;
            Ok((name.to_owned(), get_u64(entry, SEQUENCE_AT)))
        };
        let positions = Self {
            algorithm: Algorithm::from_code(bytes[10])?,
            stream: StreamId(get(bytes, 16)),
            generation: get_u64(bytes, 32),
            sealed_in: get_u64(bytes, 40),
            epoch: get_u64(bytes, 48),
            acknowledged: get_u64(bytes, 56),
            consumers: entries.map(consumer).collect::<Result<_, _>>()?,
            tag: get(bytes, TAG_AT),
        };
        // The reserve must also be as a writer writes it.
        if positions.encode() == *bytes && positions.sealed_in > 0 {
            Ok(positions)
        } else {
            Err(field("reserve"))
        }
    }
}
