//! Where a reader is.

use crate::format::{ALIGNMENT, ChunkHeader, SegmentHeader, Tag};

/// Where the next chunk is to be, and what it has to say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    pub(super) offset: u64,
    pub(super) chunk: u64,
    pub(super) record: u64,
    /// The tag of the chunk before, where it was read.
    pub(super) previous: Option<Tag>,
    pub(super) epoch: u64,
    /// The sequence of the record that is wanted next; those before it are passed over.
    pub(super) wanted: u64,
}

impl Cursor {
    /// The beginning of a segment.
    pub(super) fn at(segment: &SegmentHeader, wanted: u64) -> Self {
        Self {
            offset: ALIGNMENT as u64,
            chunk: segment.first_chunk,
            record: segment.first_record,
            previous: Some(segment.previous),
            epoch: segment.epoch,
            wanted,
        }
    }

    /// Whether a chunk of `segment` is the one that has to come next.
    pub(super) fn is_followed_by(&self, chunk: &ChunkHeader, segment: &SegmentHeader) -> bool {
        is_alike(chunk, segment)
            && chunk.sequence == self.chunk
            && chunk.first_record == self.record
            && chunk.epoch >= self.epoch
            && self
                .previous
                .is_none_or(|previous| previous == chunk.previous)
    }

    /// Goes on behind a chunk that stands here.
    pub(super) fn pass(&mut self, chunk: &ChunkHeader) {
        *self = Self {
            offset: self.offset + chunk.chunk_bytes(),
            chunk: chunk.sequence + 1,
            record: chunk.last_record() + 1,
            previous: Some(chunk.tag),
            epoch: chunk.epoch,
            wanted: self.wanted,
        };
    }
}

/// Whether a chunk is of the segment's stream and sealed as it is: one that says that it is not
/// sealed would need no key to be forged.
pub(super) fn is_alike(chunk: &ChunkHeader, segment: &SegmentHeader) -> bool {
    chunk.stream == segment.stream
        && (chunk.algorithm, chunk.unit) == (segment.algorithm, segment.unit)
}
