//! Reads a segment chunk by chunk, whatever is in it.

use std::{io, sync::Arc};

use crate::{
    format::{ALIGNMENT, CHUNK_HEADER_BYTES, ChunkHeader, FormatError, SegmentHeader},
    seal::{SegmentKeys, check_chunk},
    storage::StorageFile,
};

use super::Expected;

/// The content of a segment at an offset.
#[derive(Debug)]
pub(crate) enum Slot {
    /// Nothing: the file ends here, or before.
    End,
    /// Zeros for 4 KiB, or to the file's end.
    Zeros,
    /// No chunk header. `head` is up to 256 bytes of it.
    NoHeader { error: FormatError, head: Vec<u8> },
    /// A chunk header, and the file ends before the chunk does.
    Cut(Box<ChunkHeader>),
    /// A chunk header whose body a [search](SegmentScan::search) did not read.
    Unread(Box<ChunkHeader>),
    /// A chunk header and its whole body, which the scan holds. Neither is checked against the other.
    Chunk {
        header: Box<ChunkHeader>,
        /// Whether the bytes from the records to the alignment are zero.
        is_padding_zero: bool,
    },
}

/// The result of reading the chunk that must come next.
#[derive(Debug)]
pub(crate) enum Next {
    /// The chunk, whole and checked.
    Chunk(Box<ChunkHeader>),
    /// The file ends, or zeros follow.
    Nothing,
    Broken(Broken),
}

/// Something else than the chunk that must come next.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) reason: String,
    pub(crate) found: Found,
    /// The offset past the bytes that are known to belong to it.
    pub(crate) end: u64,
}

/// The content in place of the chunk that must come next.
#[derive(Debug)]
pub(crate) enum Found {
    /// No chunk header; up to 256 bytes of it.
    Bytes(Vec<u8>),
    /// The header of a chunk that does not follow.
    Other(Box<ChunkHeader>),
    /// The expected chunk, cut short or damaged.
    Chunk,
}

/// A segment's file, read at any offset.
pub(crate) struct SegmentScan {
    file: Arc<dyn StorageFile>,
    bytes: u64,
    chunk: Vec<u8>,
    body_bytes: usize,
    window: Option<Window>,
    /// From this offset on the file is asked again for its next data.
    asked_until: u64,
    /// How many bytes of large bodies [`search`](Self::search) has read.
    searched_bytes: u64,
}

/// A piece of a file that does not change, read at once. Otherwise each page of a segment would cost a call, and a
/// wait for the device.
#[derive(Default)]
struct Window {
    begin: u64,
    bytes: Vec<u8>,
}

const WINDOW_BYTES: usize = 1 << 20;

/// A search reads large bodies up to this multiple of the segment's length. Chunks do not overlap, so only forged
/// headers in payloads need more.
const SEARCH_FACTOR: u64 = 8;

