//! Reading a segment chunk by chunk, whatever is in it.
//!
//! The floor on which recovery, readers, verification and salvage stand: it says what the bytes at
//! an offset are, and judges nothing.

use std::{cmp::Reverse, collections::HashMap, io, sync::Arc};

use crate::{
    format::{
        ALIGNMENT, Algorithm, CHUNK_HEADER_BYTES, ChunkHeader, FormatError, SealUnit,
        SegmentHeader, StreamId, segment_name, segment_number,
    },
    seal::{MasterKey, Ratchet, check_segment},
    storage::{Access, Storage, StorageFile},
};

/// What stands at an offset of a segment.
#[derive(Debug)]
pub(crate) enum Slot {
    /// Nothing: the file ends here, or before.
    End,
    /// Zeros for 4 KiB, or to the file's end.
    Zeros,
    /// No chunk header. `head` is what is there, up to 256 bytes.
    NoHeader { error: FormatError, head: Vec<u8> },
    /// A chunk header, and the file ends before the chunk does.
    Cut(Box<ChunkHeader>),
    /// A chunk header with its whole body behind it, which the scan holds; neither is checked
    /// against the other.
    Chunk {
        header: Box<ChunkHeader>,
        /// Whether what follows the records up to the alignment is zero.
        is_padding_zero: bool,
    },
}

/// A segment's file, read at any offset.
pub(crate) struct SegmentScan {
    file: Arc<dyn StorageFile>,
    bytes: u64,
    chunk: Vec<u8>,
    body_bytes: usize,
    window: Option<Window>,
    /// From where on the file is asked again where its next data is.
    asked_until: u64,
    /// How many bytes of large bodies [`search`](Self::search) has read.
    searched_bytes: u64,
}

/// A piece of a file that does not change, read at once: a look at each page of a segment would
/// otherwise be a call each, and from the device a wait each.
#[derive(Default)]
struct Window {
    begin: u64,
    bytes: Vec<u8>,
}

const WINDOW_BYTES: usize = 1 << 20;

/// A search reads large bodies up to this multiple of the segment's length. Chunks do not overlap, so only headers that
/// somebody has put into payloads come to more.
const SEARCH_FACTOR: u64 = 8;

/// A search always reads a body of up to this many bytes, so that such headers do not hide small chunks.
const SMALL_BODY_BYTES: u32 = 256 << 10;

impl SegmentScan {
    pub(crate) fn new(file: Arc<dyn StorageFile>) -> io::Result<Self> {
        Ok(Self {
            bytes: file.bytes()?,
            file,
            chunk: Vec::new(),
            body_bytes: 0,
            window: None,
            asked_until: 0,
            searched_bytes: 0,
        })
    }

    /// Reads ahead, for a file that nobody writes to.
    pub(crate) fn windowed(mut self) -> Self {
        self.window = Some(Window::default());
        self
    }

    /// Reads the page at `offset` into the chunk's place; returns its bytes.
    fn read_page(&mut self, offset: u64) -> io::Result<usize> {
        self.chunk.resize(ALIGNMENT, 0);
        let Some(window) = &mut self.window else {
            return self.file.read_at(&mut self.chunk[..ALIGNMENT], offset);
        };
        let is_inside = (window.begin..window.begin + window.bytes.len() as u64).contains(&offset);
        if !is_inside {
            window.begin = offset;
            window.bytes.resize(WINDOW_BYTES, 0);
            let read = self.file.read_at(&mut window.bytes, offset)?;
            window.bytes.truncate(read);
        }
        let page = &window.bytes[(offset - window.begin) as usize..];
        let read = page.len().min(ALIGNMENT);
        self.chunk[..read].copy_from_slice(&page[..read]);
        Ok(read)
    }

    /// Where to go on behind the zeros at `offset`: the next page, or behind a hole of the file.
    pub(crate) fn behind_zeros(&mut self, offset: u64) -> io::Result<u64> {
        let next = offset + ALIGNMENT as u64;
        if next < self.asked_until {
            return Ok(next);
        }
        self.asked_until = next + WINDOW_BYTES as u64;
        let data = self.file.next_data(next)?;
        Ok(next.max(data / ALIGNMENT as u64 * ALIGNMENT as u64))
    }

    /// The length of the file, as it was when the scan began or [`refresh`](Self::refresh) looked.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Looks at the file's length again.
    pub(crate) fn refresh(&mut self) -> io::Result<()> {
        self.bytes = self.file.bytes()?;
        Ok(())
    }

