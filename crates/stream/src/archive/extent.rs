//! The part of a segment that is archived: its header and the chunks that follow, checked.

use std::io;

use crate::{
    format::{ALIGNMENT, SegmentHeader, segment_name},
    head::Head,
    scan::{self, Expected, Next, SegmentScan},
    seal::{SegmentFault, SegmentKeys, check_segment},
    storage::{Access, Storage},
};

use super::ArchiveError;

/// The whole chunks at the beginning of a segment.
#[derive(Debug)]
pub(super) struct Extent {
    pub(super) header: SegmentHeader,
    /// The offset past the last of them.
    pub(super) bytes: u64,
    /// The offset of the last of them.
    pub(super) last_chunk: Option<u64>,
    /// The chunk that must come next.
    pub(super) next: Expected,
    /// Why the content after them is no chunk that follows, if there is any. In a recycled file, and while it is
    /// written, that is no damage.
    pub(super) broken: Option<String>,
}

impl Extent {
    /// Checks the chunks of a segment, up to one that ends at `until` or later.
    pub(super) fn read(
        storage: &dyn Storage,
        header: SegmentHeader,
        keys: Option<&SegmentKeys>,
        until: u64,
    ) -> Result<Self, ArchiveError> {
        let segment = header.number;
        match keys.map(|keys| check_segment(keys, &header)) {
            None | Some(Ok(())) => {}
            Some(Err(SegmentFault::WrongKey)) => return Err(ArchiveError::WrongKey { segment }),
            Some(Err(SegmentFault::Tampered)) => {
                let reason = "the header's tag does not match".to_owned();
                let offset = 0;
                return Err(ArchiveError::Damaged {
                    segment,
                    offset,
                    reason,
                });
            }
        }
        let read = || -> io::Result<Self> {
            // What is in the page cache only may be lost, and written anew in another way.
            storage.open(&segment_name(segment), Access::Read)?.sync()?;
            let scan = scan::open_segment(storage, segment, Access::ReadDevice)?;
            let mut extent = Self {
                header,
                bytes: ALIGNMENT as u64,
                last_chunk: None,
                next: Expected::first_of(&header),
                broken: None,
            };
            extent.advance(&mut scan.windowed(), keys, until)?;
            Ok(extent)
        };
        read().map_err(ArchiveError::file(format!("read segment {segment}")))
    }

    fn advance(
        &mut self,
        scan: &mut SegmentScan,
        keys: Option<&SegmentKeys>,
        until: u64,
    ) -> io::Result<()> {
        while self.bytes < until {
            match scan.next(self.bytes, &self.next, &self.header, keys)? {
                Next::Nothing => return Ok(()),
                Next::Broken(broken) => {
                    self.broken = Some(broken.reason);
                    return Ok(());
                }
                Next::Chunk(chunk) => {
                    self.last_chunk = Some(self.bytes);
                    self.bytes += chunk.chunk_bytes();
                    self.next = Expected::after(&chunk);
                }
            }
        }
        Ok(())
    }

    /// The sequence of its last record; that of the last one before it if it has none.
    pub(super) fn last_record(&self) -> u64 {
        self.next.record - 1
    }

    /// The end of the stream if it ends here.
    pub(super) fn head(&self) -> Head {
        let tag = self.next.previous.expect("it began at a header");
        Head::new(self.last_record(), tag, self.header.algorithm)
    }

    /// Whether `header` is that of the segment that follows.
    pub(super) fn is_followed_by(&self, header: &SegmentHeader) -> bool {
        header.stream == self.header.stream
            && header.number == self.header.number + 1
            && header.first_chunk == self.next.chunk
            && header.first_record == self.next.record
            && Some(header.previous) == self.next.previous
            && header.epoch >= self.next.epoch
    }
}

/// The length of the chunks at the beginning of a segment, by their headers only.
pub(super) fn bytes(storage: &dyn Storage, header: &SegmentHeader) -> io::Result<u64> {
    let scan = scan::open_segment(storage, header.number, Access::Read)?;
    let (mut offset, mut next) = (ALIGNMENT as u64, Expected::first_of(header));
    while let Some(chunk) = scan.chunk_header(offset)?
        && next.check(&chunk, header).is_ok()
    {
        offset += chunk.chunk_bytes();
        next = Expected::after(&chunk);
    }
    Ok(offset)
}

/// A segment's header; `None` if there is no such file, or nothing in it that is a header.
pub(super) fn header(storage: &dyn Storage, number: u64) -> io::Result<Option<SegmentHeader>> {
    let read = scan::open_segment(storage, number, Access::ReadDevice).and_then(|it| it.header());
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => Ok(read?.ok().filter(|header| header.number == number)),
    }
}
