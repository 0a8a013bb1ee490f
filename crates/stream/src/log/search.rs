//! Looking for whole chunks behind damage.
//!
//! Behind a header that is lost nothing says where the next chunk begins, so each page may be one;
//! and what a page holds may be a payload, whose bytes somebody else has chosen. Two rules keep it
//! from passing for a chunk:
//!
//! - A chunk is believed only as a whole: header, records, and, in a sealed stream, the tag, which no
//!   payload can have. What follows it is looked for behind its end.
//! - A header whose records are torn gives its length only where it continues the chain, since a
//!   payload cannot know the tag of the chunk before. Anywhere else the next page is looked at.
//!
//! **Without a seal** checksums are all there is, and a payload can have them. If one that holds the
//! stream's id in a chunk of its own making is behind a header that a crash has torn, it can pass for
//! the proof that what is missing had been durable, and opening is refused. That is the safe side:
//! nothing is changed or believed of it, and no real proof is missed.

use std::io;

use crate::{
    format::{ALIGNMENT, ChunkHeader, StreamId, SyncKind, Tag},
    scan::{SegmentScan, Slot},
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
    /// The offset past the last chunk that may belong behind the damage; 0 for none.
    pub(super) end: u64,
    /// Where a chunk stands that proves that what is missing had been durable, and its sequence.
    pub(super) proof: Option<(u64, u64)>,
}

/// Looks through a segment, from `offset`, for chunks that belong behind what is missing.
///
/// A chunk proves that what is missing had been durable if its header says so; or, in mode none,
/// where no header ever does, by being there. `previous` is the tag that a chunk at `offset` has to
/// continue, if one begins there. `is_whole` says whether a header and its records are to be
/// believed.
pub(super) fn search(
    scan: &mut SegmentScan,
    mut offset: u64,
    missing: Missing,
    mut previous: Option<Tag>,
    is_whole: impl Fn(&ChunkHeader, &[u8]) -> bool,
) -> io::Result<Behind> {
    let mut behind = Behind::default();
    while offset < scan.bytes() {
        let header = match scan.read(offset)? {
            Slot::End => break,
            Slot::Chunk { header, .. } => header,
            Slot::Zeros => {
                previous = None;
                offset = scan.behind_zeros(offset)?;
                continue;
            }
            _ => {
                previous = None;
                offset += ALIGNMENT as u64;
                continue;
            }
        };
        let is_whole = is_whole(&header, scan.body());
        if missing.comes_before(&header) {
            behind.end = behind.end.max(offset + header.chunk_bytes());
            if is_whole && missing.is_proved_by(&header) {
                behind.proof.get_or_insert((offset, header.sequence));
            }
        }
        if is_whole || previous == Some(header.previous) {
            previous = Some(header.tag);
            offset += header.chunk_bytes();
        } else {
            previous = None;
            offset += ALIGNMENT as u64;
        }
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