/// A search always reads a body of up to this many bytes, so that forged headers do not hide small chunks.
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

    /// Reads ahead, for a file that is not written to.
    pub(crate) fn windowed(mut self) -> Self {
        self.window = Some(Window::default());
        self
    }

    /// Reads the page at `offset` into the buffer of the chunk; returns its bytes.
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

    /// Where to continue after the zeros at `offset`: the next page, or the end of a hole of the file.
    pub(crate) fn behind_zeros(&mut self, offset: u64) -> io::Result<u64> {
        let next = offset + ALIGNMENT as u64;
        if next < self.asked_until {
            return Ok(next);
        }
        self.asked_until = next + WINDOW_BYTES as u64;
        let data = self.file.next_data(next)?;
        Ok(next.max(data / ALIGNMENT as u64 * ALIGNMENT as u64))
    }

    /// The length of the file when the scan began, or at the last [`refresh`](Self::refresh).
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads the file's length again.
    pub(crate) fn refresh(&mut self) -> io::Result<()> {
        self.bytes = self.file.bytes()?;
        Ok(())
    }

    /// The segment's header, or its fault.
    pub(crate) fn header(&self) -> io::Result<Result<SegmentHeader, FormatError>> {
        let mut bytes = vec![0; ALIGNMENT];
        let read = self.file.read_at(&mut bytes, 0)?;
        Ok(SegmentHeader::decode(&bytes[..read]))
    }

    /// Whether the file begins with 4 KiB of zeros, or has fewer bytes and all are zero.
    pub(crate) fn is_blank(&self) -> io::Result<bool> {
        let mut bytes = vec![0; ALIGNMENT];
        let read = self.file.read_at(&mut bytes, 0)?;
        Ok(bytes[..read].iter().all(|byte| *byte == 0))
    }

    /// Only the chunk header at `offset`; `None` where none holds.
    pub(crate) fn chunk_header(&self, offset: u64) -> io::Result<Option<ChunkHeader>> {
        let mut bytes = [0; CHUNK_HEADER_BYTES];
        let read = self.file.read_at(&mut bytes, offset)?;
        Ok(ChunkHeader::decode(&bytes[..read]).ok())
    }

    /// Reads and checks the chunk that must come next, at `offset`. Without keys, tags are not checked.
    pub(crate) fn next(
        &mut self,
        offset: u64,
        expected: &Expected,
        segment: &SegmentHeader,
        keys: Option<&SegmentKeys>,
    ) -> io::Result<Next> {
        let end = self.bytes;
        let broken = |reason: String, found, end| Ok(Next::Broken(Broken { reason, found, end }));
        let (header, is_padding_zero) = match self.read(offset)? {
            Slot::End | Slot::Zeros => return Ok(Next::Nothing),
            Slot::NoHeader { error, head } => {
                return broken(error.to_string(), Found::Bytes(head), end);
            }
            Slot::Cut(header) | Slot::Unread(header) => {
                let found = match expected.check(&header, segment) {
                    Ok(()) => Found::Chunk,
                    Err(_) => Found::Other(header),
                };
                return broken("the file ends inside the chunk".to_owned(), found, end);
            }
            Slot::Chunk {
                header,
                is_padding_zero,
            } => (header, is_padding_zero),
        };
        let end = offset + header.chunk_bytes();
        if let Err(reason) = expected.check(&header, segment) {
            return broken(reason.to_owned(), Found::Other(header), end);
        }
        if !is_padding_zero {
            let reason = "the bytes after its records are not zero";
            return broken(reason.to_owned(), Found::Chunk, end);
        }
        match check_chunk(keys, &header, self.body()) {
            Ok(()) => Ok(Next::Chunk(header)),
            Err(fault) => broken(fault.to_string(), Found::Chunk, end),
        }
    }

    /// Reads the slot at `offset`, a multiple of 4 KiB.
    pub(crate) fn read(&mut self, offset: u64) -> io::Result<Slot> {
        self.read_if(offset, |_, _| true)
    }

    /// As [`read`](Self::read), for a search that tries each page. It must not read the rest of the segment for each
    /// page of a payload that looks like a header. So it returns [`Slot::Unread`] if `is_wanted` does not hold of the
    /// header, or if the search has read too many large bodies.
    pub(crate) fn search(
        &mut self,
        offset: u64,
        is_wanted: impl FnOnce(&ChunkHeader) -> bool,
    ) -> io::Result<Slot> {
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

    /// The first chunk from `offset` on of which `is_wanted` and `is_whole` hold, and its offset. Each page is tried.
    pub(crate) fn find(
        &mut self,
        mut offset: u64,
        is_wanted: impl Fn(&ChunkHeader) -> bool,
        is_whole: impl Fn(&ChunkHeader, &[u8]) -> bool,
    ) -> io::Result<Option<(ChunkHeader, u64)>> {
        loop {
            match self.search(offset, &is_wanted)? {
                Slot::End => return Ok(None),
                Slot::Zeros => offset = self.behind_zeros(offset)?,
                Slot::Chunk {
                    header,
                    is_padding_zero: true,
                } if is_whole(&header, self.body()) => return Ok(Some((*header, offset))),
                _ => offset += ALIGNMENT as u64,
            }
        }
    }

    fn read_if(
        &mut self,
        offset: u64,
        is_wanted: impl FnOnce(&mut Self, &ChunkHeader) -> bool,
    ) -> io::Result<Slot> {
        debug_assert!(offset.is_multiple_of(ALIGNMENT as u64));
        self.body_bytes = 0;
        if offset >= self.bytes {
            return Ok(Slot::End);
        }
        let read = self.read_page(offset)?;
        if read == 0 {
            return Ok(Slot::End);
        }
        let header = match ChunkHeader::decode(&self.chunk[..read]) {
            Ok(header) => Box::new(header),
            Err(_) if self.chunk[..read].iter().all(|byte| *byte == 0) => return Ok(Slot::Zeros),
            Err(error) => {
                let head = self.chunk[..read.min(CHUNK_HEADER_BYTES)].to_vec();
                return Ok(Slot::NoHeader { error, head });
            }
        };
        // The length is believed only under the header's checksum, and memory is taken only for bytes that the file has.
        let chunk_bytes = header.chunk_bytes();
        if chunk_bytes > self.bytes - offset {
            return Ok(Slot::Cut(header));
        }
        if !is_wanted(self, &header) {
            return Ok(Slot::Unread(header));
        }
        let chunk_bytes = chunk_bytes as usize;
        self.chunk.resize(chunk_bytes.max(ALIGNMENT), 0);
        if chunk_bytes > ALIGNMENT {
            let rest = &mut self.chunk[ALIGNMENT..chunk_bytes];
            if self.file.read_at(rest, offset + ALIGNMENT as u64)? < rest.len() {
                return Ok(Slot::Cut(header));
            }
        }
        self.body_bytes = header.body_bytes as usize;
        let padding = &self.chunk[CHUNK_HEADER_BYTES + self.body_bytes..chunk_bytes];
        Ok(Slot::Chunk {
            is_padding_zero: padding.iter().all(|byte| *byte == 0),
            header,
        })
    }

    /// The records of the chunk that was read last; empty if it was none.
    pub(crate) fn body(&self) -> &[u8] {
        if self.body_bytes == 0 {
            return &[];
        }
        &self.chunk[CHUNK_HEADER_BYTES..CHUNK_HEADER_BYTES + self.body_bytes]
    }
}
