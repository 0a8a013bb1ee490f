//! The file of an index.

use std::io;

use crate::{
    format::{ALIGNMENT, StreamId},
    scan,
    storage::{Access, Storage},
};

use super::entry::{ENTRY_BYTES, IndexEntry};

const MAGIC: &[u8; 8] = b"FBINDEX1";
const HEADER_BYTES: usize = 36;

/// The distance between two entries, in bytes of the segment, at least.
const STEP_BYTES: u64 = 64 << 10;

/// The most bytes of an index that are read: an entry for each chunk of 256 GiB.
const INDEX_BYTES_MAX: u64 = 128 << 20;

/// The file name of a segment's index.
pub(crate) fn index_name(number: u64) -> String {
    format!("{number:020}.index")
}

/// Makes the index of a segment anew, from the segment.
///
/// # Errors
///
/// What the file system says.
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
    let unfinished = format!("{name}.preparing");
    match storage.remove(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Neither file nor name is synced: what a crash leaves of it fails its checksum.
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
    // Whatever is wrong with it, the segment says the same, and more slowly.
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
