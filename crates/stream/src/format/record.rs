//! A record: its length, its checksum, its bytes and, where sealed by record, its tag.

use std::ops::Range;

use thiserror::Error;

/// The bytes before a record's payload.
pub const RECORD_HEAD_BYTES: usize = 8;

/// The bytes that a record of `payload` bytes takes in a chunk.
#[must_use]
#[inline]
pub const fn record_bytes(payload: usize, tag_bytes: usize) -> usize {
    RECORD_HEAD_BYTES + payload + tag_bytes
}

/// Appends a record to `body`, with `tag_bytes` zeros for its tag, and returns its head.
///
/// The caller keeps the sum over the heads ([`HeadsSum`](super::HeadsSum)).
///
/// # Panics
///
/// If the payload is longer than `u32::MAX` bytes.
#[inline]
pub fn write_record(
    body: &mut Vec<u8>,
    payload: &[u8],
    tag_bytes: usize,
) -> [u8; RECORD_HEAD_BYTES] {
    let begin = body.len();
    body.resize(begin + record_bytes(payload.len(), tag_bytes), 0);
    fill_record(&mut body[begin..], payload)
}

/// Writes a record over all of `slot`, whose rest is the zeros for its tag. Returns its head.
#[inline]
pub(crate) fn fill_record(slot: &mut [u8], payload: &[u8]) -> [u8; RECORD_HEAD_BYTES] {
    let length = u32::try_from(payload.len()).expect("a record is below 4 GiB");
    let checksum = checksum(length, payload);
    let mut head = [0; RECORD_HEAD_BYTES];
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4..].copy_from_slice(&checksum.to_le_bytes());
    slot[..RECORD_HEAD_BYTES].copy_from_slice(&head);
    let (body, tag) = slot[RECORD_HEAD_BYTES..].split_at_mut(payload.len());
    body.copy_from_slice(payload);
    tag.fill(0);
    head
}

/// The checksum of a record. It begins with the length in place of 0, so that one call covers both.
#[inline]
fn checksum(length: u32, payload: &[u8]) -> u32 {
    crc32c::crc32c_append(length, payload)
}

/// Why the next record of a body could not be read. The records after it cannot be found either.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordError {
    /// Its length reaches past the end of the chunk.
    #[error("the record's length reaches past its chunk")]
    Length,
    /// Its checksum does not match.
    #[error("the record's checksum does not match")]
    Checksum,
}

/// Walks the records of a chunk's body.
///
/// Each item is the offset of the record in the body, its payload and its tag. After an error it
/// ends: the length that would lead to the next record cannot be trusted.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    body: &'a [u8],
    offset: usize,
    tag_bytes: usize,
    is_broken: bool,
}

/// A record in a chunk's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordAt<'a> {
    /// The offset of its head in the body.
    pub offset: usize,
    /// The appended bytes.
    pub payload: &'a [u8],
    /// Its tag; empty where the stream is not sealed by record.
    pub tag: &'a [u8],
}

impl RecordAt<'_> {
    /// The range of its payload in the body.
    #[must_use]
    pub fn payload_range(&self) -> Range<usize> {
        let begin = self.offset + RECORD_HEAD_BYTES;
        begin..begin + self.payload.len()
    }
}

impl<'a> Records<'a> {
    /// The records in `body`, each with a tag of `tag_bytes`.
    #[must_use]
    pub fn new(body: &'a [u8], tag_bytes: usize) -> Self {
        Self {
            body,
            offset: 0,
            tag_bytes,
            is_broken: false,
        }
    }

    /// The records from `offset` on, where one begins.
    ///
    /// # Panics
    ///
    /// If `offset` is past the body's end.
    #[must_use]
    pub fn at(body: &'a [u8], tag_bytes: usize, offset: usize) -> Self {
        assert!(offset <= body.len(), "past the body's end");
        Self {
            offset,
            ..Self::new(body, tag_bytes)
        }
    }

    /// The offset of the record that comes next.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    fn read(&self) -> Result<RecordAt<'a>, RecordError> {
        let rest = &self.body[self.offset..];
        let head: [u8; RECORD_HEAD_BYTES] =
            rest.first_chunk().copied().ok_or(RecordError::Length)?;
        let length = super::fields::get_u32(&head, 0);
        let payload_bytes = length as usize;
        let end = RECORD_HEAD_BYTES
            .checked_add(payload_bytes)
            .and_then(|end| end.checked_add(self.tag_bytes))
            .filter(|end| *end <= rest.len())
            .ok_or(RecordError::Length)?;
        let payload = &rest[RECORD_HEAD_BYTES..RECORD_HEAD_BYTES + payload_bytes];
        if checksum(length, payload) != super::fields::get_u32(&head, 4) {
            return Err(RecordError::Checksum);
        }
        Ok(RecordAt {
            offset: self.offset,
            payload,
            tag: &rest[end - self.tag_bytes..end],
        })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<RecordAt<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_broken || self.offset == self.body.len() {
            return None;
        }
        let record = self.read();
        match &record {
            Ok(record) => {
                self.offset += record_bytes(record.payload.len(), self.tag_bytes);
            }
            Err(_) => self.is_broken = true,
        }
        Some(record)
    }
}
