//! Searches for whole chunks after damage.
//!
//! After a lost header nothing says where the next chunk begins, so each page may begin one. A page may also hold a
//! payload, whose bytes its sender has chosen. Two rules keep a payload from passing for a chunk:
//!
//! - A chunk is believed only as a whole: header, records, and, in a sealed stream, the tag, which no payload can have.
//!   The search continues after its end.
//! - A header whose records are torn is stepped over by its length only where it continues the chain, since a payload
//!   cannot know the tag of the chunk before. Anywhere else the next page is tried.
//!
//! **Without a seal** only checksums can be checked, and a payload can have them. A payload that holds the stream's id
//! in a forged chunk, after a header that a crash has torn, can pass for the proof that the missing part had been
//! durable. Then opening is refused. That is the safe side: nothing is changed, and no real proof is missed. For the
//! same reason a header is believed when the search has read too many bodies to check it
//! ([`SegmentScan::search`]).

use std::io;

use crate::{
    format::{ALIGNMENT, ChunkHeader, StreamId, SyncKind, Tag},
    scan::{SegmentScan, Slot},
};

/// The first chunk that damage made unreadable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Missing {
    /// The stream, if a header names it.
    pub(super) stream: Option<StreamId>,
    /// The sequence of the chunk.
    pub(super) chunk: u64,
    /// The sequence of its first record.
    pub(super) record: u64,
}

/// The chunks after damage.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Behind {
    /// The offset past the last chunk that may follow the damage; 0 for none.
    pub(super) end: u64,
    /// The offset and the sequence of a chunk that proves that the missing part had been durable.
    pub(super) proof: Option<(u64, u64)>,
}

/// Searches a segment from `offset` for chunks that follow the missing one.
///
/// A chunk proves that the missing part had been durable if its header says so; in mode none, where no header ever
/// does, if it exists. `previous` is the tag that a chunk at `offset` must continue, if one begins there. `is_whole`
/// says whether a header and its records are believed.
pub(super) fn search(
    scan: &mut SegmentScan,
    mut offset: u64,
    missing: Missing,
    mut previous: Option<Tag>,
    is_whole: impl Fn(&ChunkHeader, &[u8]) -> bool,
) -> io::Result<Behind> {
    let mut behind = Behind::default();
    loop {
        let (header, is_believed, is_whole) = match scan.search(offset, |_| true)? {
            Slot::End => return Ok(behind),
            Slot::Zeros => {
                previous = None;
                offset = scan.behind_zeros(offset)?;
                continue;
            }
            Slot::Cut(_) | Slot::NoHeader { .. } => {
                previous = None;
                offset += ALIGNMENT as u64;
                continue;
            }
            Slot::Unread(header) => (header, true, false),
            Slot::Chunk { header, .. } => {
                let is_whole = is_whole(&header, scan.body());
                (header, is_whole, is_whole)
            }
        };
        if missing.comes_before(&header) {
            behind.end = behind.end.max(offset + header.chunk_bytes());
            if is_believed && missing.is_proved_by(&header) {
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
