//! The chunk that must come next.

use crate::format::{ChunkHeader, SegmentHeader, StreamId, Tag, is_torn_header};

/// Describes the chunk that must come next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) chunk: u64,
    /// The sequence of its first record.
    pub(crate) record: u64,
    /// The tag of the chunk before; `None` where that chunk is damaged or was not read.
    pub(crate) previous: Option<Tag>,
    /// The epoch of the chunk before. Epochs never fall.
    pub(crate) epoch: u64,
}

impl Expected {
    /// The first chunk of a segment.
    pub(crate) fn first_of(segment: &SegmentHeader) -> Self {
        Self {
            chunk: segment.first_chunk,
            record: segment.first_record,
            previous: Some(segment.previous),
            epoch: segment.epoch,
        }
    }

    /// This chunk, whatever comes before it.
    pub(crate) fn exactly(chunk: &ChunkHeader) -> Self {
        Self {
            chunk: chunk.sequence,
            record: chunk.first_record,
            previous: None,
            epoch: chunk.epoch,
        }
    }

    /// The chunk after this one.
    pub(crate) fn after(chunk: &ChunkHeader) -> Self {
        Self {
            chunk: chunk.sequence + 1,
            record: chunk.last_record() + 1,
            previous: Some(chunk.tag),
            epoch: chunk.epoch,
        }
    }

    /// Checks that `chunk`, found in `segment`, is the expected one. A chunk that says that it is not sealed would
    /// need no key to be forged, so it must be sealed as its segment is.
    pub(crate) fn check(
        &self,
        chunk: &ChunkHeader,
        segment: &SegmentHeader,
    ) -> Result<(), &'static str> {
        let sealed = (chunk.algorithm, chunk.unit);
        let is_chained = self.previous.is_none_or(|tag| tag == chunk.previous);
        let checks = [
            (chunk.stream == segment.stream, "a chunk of another stream"),
            (
                sealed == (segment.algorithm, segment.unit),
                "a chunk that is sealed in another way",
            ),
            (chunk.sequence == self.chunk, "a chunk that does not follow"),
            (
                chunk.first_record == self.record,
                "records that do not follow",
            ),
            (chunk.epoch >= self.epoch, "a chunk of an earlier epoch"),
            (is_chained, "the chain is broken"),
        ];
        let failed = checks.into_iter().find(|(holds, _)| !holds);
        failed.map_or(Ok(()), |(_, reason)| Err(reason))
    }

    /// Whether a chunk is older than the expected one, as in a recycled file.
    pub(crate) fn is_after(&self, chunk: &ChunkHeader) -> bool {
        chunk.sequence < self.chunk || chunk.epoch < self.epoch
    }

    /// Whether bytes that are no header are the remains of the expected chunk's header.
    pub(crate) fn is_torn(&self, head: &[u8], stream: StreamId) -> bool {
        is_torn_header(head, stream, self.chunk, self.record)
    }
}
