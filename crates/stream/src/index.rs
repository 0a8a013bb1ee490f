//! The approximate offsets of records in a segment, for seeks. An index is never trusted.
//!
//! Each finished segment may have an index, `00000000000000000001.index`. It can be removed at any time and made again
//! from its segment ([`rebuild_index`]). An entry is used only after the chunk header that it points to was read and says
//! the same. Where it does not, or where the file is missing, stale or damaged, the segment is walked from its
//! beginning.
//!
//! ```text
//!   0   8  magic "FBINDEX1"            entry
//!   8   8  segment number                0   8  chunk sequence
//!  16  16  stream id                     8   8  sequence of its first record
//!  32   4  count of entries             16   8  sealed at, ns since 1970
//!  36   .  entries, 32 bytes each       24   8  offset in the segment
//!  end  4  CRC32C of all before
//! ```

use std::io;

use crate::{
    format::{ALIGNMENT, ChunkHeader, StreamId},
    log::PREPARING,
    scan,
    storage::{Access, Storage},
};

const MAGIC: &[u8; 8] = b"FBINDEX1";
const HEADER_BYTES: usize = 36;

/// The distance between two entries, in bytes of the segment, at least.
const STEP_BYTES: u64 = 64 << 10;

/// The most bytes of an index that are read: an entry for each chunk of 256 GiB.
const INDEX_BYTES_MAX: u64 = 128 << 20;

/// The bytes of an entry.
const ENTRY_BYTES: usize = 32;

/// The offset of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    pub(crate) chunk: u64,
    pub(crate) first_record: u64,
    pub(crate) time_ns: u64,
    pub(crate) offset: u64,
}

impl IndexEntry {
    fn new(header: &ChunkHeader, offset: u64) -> Self {
        Self {
            chunk: header.sequence,
            first_record: header.first_record,
            time_ns: header.time_ns,
            offset,
        }
    }

    /// Whether `header`, which is at its offset, is of its chunk.
    pub(crate) fn agrees(&self, stream: StreamId, header: &ChunkHeader) -> bool {
        header.stream == stream && *self == Self::new(header, self.offset)
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        for field in [self.chunk, self.first_record, self.time_ns, self.offset] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
    }

    fn decode(bytes: &[u8; ENTRY_BYTES]) -> Self {
        let fields = bytes.as_chunks().0;
        let [chunk, first_record, time_ns, offset] =
            std::array::from_fn(|field| u64::from_le_bytes(fields[field]));
        Self {
            chunk,
            first_record,
            time_ns,
            offset,
        }
    }
}

/// The file name of a segment's index.
pub(crate) fn index_name(number: u64) -> String {
    format!("{number:020}.index")
}

/// Makes the index of a segment anew, from the segment.
pub fn rebuild_index(storage: &dyn Storage, number: u64) -> io::Result<()> {
    let scan = scan::open_segment(storage, number, Access::Read)?;
    let Ok(header) = scan.header()? else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let mut entries = Vec::new();
    let (mut count, mut offset, mut next) = (0u32, ALIGNMENT as u64, 0);
    let mut chunk = header.first_chunk;
    while let Some(found) = scan.chunk_header(offset)? {
        if found.stream != header.stream || found.sequence != chunk {
            break;
        }
        if offset >= next {
            IndexEntry::new(&found, offset).encode(&mut entries);
            count += 1;
            next = offset + STEP_BYTES;
        }
        offset += found.chunk_bytes();
        chunk += 1;
    }
    let mut bytes = Vec::with_capacity(HEADER_BYTES + entries.len() + 4);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&header.stream.0);
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes.extend_from_slice(&entries);
    let checksum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    let name = index_name(number);
    let unfinished = format!("{name}{PREPARING}");
    match storage.remove(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Neither file nor name is synced: after a crash the checksum of an incomplete index fails.
    let file = storage.create(&unfinished, 0, Access::Cached)?;
    file.write_at(&[&bytes], 0)?;
    storage.rename(&unfinished, &name)
}

/// The entries of a segment's index; none where there is no index that holds.
pub(crate) fn read_index(storage: &dyn Storage, stream: StreamId, number: u64) -> Vec<IndexEntry> {
    let read = || -> io::Result<Vec<u8>> {
        let file = storage.open(&index_name(number), Access::Read)?;
        let mut bytes = vec![0; file.bytes()?.min(INDEX_BYTES_MAX) as usize];
        let read = file.read_at(&mut bytes, 0)?;
        bytes.truncate(read);
        Ok(bytes)
    };
    // Whatever is wrong with it, the segment holds the same, to be read more slowly.
    read()
        .ok()
        .and_then(|bytes| decode(&bytes, stream, number))
        .unwrap_or_default()
}

fn decode(bytes: &[u8], stream: StreamId, number: u64) -> Option<Vec<IndexEntry>> {
    let (bytes, checksum) = bytes.split_last_chunk::<4>()?;
    let is_it = bytes.len() >= HEADER_BYTES
        && crc32c::crc32c(bytes).to_le_bytes() == *checksum
        && bytes.starts_with(MAGIC)
        && bytes[8..16] == number.to_le_bytes()
        && bytes[16..32] == stream.0;
    let (entries, rest) = bytes.get(HEADER_BYTES..)?.as_chunks::<ENTRY_BYTES>();
    (is_it && rest.is_empty()).then(|| entries.iter().map(IndexEntry::decode).collect())
}