    /// The segment's header, or what is wrong with it.
    pub(crate) fn header(&self) -> io::Result<Result<SegmentHeader, FormatError>> {
        let mut bytes = vec![0; ALIGNMENT];
        let read = self.file.read_at(&mut bytes, 0)?;
        Ok(SegmentHeader::decode(&bytes[..read]))
    }

    /// Whether there are zeros for 4 KiB at `offset`, or to the file's end.
    pub(crate) fn is_zero(&self, offset: u64) -> io::Result<bool> {
        let mut bytes = vec![0; ALIGNMENT];
        let read = self.file.read_at(&mut bytes, offset)?;
        Ok(bytes[..read].iter().all(|byte| *byte == 0))
    }

    /// Only the chunk header at `offset`; `None` where there is none that holds.
    pub(crate) fn chunk_header(&self, offset: u64) -> io::Result<Option<ChunkHeader>> {
        let mut bytes = [0; CHUNK_HEADER_BYTES];
        let read = self.file.read_at(&mut bytes, offset)?;
        Ok(ChunkHeader::decode(&bytes[..read]).ok())
    }

    /// Reads what is at `offset`, a multiple of 4 KiB.
    pub(crate) fn read(&mut self, offset: u64) -> io::Result<Slot> {
        let slot = self.read_if(offset, |_, _| true)?;
        Ok(slot.expect("every body is wanted"))
    }

    /// As [`read`](Self::read), for a search that tries each page: it must not read the rest of the segment for each
    /// page of a payload that looks like a header. The header alone is returned if `is_wanted` does not hold of it, or
    /// if the search has read too many large bodies.
    pub(crate) fn search(
        &mut self,
        offset: u64,
        is_wanted: impl FnOnce(&ChunkHeader) -> bool,
    ) -> io::Result<Result<Slot, Box<ChunkHeader>>> {
        self.read_if(offset, |scan, header| {
            if !is_wanted(header) {
                return false;
            }
            if header.body_bytes > SMALL_BODY_BYTES {
                scan.searched_bytes += header.chunk_bytes();
            }
            header.body_bytes <= SMALL_BODY_BYTES
                || scan.searched_bytes <= scan.bytes.saturating_mul(SEARCH_FACTOR)
        })
    }

    fn read_if(
        &mut self,
        offset: u64,
        is_wanted: impl FnOnce(&mut Self, &ChunkHeader) -> bool,
    ) -> io::Result<Result<Slot, Box<ChunkHeader>>> {
        debug_assert!(offset.is_multiple_of(ALIGNMENT as u64));
        self.body_bytes = 0;
        if offset >= self.bytes {
            return Ok(Ok(Slot::End));
        }
        let read = self.read_page(offset)?;
        if read == 0 {
            return Ok(Ok(Slot::End));
        }
        let header = match ChunkHeader::decode(&self.chunk[..read]) {
            Ok(header) => header,
            Err(_) if self.chunk[..read].iter().all(|byte| *byte == 0) => {
                return Ok(Ok(Slot::Zeros));
            }
            Err(error) => {
                return Ok(Ok(Slot::NoHeader {
                    error,
                    head: self.chunk[..read.min(CHUNK_HEADER_BYTES)].to_vec(),
                }));
            }
        };
        // The length was believed only under the header's checksum, and memory is taken only for
        // what the file has.
        let chunk_bytes = header.chunk_bytes();
        if chunk_bytes > self.bytes - offset {
            return Ok(Ok(Slot::Cut(Box::new(header))));
        }
        if !is_wanted(self, &header) {
            return Ok(Err(Box::new(header)));
        }
        let chunk_bytes = chunk_bytes as usize;
        self.chunk.resize(chunk_bytes.max(ALIGNMENT), 0);
        if chunk_bytes > ALIGNMENT {
            let rest = &mut self.chunk[ALIGNMENT..chunk_bytes];
            let rest_bytes = rest.len();
            let read = self.file.read_at(rest, offset + ALIGNMENT as u64)?;
            if read < rest_bytes {
                return Ok(Ok(Slot::Cut(Box::new(header))));
            }
        }
        self.body_bytes = header.body_bytes as usize;
        let padding = &self.chunk[CHUNK_HEADER_BYTES + self.body_bytes..chunk_bytes];
        Ok(Ok(Slot::Chunk {
            is_padding_zero: padding.iter().all(|byte| *byte == 0),
            header: Box::new(header),
        }))
    }

