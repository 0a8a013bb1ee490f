//! Keys, tags and the chain: they prove that a stream's bytes are its own.
//!
//! A chained hash, `tag[n] = MAC(key, tag[n-1] ‖ record[n])`. Every tag also covers sequence and length,
//! the stream's id and the segment's number are in the key, and each segment has a key of its own:
//!
//! ```text
//!   master key ──HKDF-Extract(salt: stream id)──▶ ratchet 1 ──▶ ratchet 2 ──▶ ...
//!                                                    │             │
//!                                          HKDF-Expand: chunk, record and check keys of segment 1, 2
//! ```
//!
//! Each ratchet state is the HKDF-Expand of the one before, which is then zeroised. A writer needs the
//! master key to open a stream, and drops its copy then. It keeps the state of the segment that held
//! the last durable record when it last wrote, since a stream is read again from there when a write
//! has failed. So an intruder who reads a running writer's memory cannot forge the segments before that one.
//! This does not hold in a process that has the master key for another reason: the caller's
//! [`StreamOptions`](crate::StreamOptions), a reader or a check with the key. All derivations are
//! HKDF-SHA256; each purpose has an info text of its own.

mod chunk;
mod key;
mod mac;
mod ratchet;

pub use chunk::{SealFault, check_chunk, seal_chunk};
pub use key::{KEY_BYTES_MIN, KeyError, MasterKey};
pub use ratchet::{Ratchet, SegmentKeys};
pub(crate) use ratchet::{Secret, keys_at};

use std::sync::Arc;

use crate::format::{Algorithm, Positions, RetentionMark, SegmentHeader, StreamId, TAG_BYTES, Tag};

/// The unsealed or sealed tag of a segment header, and its key check, are filled in.
pub fn seal_segment(keys: Option<&SegmentKeys>, header: &mut SegmentHeader) {
    if let Some(keys) = keys {
        header.key_check = keys.key_check();
        header.tag = segment_tag(keys, header);
    }
}

/// Whether a segment header is the one that the holder of the keys wrote.
///
/// # Errors
///
/// [`SegmentFault::WrongKey`] if the keys are others than it was written with,
/// [`SegmentFault::Tampered`] if the keys are right and its tag is not.
pub fn check_segment(keys: &SegmentKeys, header: &SegmentHeader) -> Result<(), SegmentFault> {
    if header.key_check != keys.key_check() {
        // An altered key check under a recomputed checksum would look like a wrong key; the header's tag
        // tells the two apart.
        let mut expected = *header;
        expected.key_check = keys.key_check();
        return if is_same(&segment_tag(keys, &expected), &header.tag) {
            Err(SegmentFault::Tampered)
        } else {
            Err(SegmentFault::WrongKey)
        };
    }
    if is_same(&segment_tag(keys, header), &header.tag) {
        Ok(())
    } else {
        Err(SegmentFault::Tampered)
    }
}

fn segment_tag(keys: &SegmentKeys, header: &SegmentHeader) -> Tag {
    keys.chunk_tag(&header.encode_untagged(), &header.encode_truncation())
}

/// Why a segment header is not the one that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentFault {
    /// It was written with another key.
    WrongKey,
    /// It was altered and its checksum recomputed.
    Tampered,
}

/// Seals retention marks, positions and snapshots.
pub(crate) struct MarkSealer {
    pub(crate) algorithm: Algorithm,
    pub(crate) stream: StreamId,
    /// The segment that is being written.
    pub(crate) segment: u64,
    /// Its keys, where the stream is sealed.
    pub(crate) keys: Option<Arc<SegmentKeys>>,
}

impl MarkSealer {
    /// Seals the positions of consumers.
    pub(crate) fn page(&self, page: &mut Positions) {
        page.sealed_in = self.segment;
        if let Some(keys) = &self.keys {
            page.tag = keys.chunk_tag(&page.encode_untagged(), &[]);
        }
    }

    /// The tag of a snapshot's header.
    pub(crate) fn snapshot(&self, header: &[u8]) -> Tag {
        let keys = self.keys.as_ref();
        keys.map_or([0; TAG_BYTES], |keys| keys.chunk_tag(header, &[]))
    }

    /// The mark that says that the segments before `first_kept` may be missing.
    pub(crate) fn mark(&self, first_kept: u64) -> RetentionMark {
        let mut mark = RetentionMark {
            algorithm: self.algorithm,
            stream: self.stream,
            first_kept,
            sealed_in: self.segment,
            tag: [0; TAG_BYTES],
        };
        if let Some(keys) = &self.keys {
            mark.tag = keys.chunk_tag(&mark.encode_untagged(), &[]);
        }
        mark
    }
}

/// As [`is_mark_genuine`], of the positions of consumers.
pub(crate) fn is_page_genuine(keys: &SegmentKeys, page: &Positions) -> bool {
    is_same(&keys.chunk_tag(&page.encode_untagged(), &[]), &page.tag)
}

/// As [`is_mark_genuine`], of a snapshot's header.
pub(crate) fn is_snapshot_genuine(keys: &SegmentKeys, header: &[u8], tag: &Tag) -> bool {
    is_same(&keys.chunk_tag(header, &[]), tag)
}

/// Whether the holder of the keys, which are those of segment `sealed_in`, wrote the mark.
pub(crate) fn is_mark_genuine(keys: &SegmentKeys, mark: &RetentionMark) -> bool {
    is_same(&keys.chunk_tag(&mark.encode_untagged(), &[]), &mark.tag)
}

/// Compares tags in constant time.
pub(crate) fn is_same(left: &Tag, right: &Tag) -> bool {
    left.iter()
        .zip(right)
        .fold(0, |difference, (left, right)| difference | (left ^ right))
        == 0
}
