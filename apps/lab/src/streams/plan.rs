//! One run of the scene, fully decided.

use freeboard::stream::{
    BufferSize, SyncMode,
    format::{Algorithm, SealUnit},
};

/// What the run does.
#[derive(Debug, Clone)]
pub(super) struct Plan {
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

    /// What one writer writes.
    pub(super) fn share(&self, writer: u32) -> u64 {
        let writers = u64::from(self.writers);
        self.messages / writers + u64::from(u64::from(writer) < self.messages % writers)
    }

    /// The bytes on the disk, about.
    pub(super) fn disk_bytes(&self) -> u64 {
        let tag = self.unit.record_tag_bytes(self.seal);
        let messages = self.messages.saturating_mul((self.size + tag + 8) as u64);
        messages
            .saturating_add(messages / 50)
            .saturating_add(u64::from(self.writers) << 29)
    }
}
