//! How much a reservoir may hold, in count and in bytes.
//!
//! A dam keeps what its receiver cannot take yet. A bound in count alone lets a few large messages
//! take all memory, one in bytes alone lets many small ones pay their overhead unseen; so both hold.

use crate::error::ConfigError;

/// The two bounds of a reservoir; both hold at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservoirBound {
    /// The most messages it holds.
    pub messages: u64,
    /// The most bytes that those messages take together.
    pub bytes: u64,
}

impl ReservoirBound {
    /// Whether a message of `next_bytes` fits into a reservoir of `count` messages and `bytes`.
    #[must_use]
    #[inline]
    pub const fn fits(&self, count: u64, bytes: u64, next_bytes: u64) -> bool {
        let bytes_fit = match bytes.checked_add(next_bytes) {
            Some(sum) => sum <= self.bytes,
            None => false,
        };
        bytes_fit && count < self.messages
    }

    /// Checks that the reservoir can hold anything at all.
    ///
    /// # Errors
    ///
    /// [`ConfigError::ReservoirZero`] names the bound that is 0.
    pub const fn validate(&self) -> Result<(), ConfigError> {
        if self.messages == 0 {
            return Err(ConfigError::ReservoirZero { unit: "messages" });
        }
        if self.bytes == 0 {
            return Err(ConfigError::ReservoirZero { unit: "bytes" });
        }
        Ok(())
    }
}

impl Default for ReservoirBound {
    /// 1,048,576 messages and 256 MiB: a flood's worth, and still a small part of a server's memory.
    fn default() -> Self {
        Self {
            messages: 1 << 20,
            bytes: 256 << 20,
        }
    }
}
