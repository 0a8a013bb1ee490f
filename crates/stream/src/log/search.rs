//! Looking for whole chunks behind damage.

use std::io;

use crate::{
    format::{ALIGNMENT, ChunkHeader, StreamId, SyncKind},
    scan::{SegmentScan, Slot},
    seal::check_chunk,
};

/// What damage left unread: where it begins in the stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Missing {
    /// The stream, where a header has told it.
    pub(super) stream: Option<StreamId>,
    /// The sequence of the first chunk that is missing.
    pub(super) chunk: u64,
    /// The sequence of the first record that is missing.
    pub(super) record: u64,
}

/// What was found behind damage.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Behind {
    /// The offset past the last chunk that belongs behind the damage; 0 for none.
    pub(super) end: u64,
    /// Where a chunk stands that proves that what is missing had been durable, and its sequence.
    pub(super) proof: Option<(u64, u64)>,
}

/// Looks through a segment, from `offset`, for chunks that belong behind what is missing.
///
/// A chunk proves that what is missing had been durable if its header says so; or, in mode none,
/// where no header ever does, by being there.
pub(super) fn search(
    scan: &mut SegmentScan,
    mut offset: u64,
    missing: Missing,
) -> io::Result<Behind> {
    let mut behind = Behind::default();
    while offset < scan.bytes() {
        offset += match scan.read(offset)? {
            Slot::End => break,
            Slot::Chunk { header, .. } if missing.comes_before(&header) => {
                behind.end = offset + header.chunk_bytes();
                // The checksums will do: no key is needed to see that it was written whole.
                if missing.is_proved_by(&header) && check_chunk(None, &header, scan.body()).is_ok()
                {
                    behind.proof.get_or_insert((offset, header.sequence));
                }
                header.chunk_bytes()
            }
            Slot::Zeros => scan.behind_zeros(offset)? - offset,
            _ => ALIGNMENT as u64,
        };
    }
    Ok(behind)
}

impl Missing {
    fn comes_before(&self, header: &ChunkHeader) -> bool {
        self.stream.is_none_or(|stream| stream == header.stream) && header.sequence >= self.chunk
    }

    fn is_proved_by(&self, header: &ChunkHeader) -> bool {
        header.durable >= self.record
            || header.sync == SyncKind::None && header.first_record > self.record
    }
}
