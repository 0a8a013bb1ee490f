//! The bytes on the disk.
//!
//! A stream is a directory of segments, `00000000000000000001.segment` and so on. A segment is a
//! header of 4,096 bytes and chunks after it, each aligned to 4,096 bytes; a chunk is what one
//! page held when it was sealed: a header of 256 bytes, records, and zeros up to the alignment.
//! All integers are little-endian. Sequences, segment numbers and epochs count from 1, so that 0
//! says "none yet". After redb's `design.md`, a file format is drawn byte by byte:
//!
//! ```text
//!   0        4096      4096·k                    4096·m                       segment bytes
//!   ├─ segment ─┼── chunk 1 ──┬───────────┬─ 0 ─┼── chunk 2 ── ··· ──┼── zeros, or stale ──┤
//!   │  header   │ header 256  │ records   │ pad │
//!
//! segment header                              chunk header
//!   0   8  magic "FBSEGMNT"                     0   4  magic "FBCK"
//!   8   2  version, 1 or 3                      4   2  version, 1
//!  10   1  algorithm                            6   1  algorithm
//!  11   1  flags                                7   1  flags
//!  12   4  0                                    8  16  stream id
//!  16  16  stream id                           24   8  epoch
//!  32   8  segment number                      32   8  chunk sequence
//!  40   8  epoch                               40   8  sequence of the first record
//!  48   8  sequence of the first chunk         48   4  count of records, at least 1
//!  56   8  sequence of the first record        52   4  bytes of records, without padding
//!  64   8  created, ns since 1970              56   8  durable sequence when it was sealed
//!  72   8  segment bytes, preallocated         64   8  sealed at, ns since 1970
//!  80  64  tag of the chunk before             72   8  sum of the records' heads and tags
//! 144  32  key check
//! 176  64  tag of this header                  80  64  tag of the chunk before
//! 240  16  version 3: the truncation          144  64  tag of this chunk
//! 256 ...  0                                  208  44  0
//! 4092  4  CRC32C of bytes 0..4092            252   4  CRC32C of bytes 0..252
//! record
//!   0   4  bytes of payload, n
//!   4   4  CRC32C of the payload, begun with n in the place of 0
//!   8   n  payload
//! 8+n   t  tag, where sealed by record: t = 32, 64, 32 or 20 bytes by algorithm; else t = 0
//! ```
//!
//! *Algorithm*: 0 none, 1 HMAC-SHA256, 2 HMAC-SHA512, 3 keyed BLAKE3, 4 HMAC-RIPEMD160. *Flags*: bit 0, sealed by
//! record; bits 1 and 2, the mode of the writer (0 none, 1 interval, 2 batch); bit 3, in a segment
//! header only, that the file was recycled, so that stale bytes may follow the last chunk.
//!
//! **Every byte is covered.** The header by its CRC; a payload by its record's CRC; the heads (and
//! tags) of all records by the header's sum ([`HeadsSum`]), which binds this header to this body, so that a
//! new header over the records of a segment's former life is found even where record boundaries
//! agree; padding must be zero.
//!
//! **Tags.** Each chunk has one. Unsealed, its first 12 bytes are the header's CRC (with tag and CRC
//! taken as zero) and the sum, which makes the chain a checksum only. Sealed by batch, it is
//! the MAC of the header (with tag and CRC taken as zero), which holds the previous tag, stream id,
//! sequences and lengths, followed by the records. Sealed by record, each record has a tag
//! `MAC(previous tag ‖ sequence, 8 ‖ length, 4 ‖ payload)`, where the first one's previous tag is
//! that of the chunk before, and the chunk's tag is the MAC of the header as above, followed by the
//! last record's tag. Stream id and segment number are also bound by the keys ([`crate::seal`]).
//! Tags shorter than 64 bytes are followed by zeros.
//!
//! **Beginning of a stream.** Segments count from 1. Before retention removes a segment, it writes a mark into the file
//! `retention.mark`, sealed with the key of the segment that is written then. If the oldest segments are missing and no
//! mark covers them, they were deleted by hand. The file holds two marks, at 0 and at 4096; a new one replaces the
//! older, so a crash tears one at most. The file is created when the stream is opened, because retention must not need
//! space when the disk is full.
//!
//! ```text
//! retention mark
//!   0   8  magic "FBRETAIN"                    32   8  number of the first segment that is kept
//!   8   2  version, 1                          40   8  number of the segment whose key made the tag
//!  10   1  algorithm                           48  64  tag: the MAC of bytes 0..48; 0 where unsealed
//!  11   5  0                                  112 140  0
//!  16  16  stream id                          252   4  CRC32C of bytes 0..252
//! ```
//!
//! **Positions.** The file `positions.mark` has two pages of 4,096 bytes; a new one replaces the older, as above. It is
//! written when a consumer acknowledges, and before tickets resolve where
//! [`rollback_unacknowledged`](crate::StreamOptions::rollback_unacknowledged) is set.
//!
//! ```text
//! positions                                   consumer, 64 bytes, up to 32 of them
//!   0   8  magic "FBPOSITN"                     0   1  bytes of the name, n
//!   8   2  version, 1                           1   n  name, then zeros
//!  10   1  algorithm                           56   8  the last record that it has acknowledged
//!  11   1  count of consumers
//!  12   4  0
//!  16  16  stream id                           48   8  epoch of the writer that keeps the next, 0 if none does
//!  32   8  generation                          56   8  no ticket of a later record has resolved
//!  40   8  the segment whose key made the tag  64  64  tag: the MAC of bytes 0..4092 without it; 0 where unsealed
//! 128 ...  consumers, then zeros             4092   4  CRC32C of bytes 0..4092
//! ```
//!
//! An attacker without the key cannot forge a page. He can put back an older one: its consumers then read records again,
//! and a writer that rolls back removes records that were acknowledged after it, as if he had cut off the end; the
//! truncation shows it.
//!
//! **Truncation.** To remove all records after one, the writer begins a new segment there. Its header is of version 3
//! and has two more fields, which its tag covers: at 240 the sequence of the last record that was kept, at 248 the
//! highest that was removed. Its first record follows the last chunk that was kept whole; if the truncation divides a
//! chunk, the kept records of it are the new segment's first chunk, sealed anew. Its epoch is a new one. Headers of other
//! segments stay of version 1.
//!
//! The new segment is first written to the file `truncation.pending`. From the moment at which that name is durable the
//! truncation takes place: a writer that opens the stream and finds the file removes the later segments, from the back,
//! cuts the one before, and then gives the file its segment's name. So each state on the way is a shorter stream.
//!
//! An attacker without the key cannot forge a truncation: the header's tag covers it. He can cut off the end of a stream
//! as before, which only a kept head shows, and put back an older copy of the whole stream, which is the same. He cannot
//! put the removed records back beside newer ones: their tags name another chain. A copy of a segment that a truncation
//! has begun, put in the place of `truncation.pending`, is refused, since its epoch is not above all others. If he removes
//! `truncation.pending` after a crash, the truncation does not take place, and its caller was not told that it had. Who
//! has the key can hide a truncation, since he can seal the stream anew. Retention removes the segment that shows a
//! truncation as any other; a later truncation that removes it takes over its highest removed sequence.
//!
//! **End of a segment.** The bytes after the last chunk are zero, or, in a recycled file, stale: chunks whose sequence
//! or epoch is below that of the chunk that must follow, or the inside of one. Epochs count the times a stream was
//! opened for writing and never fall, so the remains of an earlier crash are not taken for a successor. Nothing covers
//! stale bytes: they are no part of the stream, and no tool hands them out.

