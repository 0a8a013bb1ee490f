//! From chunk to chunk, to the first that does not follow.

use std::io;

use crate::{
    format::{ALIGNMENT, ChunkHeader, ChunkLikeness, SegmentHeader, Tag},
    scan::{SegmentScan, Slot},
    seal::{SegmentKeys, check_chunk},
};

/// How far a walk has come, which is what has to follow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    pub(super) segment: u64,
    pub(super) offset: u64,
    /// The sequence of the next chunk.
    pub(super) chunk: u64,
    /// The sequence of the next record.
    pub(super) record: u64,
    /// The tag of the last chunk.
    pub(super) previous: Tag,
    /// The epoch of the last chunk.
    pub(super) epoch: u64,
    /// The highest durable sequence that a chunk has named.
    pub(super) durable: u64,
}

/// What ended the walk through a segment.
#[derive(Debug)]
pub(super) enum WalkEnd {
    /// Nothing follows: zeros, the file's end, or the stale bytes of a recycled file.
    Clean,
    /// What is there ought to follow and is broken.
    Broken {
        reason: String,
        /// The offset past what is known to be its remains.
        end: u64,
    },
}

impl Position {
    /// The beginning of a segment.
    pub(super) fn at(header: &SegmentHeader) -> Self {
        Self {
            segment: header.number,
            offset: ALIGNMENT as u64,
            chunk: header.first_chunk,
            record: header.first_record,
            previous: header.previous,
            epoch: header.epoch,
            durable: 0,
        }
    }

    /// Whether `header` is that of the segment that follows here.
    pub(super) fn is_followed_by(&self, header: &SegmentHeader) -> bool {
        header.number == self.segment + 1
            && header.first_chunk == self.chunk
            && header.first_record == self.record
            && header.previous == self.previous
            && header.epoch >= self.epoch
    }

    /// Goes on into the segment that follows.
    pub(super) fn enter(&mut self, header: &SegmentHeader) {
        let durable = self.durable;
        *self = Self::at(header);
        self.durable = durable;
    }

    /// Walks to the end of what follows in this segment.
    pub(super) fn walk(
        &mut self,
        scan: &mut SegmentScan,
        segment: &SegmentHeader,
        keys: Option<&SegmentKeys>,
    ) -> io::Result<WalkEnd> {
        loop {
            let slot = scan.read(self.offset)?;
            let (header, is_padding_zero) = match slot {
                Slot::End | Slot::Zeros => return Ok(WalkEnd::Clean),
                Slot::Chunk {
                    header,
                    is_padding_zero,
                } => (header, is_padding_zero),
                Slot::Cut(header) if !self.is_stale(&header, segment) => {
                    return Ok(self.broken("the file ends inside the chunk", scan.bytes()));
                }
                Slot::NoHeader { error, head } if !self.is_remains(segment, &head) => {
                    return Ok(self.broken(&error.to_string(), scan.bytes()));
                }
                Slot::Cut(_) | Slot::NoHeader { .. } => return Ok(WalkEnd::Clean),
            };
            if self.is_stale(&header, segment) {
                return Ok(WalkEnd::Clean);
            }
            let end = self.offset + header.chunk_bytes();
            if let Err(reason) = self.check(&header, segment) {
                return Ok(self.broken(reason, end));
            }
            if !is_padding_zero {
                return Ok(self.broken("the bytes behind its records are not zero", end));
            }
            if let Err(fault) = check_chunk(keys, &header, scan.body()) {
                return Ok(self.broken(&fault.to_string(), end));
            }
            self.offset = end;
            self.chunk = header.sequence + 1;
            self.record = header.last_record() + 1;
            self.previous = header.tag;
            self.epoch = header.epoch;
            self.durable = self.durable.max(header.durable);
        }
    }

    fn broken(&self, reason: &str, end: u64) -> WalkEnd {
        WalkEnd::Broken {
            reason: reason.to_owned(),
            end,
        }
    }

    /// Whether a chunk is of the file's former life.
    fn is_stale(&self, header: &ChunkHeader, segment: &SegmentHeader) -> bool {
        segment.is_recycled && (header.sequence < self.chunk || header.epoch < self.epoch)
    }

    /// Whether bytes that are no header can be what a former life left behind here.
    fn is_remains(&self, segment: &SegmentHeader, head: &[u8]) -> bool {
        segment.is_recycled
            && !ChunkLikeness::of(head, segment.stream, self.chunk, self.record).is_ours()
    }

    fn check(&self, header: &ChunkHeader, segment: &SegmentHeader) -> Result<(), &'static str> {
        let is_sealed_alike = header.algorithm == segment.algorithm && header.unit == segment.unit;
        let checks = [
            (header.stream == segment.stream, "a chunk of another stream"),
            (is_sealed_alike, "a chunk that is sealed in another way"),
            (
                header.sequence == self.chunk,
                "a chunk that does not follow",
            ),
            (
                header.first_record == self.record,
                "records that do not follow",
            ),
            (header.epoch >= self.epoch, "a chunk of an earlier epoch"),
            (header.previous == self.previous, "the chain is broken"),
        ];
        match checks.into_iter().find(|(holds, _)| !holds) {
            Some((_, reason)) => Err(reason),
            None => Ok(()),
        }
    }
}
