//! One run of the scene, fully decided.

use std::ops::RangeInclusive;

use freeboard::stream::{
    BufferSize, SyncMode,
    format::{Algorithm, SealUnit},
};

use crate::figures::count;

/// The smallest costs little to prepare; the largest is the default of a stream.
const SEGMENT_BYTES: RangeInclusive<u64> = 32 << 20..=256 << 20;

/// What the run does.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Streams, each with a thread of its own.
    pub(super) writers: u32,
    /// Bytes of a message.
    pub(super) size: usize,
    /// Of all writers together.
    pub(super) messages: u64,
    pub(super) buffer: BufferSize,
    pub(super) seal: Algorithm,
    pub(super) unit: SealUnit,
    pub(super) sync: SyncMode,
}

impl Plan {
    /// The run in a few words.
    pub(super) fn title(&self) -> String {
        let seal = if self.seal.is_sealed() {
            format!("{} by {}", self.seal, self.unit)
        } else {
            "unsealed".to_owned()
        };
        format!(
            "{} x {} B, {seal}, sync {}",
            self.writers, self.size, self.sync
        )
    }

    pub(super) fn parameters(&self) -> String {
        format!(
            "{}: {} messages, buffer {}",
            self.title(),
            count(self.messages),
            self.buffer
        )
    }

    /// What one writer writes.
    pub(super) fn share(&self, writer: u32) -> u64 {
        let writers = u64::from(self.writers);
        self.messages / writers + u64::from(u64::from(writer) < self.messages % writers)
    }

    /// The bytes of a segment: those of all that a writer writes, within [`SEGMENT_BYTES`], so that
    /// a short run does not prepare half a gigabyte for each writer.
    pub(super) fn segment_bytes(&self) -> u64 {
        let messages = self.bytes_of(self.share(0));
        messages.clamp(*SEGMENT_BYTES.start(), *SEGMENT_BYTES.end())
    }

    /// The bytes on the disk, about: the messages, and two prepared segments for each writer.
    pub(super) fn disk_bytes(&self) -> u64 {
        let prepared = self.segment_bytes() * 2 * u64::from(self.writers);
        self.bytes_of(self.messages).saturating_add(prepared)
    }

    /// The bytes of so many messages, with what encloses them.
    fn bytes_of(&self, messages: u64) -> u64 {
        let tag = self.unit.record_tag_bytes(self.seal);
        let bytes = messages.saturating_mul((self.size + tag + 8) as u64);
        bytes.saturating_add(bytes / 50)
    }
}