mod algorithm;
mod chunk_header;
mod error;
mod fields;
mod heads_sum;
mod positions;
mod record;
mod retention_mark;
mod segment_header;

use std::fmt;

pub use algorithm::{Algorithm, SealUnit};
pub use chunk_header::{ChunkHeader, is_torn_header};
pub use error::FormatError;
pub use heads_sum::HeadsSum;
pub use positions::{CONSUMER_NAME_BYTES_MAX, CONSUMERS_MAX, POSITIONS, Positions};
pub(crate) use record::fill_record;
pub use record::{RECORD_HEAD_BYTES, RecordAt, RecordError, Records, record_bytes, write_record};
pub use retention_mark::{
    RETENTION_FILE_BYTES, RETENTION_MARK, RETENTION_MARK_BYTES, RetentionMark,
};
pub use segment_header::{SegmentHeader, Truncation};

/// Sixteen random bytes, drawn when a stream is created, that every header of it carries.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamId(pub [u8; 16]);

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamId({self})")
    }
}

const SEGMENT_SUFFIX: &str = ".segment";
const SEGMENT_DIGITS: usize = 20;

/// The file name of the segment with this number.
///
/// ```
/// # use freeboard_stream::format::segment_name;
/// assert_eq!(segment_name(7), "00000000000000000007.segment");
/// ```
#[must_use]
pub fn segment_name(number: u64) -> String {
    format!("{number:0SEGMENT_DIGITS$}{SEGMENT_SUFFIX}")
}

/// The number in a segment's file name, or `None` for any other name.
#[must_use]
pub fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SEGMENT_SUFFIX)?;
    let is_number =
        digits.len() == SEGMENT_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

/// The version that this crate writes where no later one is needed.
pub const VERSION: u16 = 1;

/// The version of the header of a segment that was begun after a truncation, and the newest that this crate reads.
/// Version 2 stands in a kept file of the tests for a version without a meaning, so nothing is written with it.
pub const VERSION_TRUNCATED: u16 = 3;

/// The alignment of chunks, and the size of a segment header, in bytes.
pub const ALIGNMENT: usize = 4_096;

/// The size of a chunk header, in bytes.
pub const CHUNK_HEADER_BYTES: usize = 256;

/// The space for a tag in headers, in bytes; shorter tags are followed by zeros.
pub const TAG_BYTES: usize = 64;

/// The most bytes of records that a chunk may hold: a chunk is read into memory as a whole.
pub const CHUNK_BODY_BYTES_MAX: u32 = 1 << 30;

/// A tag with the zeros that follow it.
pub type Tag = [u8; TAG_BYTES];

/// The bytes a chunk with `body` bytes of records takes in its segment.
#[must_use]
pub const fn chunk_bytes(body: u32) -> u64 {
    (CHUNK_HEADER_BYTES as u64 + body as u64).next_multiple_of(ALIGNMENT as u64)
}

/// How the stream was written to the disk, as a chunk's flags say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SyncKind {
    /// Never synced by the writer.
    None,
    /// Synced after a time or a number of bytes.
    Interval,
    /// Each batch durable before it is acknowledged.
    Batch,
}

impl SyncKind {
    pub(crate) const fn bits(self) -> u8 {
        self as u8
    }

    pub(crate) const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(Self::None),
            1 => Some(Self::Interval),
            2 => Some(Self::Batch),
            _ => None,
        }
    }
}