    /// The records of the chunk that was read last; empty if it was none.
    pub(crate) fn body(&self) -> &[u8] {
        if self.body_bytes == 0 {
            return &[];
        }
        &self.chunk[CHUNK_HEADER_BYTES..CHUNK_HEADER_BYTES + self.body_bytes]
    }
}

/// The largest step from one segment's number to the next of the same stream. The way to a segment's keys is as long
/// as its number: a stray file with a large number must not lead there.
pub(crate) const NUMBER_STEP_MAX: u64 = 1 << 16;

/// The files of a stream's directory that are named like segments.
pub(crate) struct Listed {
    /// The segments' numbers, in order.
    pub(crate) numbers: Vec<u64>,
    /// Names that no writer of this stream has given: they are far from all others, or 0.
    pub(crate) strays: Vec<String>,
}

/// The files that are named like segments. Of several groups far from one another, the stream's is the one with most
/// headers that hold; of equal ones the one with more files.
pub(crate) fn list(storage: &dyn Storage) -> io::Result<Listed> {
    let names = storage.list()?;
    let mut found: Vec<u64> = names
        .iter()
        .filter_map(|name| segment_number(name))
        .collect();
    found.sort_unstable();
    let counted = &found[found.partition_point(|number| *number == 0)..];
    let groups = counted.chunk_by(|number, next| next - number <= NUMBER_STEP_MAX);
    let mut best: Option<((usize, usize), &[u64])> = None;
    let is_only = groups.clone().count() == 1;
    for group in groups {
        let headers = if is_only { 0 } else { headers(storage, group)? };
        let rank = (headers, group.len());
        if best.is_none_or(|(highest, _)| rank > highest) {
            best = Some((rank, group));
        }
    }
    let numbers = best.map_or_else(Vec::new, |(_, group)| group.to_vec());
    let is_stray = |number: &&u64| numbers.binary_search(number).is_err();
    let strays = found
        .iter()
        .filter(is_stray)
        .map(|number| segment_name(*number))
        .collect();
    Ok(Listed { numbers, strays })
}

/// How many of these files begin with a segment's header.
fn headers(storage: &dyn Storage, numbers: &[u64]) -> io::Result<usize> {
    let mut headers = 0;
    for &number in numbers {
        headers += match open_segment(storage, number, Access::Read) {
            // Retention may have taken it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            scan => usize::from(scan?.header()?.is_ok()),
        };
    }
    Ok(headers)
}

/// What all segments of a stream share.
pub(crate) fn named(header: &SegmentHeader) -> (StreamId, Algorithm, SealUnit) {
    (header.stream, header.algorithm, header.unit)
}

/// Sorts headers so that those of the stream that most of them name come first, and otherwise as they were: one segment
/// of another stream does not decide what is read.
pub(crate) fn sort_by_share(headers: &mut [SegmentHeader]) {
    let mut shares: HashMap<_, usize> = HashMap::new();
    for header in &*headers {
        *shares.entry(named(header)).or_default() += 1;
    }
    headers.sort_by_key(|header| Reverse(shares[&named(header)]));
}

/// The first of these headers that the key agrees with. `number_max` is the largest number of a file: the way to a
/// segment's keys is as long as its number, which an altered header may say anything about.
pub(crate) fn agreed(
    headers: &[SegmentHeader],
    number_max: u64,
    key: &MasterKey,
) -> Option<SegmentHeader> {
    let is_agreed = |header: &&SegmentHeader| {
        header.algorithm.is_sealed() && header.number <= number_max && {
            let keys = Ratchet::at(key, header.algorithm, header.stream, header.number).keys();
            check_segment(&keys, header).is_ok()
        }
    };
    headers.iter().find(is_agreed).copied()
}

/// The numbers of a stream's segments, in order.
pub(crate) fn segments(storage: &dyn Storage) -> io::Result<Vec<u64>> {
    Ok(list(storage)?.numbers)
}

/// The length of all segments' files, in bytes.
pub(crate) fn bytes(storage: &dyn Storage, segments: &[u64]) -> io::Result<u64> {
    let bytes = |&number| Ok(open_segment(storage, number, Access::Read)?.bytes());
    segments.iter().map(bytes).sum()
}

/// Opens a segment to be read.
pub(crate) fn open_segment(
    storage: &dyn Storage,
    number: u64,
    access: Access,
) -> io::Result<SegmentScan> {
    SegmentScan::new(storage.open(&segment_name(number), access)?)
}
