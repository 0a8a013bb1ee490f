//! The tags of a chunk and of its records.

use std::fmt;

use super::{is_same, mac::Mac, ratchet::SegmentKeys};
use crate::format::{ChunkHeader, HeadsSum, RECORD_HEAD_BYTES, Records, SealUnit, TAG_BYTES, Tag};

/// Computes the sum and the tag of a chunk's header; and, where sealed by record, the records' tags in the
/// body.
///
/// `heads` is the sum over the records' heads, kept while the body was filled. It is used where records
/// have no tags, which saves a walk.
///
/// # Panics
///
/// If the header says that it is sealed and there are no keys, or the body is not a row of records.
pub fn seal_chunk(
    keys: Option<&SegmentKeys>,
    header: &mut ChunkHeader,
    body: &mut [u8],
    heads: HeadsSum,
) {
    debug_assert_eq!(body.len(), header.body_bytes as usize);
    let Some(keys) = keys else {
        assert!(!header.algorithm.is_sealed(), "sealed, and without keys");
        header.heads_sum = heads;
        header.tag = unsealed_tag(header);
        return;
    };
    match header.unit {
        SealUnit::Batch => {
            header.heads_sum = heads;
            header.tag = keys.chunk_tag(&header.encode_untagged(), body);
        }
        SealUnit::Record => {
            let last = seal_records(keys, header, body);
            header.tag = keys.chunk_tag(&header.encode_untagged(), &last);
        }
    }
}

/// Writes the tag behind each record, and the sum into the header; returns the last tag.
fn seal_records(keys: &SegmentKeys, header: &mut ChunkHeader, body: &mut [u8]) -> Tag {
    let tag_bytes = header.algorithm.tag_bytes();
    let mut mac = keys.record_mac();
    let mut previous = header.previous;
    let mut heads = HeadsSum::default();
    let mut rest = body;
    let mut sequence = header.first_record;
    while !rest.is_empty() {
        let head = *rest
            .first_chunk::<RECORD_HEAD_BYTES>()
            .expect("a whole record");
        let length = *head.first_chunk::<4>().expect("8 bytes hold 4");
        let end = RECORD_HEAD_BYTES + u32::from_le_bytes(length) as usize;
        let (record, behind) = rest.split_at_mut(end + tag_bytes);
        let (sealed, place) = record.split_at_mut(end);
        let tag = record_tag(
            &mut mac,
            &previous,
            tag_bytes,
            sequence,
            &sealed[RECORD_HEAD_BYTES..],
        );
        place.copy_from_slice(&tag[..tag_bytes]);
        heads.add(head, place);
        previous = tag;
        sequence += 1;
        rest = behind;
    }
    header.heads_sum = heads;
    previous
}

#[inline]
fn record_tag(
    mac: &mut Mac,
    previous: &Tag,
    tag_bytes: usize,
    sequence: u64,
    payload: &[u8],
) -> Tag {
    // One part in front: three short updates would each pay for a partial block.
    let mut front = [0; TAG_BYTES + 12];
    let length = u32::try_from(payload.len()).expect("a record is below 4 GiB");
    front[..tag_bytes].copy_from_slice(&previous[..tag_bytes]);
    front[tag_bytes..tag_bytes + 8].copy_from_slice(&sequence.to_le_bytes());
    front[tag_bytes + 8..tag_bytes + 12].copy_from_slice(&length.to_le_bytes());
    mac.tag(&front[..tag_bytes + 12], payload)
}

/// A checksum in place of a tag: it chains chunks, and proves nothing.
fn unsealed_tag(header: &ChunkHeader) -> Tag {
    let mut tag = [0; TAG_BYTES];
    tag[..4].copy_from_slice(&crc32c::crc32c(&header.encode_untagged()).to_le_bytes());
    tag[4..12].copy_from_slice(&header.heads_sum.value().to_le_bytes());
    tag
}

