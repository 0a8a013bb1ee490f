//! The header of a chunk.

use super::{
    Algorithm, CHUNK_BODY_BYTES_MAX, CHUNK_HEADER_BYTES, FormatError, HeadsSum, SealUnit, StreamId,
    SyncKind, TAG_BYTES, Tag, VERSION,
    fields::{check_version, get, get_u32, get_u64, put, put_checksum},
    record::RECORD_HEAD_BYTES,
};

const MAGIC: &[u8; 4] = b"FBCK";
const TAG_AT: usize = 144;
const CHECKSUM_AT: usize = CHUNK_HEADER_BYTES - 4;

/// The header of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// The algorithm of the tags.
    pub algorithm: Algorithm,
    /// The records that one tag covers.
    pub unit: SealUnit,
    /// How the writer synced.
    pub sync: SyncKind,
    /// The stream it belongs to.
    pub stream: StreamId,
    /// How many times the stream had been opened for writing.
    pub epoch: u64,
    /// Its number among the chunks of the stream, from 1.
    pub sequence: u64,
    /// The sequence of its first record.
    pub first_record: u64,
    /// How many records it holds, at least 1.
    pub count: u32,
    /// The bytes of its records, without padding.
    pub body_bytes: u32,
    /// The last record known to be durable when it was sealed; 0 for none.
    pub durable: u64,
    /// When it was sealed, in nanoseconds since 1970.
    pub time_ns: u64,
    /// The sum over the heads and tags of its records.
    pub heads_sum: HeadsSum,
    /// The tag of the chunk before; zeros in a stream's first chunk.
    pub previous: Tag,
    /// Its own tag.
    pub tag: Tag,
}

impl ChunkHeader {
    /// The sequence of its last record.
    #[must_use]
    pub const fn last_record(&self) -> u64 {
        self.first_record + (self.count as u64 - 1)
    }

    /// The bytes it takes in its segment.
    #[must_use]
    pub const fn chunk_bytes(&self) -> u64 {
        super::chunk_bytes(self.body_bytes)
    }

    /// The bytes of tag that each of its records carries.
    #[must_use]
    pub const fn record_tag_bytes(&self) -> usize {
        self.unit.record_tag_bytes(self.algorithm)
    }

    /// The header as a tag covers it: tag and checksum are zero.
    #[must_use]
    pub fn encode_untagged(&self) -> [u8; CHUNK_HEADER_BYTES] {
        let mut bytes = [0; CHUNK_HEADER_BYTES];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 4, &VERSION.to_le_bytes());
        bytes[6] = self.algorithm.code();
        bytes[7] = flags(self.unit, self.sync);
        put(&mut bytes, 8, &self.stream.0);
        put(&mut bytes, 24, &self.epoch.to_le_bytes());
        put(&mut bytes, 32, &self.sequence.to_le_bytes());
        put(&mut bytes, 40, &self.first_record.to_le_bytes());
        put(&mut bytes, 48, &self.count.to_le_bytes());
        put(&mut bytes, 52, &self.body_bytes.to_le_bytes());
        put(&mut bytes, 56, &self.durable.to_le_bytes());
        put(&mut bytes, 64, &self.time_ns.to_le_bytes());
        put(&mut bytes, 72, &self.heads_sum.value().to_le_bytes());
        put(&mut bytes, 80, &self.previous);
        bytes
    }

    /// The header as it is on the disk.
    #[must_use]
    pub fn encode(&self) -> [u8; CHUNK_HEADER_BYTES] {
        let mut bytes = self.encode_untagged();
        put(&mut bytes, TAG_AT, &self.tag);
        put_checksum(&mut bytes);
        bytes
    }

    /// Reads a header from the first bytes of a chunk.
    ///
    /// # Errors
    ///
    /// The first fault, the checksum before any other field but the magic. A length that it returns is at most
    /// [`CHUNK_BODY_BYTES_MAX`].
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let Some(bytes) = bytes.first_chunk::<CHUNK_HEADER_BYTES>() else {
            return Err(FormatError::Short { bytes: bytes.len() });
        };
        if &get::<4>(bytes, 0) != MAGIC {
            return Err(FormatError::Magic);
        }
        // Before the version, so that rot in it does not pass for a newer one: every version keeps its checksum here.
        if crc32c::crc32c(&bytes[..CHECKSUM_AT]) != get_u32(bytes, CHECKSUM_AT) {
            return Err(FormatError::Checksum);
        }
        check_version(bytes, 4, &[VERSION])?;
        let algorithm = Algorithm::from_code(bytes[6])?;
        let (unit, sync) = from_flags(bytes[7])?;
        let header = Self {
            algorithm,
            unit,
            sync,
            stream: StreamId(get(bytes, 8)),
            epoch: get_u64(bytes, 24),
            sequence: get_u64(bytes, 32),
            first_record: get_u64(bytes, 40),
            count: get_u32(bytes, 48),
            body_bytes: get_u32(bytes, 52),
            durable: get_u64(bytes, 56),
            time_ns: get_u64(bytes, 64),
            heads_sum: HeadsSum::of_value(get_u64(bytes, 72)),
            previous: get(bytes, 80),
            tag: get(bytes, TAG_AT),
        };
        header.validate()?;
        let reserve = &bytes[TAG_AT + TAG_BYTES..CHECKSUM_AT];
        if reserve.iter().any(|byte| *byte != 0) {
            return Err(FormatError::Field { field: "reserve" });
        }
        Ok(header)
    }

    fn validate(&self) -> Result<(), FormatError> {
        let per_record = (RECORD_HEAD_BYTES + self.record_tag_bytes()) as u64;
        let counts = [self.epoch, self.sequence, self.first_record];
        let field = if self.body_bytes > CHUNK_BODY_BYTES_MAX {
            "length"
        } else if self.count == 0 || u64::from(self.count) * per_record > self.body_bytes.into() {
            "count"
        } else if counts.contains(&0)
            || counts.contains(&u64::MAX)
            || self.first_record.checked_add(self.count.into()).is_none()
            || self.durable >= self.first_record
        {
            "sequence"
        } else {
            return Ok(());
        };
        Err(FormatError::Field { field })
    }
}

/// Whether bytes whose checksum fails are the remains of the header that must come next, torn or rotten, and not the
/// stale bytes of a recycled segment: of magic, stream, sequence and first record at least two agree, and one of them is
/// a sequence, which stale chunks never share.
#[must_use]
pub fn is_torn_header(bytes: &[u8], stream: StreamId, sequence: u64, first_record: u64) -> bool {
    let Some(bytes) = bytes.first_chunk::<CHUNK_HEADER_BYTES>() else {
        return false;
    };
    let is_magic = &get::<4>(bytes, 0) == MAGIC;
    let is_stream = get::<16>(bytes, 8) == stream.0;
    let is_sequence = get_u64(bytes, 32) == sequence;
    let is_first_record = get_u64(bytes, 40) == first_record;
    (is_sequence || is_first_record) && (is_magic || is_stream || is_sequence && is_first_record)
}

fn flags(unit: SealUnit, sync: SyncKind) -> u8 {
    u8::from(unit == SealUnit::Record) | sync.bits() << 1
}

fn from_flags(flags: u8) -> Result<(SealUnit, SyncKind), FormatError> {
    let unit = if flags & 1 == 1 {
        SealUnit::Record
    } else {
        SealUnit::Batch
    };
    match SyncKind::from_bits(flags >> 1) {
        Some(sync) => Ok((unit, sync)),
        None => Err(FormatError::Field { field: "flags" }),
    }
}
