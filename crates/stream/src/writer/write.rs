//! One write to the disk: chunks that follow each other in a segment.

use std::{collections::VecDeque, io, sync::LazyLock};

use crate::{
    format::ALIGNMENT,
    log::{LogEnd, SegmentFile},
    storage::AlignedBuffer,
};

use super::shard::Filled;

/// The zeros that may follow a write are written from here.
static ZEROS: LazyLock<AlignedBuffer> = LazyLock::new(|| AlignedBuffer::zeroed(64 << 10));

/// Sealed chunks that are written together.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) file: SegmentFile,
    /// Where the first of `chunks` goes.
    offset: u64,
    /// The header of the segment, at offset 0, if these are its first chunks.
    pub(super) segment_header: Option<AlignedBuffer>,
    pub(super) chunks: Vec<Filled>,
    /// How many bytes of zeros follow the chunks. The next write overwrites them, so nothing else may be in flight
    /// together with this one.
    pub(super) zeros: u64,
    /// The sequence of the first record.
    pub(super) first_record: u64,
    /// The sequence of the last record.
    pub(super) last_record: u64,
}

impl Write {
    /// Seals as many of `waiting` as fit into the active segment, in order. The first one fits. `durable` is the last
    /// record that is known to be durable.
    pub(super) fn seal(
        log: &mut LogEnd,
        waiting: &mut VecDeque<Filled>,
        segment_header: Option<AlignedBuffer>,
        durable: u64,
        time_ns: u64,
    ) -> Self {
        let first_record = log.last_record() + 1;
        let (file, offset) = log.position();
        let mut chunks = Vec::with_capacity(waiting.len());
        while waiting
            .front()
            .is_some_and(|next| !log.must_roll(&next.body))
        {
            let mut filled = waiting.pop_front().expect("there is a next one");
            log.seal(&mut filled.body, durable, time_ns);
            chunks.push(filled);
        }
        assert!(!chunks.is_empty(), "the segment has space for one chunk");
        Self {
            file,
            offset,
            segment_header,
            chunks,
            zeros: 0,
            first_record,
            last_record: log.last_record(),
        }
    }

    /// The bytes of the chunks and of the segment's header.
    pub(super) fn bytes(&self) -> u64 {
        let header = self.segment_header.as_ref().map_or(0, AlignedBuffer::len);
        let chunks = self.chunks.iter().map(|chunk| chunk.body.buffer.len());
        (header + chunks.sum::<usize>()) as u64
    }

    /// Writes through `slot`, which nothing else uses meanwhile. Durable afterwards if the file is synchronous.
    pub(super) fn run(&self, slot: usize) -> io::Result<()> {
        let mut parts: Vec<&[u8]> = Vec::with_capacity(self.chunks.len() + 1);
        let mut offset = self.offset;
        if let Some(header) = &self.segment_header {
            debug_assert_eq!(offset, ALIGNMENT as u64);
            parts.push(header.as_slice());
            offset = 0;
        }
        parts.extend(self.chunks.iter().map(|chunk| chunk.body.buffer.as_slice()));
        let mut zeros = self.zeros as usize;
        while zeros > 0 {
            let part = zeros.min(ZEROS.len());
            parts.push(&ZEROS.as_slice()[..part]);
            zeros -= part;
        }
        self.file.slot(slot).write_at(&parts, offset)
    }
}