/// The fault of a chunk whose header's own checksum matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealFault {
    /// A record's bytes are not those that were written: checksum or length is wrong. The records after it
    /// in the chunk cannot be found.
    Record {
        /// Its index in the chunk, from 0.
        index: u32,
        /// The offset of its head in the body.
        offset: usize,
    },
    /// A record's tag is not the one that its bytes have, though their checksum matches.
    RecordTag {
        /// Its index in the chunk, from 0.
        index: u32,
        /// The offset of its head in the body.
        offset: usize,
        /// Whether the sum over the tags matches too: then it was altered with knowledge of the format; if
        /// not, the tag has rotted.
        is_checksum_right: bool,
    },
    /// The records are whole but are not those that this header was written for: their number or
    /// the sum over their heads and tags differs.
    Body,
    /// Every checksum matches, and the chunk's tag does not.
    ChunkTag,
}

impl fmt::Display for SealFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record { index, .. } => {
                write!(
                    f,
                    "the checksum of the chunk's record {} does not match",
                    index + 1
                )
            }
            Self::RecordTag { index, .. } => {
                write!(
                    f,
                    "the tag of the chunk's record {} does not match",
                    index + 1
                )
            }
            Self::Body => f.write_str("the records are not those that the header was written for"),
            Self::ChunkTag => f.write_str("the chunk's tag does not match"),
        }
    }
}

/// Checks the body of a chunk against its header: all checksums and, with keys, all tags.
///
/// The chain is not checked: the caller compares `header.previous` with the tag of the chunk before.
///
/// # Errors
///
/// The first fault, by index in the chunk.
pub fn check_chunk(
    keys: Option<&SegmentKeys>,
    header: &ChunkHeader,
    body: &[u8],
) -> Result<(), SealFault> {
    let tag_bytes = header.record_tag_bytes();
    let keys = keys.filter(|_| header.algorithm.is_sealed());
    let mut mac = keys
        .filter(|_| header.unit == SealUnit::Record)
        .map(SegmentKeys::record_mac);
    let mut previous = header.previous;
    let mut heads = HeadsSum::default();
    let mut index = 0u32;
    let mut wrong_tag = None;
    let mut records = Records::new(body, tag_bytes);
    while let Some(record) = records.next() {
        let Ok(record) = record else {
            let offset = records.offset();
            return Err(wrong_tag.map_or(
                SealFault::Record { index, offset },
                // The sum over the tags is lost with the heads behind: taken for rot, as the
                // record behind it is.
                |(index, offset)| SealFault::RecordTag {
                    index,
                    offset,
                    is_checksum_right: false,
                },
            ));
        };
        let head = body[record.offset..].first_chunk().expect("a whole record");
        heads.add(*head, record.tag);
        if let Some(mac) = &mut mac {
            let sequence = header.first_record + u64::from(index);
            previous = record_tag(mac, &previous, tag_bytes, sequence, record.payload);
            if wrong_tag.is_none() && previous[..tag_bytes] != *record.tag {
                wrong_tag = Some((index, record.offset));
            }
        }
        index += 1;
    }
    let is_checksum_right = heads == header.heads_sum && index == header.count;
    if let Some((index, offset)) = wrong_tag {
        return Err(SealFault::RecordTag {
            index,
            offset,
            is_checksum_right,
        });
    }
    if !is_checksum_right {
        return Err(SealFault::Body);
    }
    let tag = match (keys, header.unit) {
        (Some(keys), SealUnit::Batch) => keys.chunk_tag(&header.encode_untagged(), body),
        (Some(keys), SealUnit::Record) => keys.chunk_tag(&header.encode_untagged(), &previous),
        (None, _) if header.algorithm.is_sealed() => return Ok(()),
        (None, _) => unsealed_tag(header),
    };
    if is_same(&tag, &header.tag) {
        Ok(())
    } else {
        Err(SealFault::ChunkTag)
    }
}
