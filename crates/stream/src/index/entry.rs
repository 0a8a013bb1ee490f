//! One line of an index.

use crate::format::{ChunkHeader, StreamId};

/// The bytes of an entry.
pub(super) const ENTRY_BYTES: usize = 32;

/// Where a chunk is said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    pub(crate) chunk: u64,
    pub(crate) first_record: u64,
    pub(crate) time_ns: u64,
    pub(crate) offset: u64,
}

impl IndexEntry {
    pub(super) fn new(header: &ChunkHeader, offset: u64) -> Self {
        Self {
            chunk: header.sequence,
            first_record: header.first_record,
            time_ns: header.time_ns,
            offset,
        }
    }

    /// Whether the chunk at its offset is the one it says.
    pub(crate) fn agrees(&self, stream: StreamId, header: &ChunkHeader) -> bool {
        header.stream == stream && *self == Self::new(header, self.offset)
    }

    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        for field in [self.chunk, self.first_record, self.time_ns, self.offset] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
    }

    pub(super) fn decode(bytes: &[u8; ENTRY_BYTES]) -> Self {
        let field = |at: usize| {
            let field = bytes[at..at + 8].first_chunk().expect("8 bytes");
            u64::from_le_bytes(*field)
        };
        Self {
            chunk: field(0),
            first_record: field(8),
            time_ns: field(16),
            offset: field(24),
        }
    }
}
