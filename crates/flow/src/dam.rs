//! The bounds of a dam: what its reservoir holds, and what its receiver may have outstanding.

use crate::error::ConfigError;

/// The two bounds of a reservoir; both hold at once. A bound in count alone lets a few large messages take all memory. A
/// bound in bytes alone does not see the overhead of many small ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservoirBound {
    /// The most messages in the reservoir.
    pub messages: u64,
    /// The most bytes of all its messages together.
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

    /// Checks that both bounds are at least 1.
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
    /// 1,048,576 messages and 256 MiB: enough for a flood, and a small part of a server's memory.
    fn default() -> Self {
        Self {
            messages: 1 << 20,
            bytes: 256 << 20,
        }
    }
}

/// A window of messages that may be outstanding at once (`Dam::credit(window)`): a message that is sent takes credit, a
/// handled one gives it back. `available + outstanding = window` always holds.
///
/// Follows the credit windows of TCP, of Pony and of RabbitMQ's flow control; this is the arithmetic alone, for one owner.
///
/// ```
/// use freeboard_flow::Credit;
///
/// let mut credit = Credit::new(2);
/// assert!(credit.try_take(2));
/// assert!(!credit.try_take(1));
/// credit.give_back(1);
/// assert_eq!((credit.available(), credit.outstanding()), (1, 1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credit {
    window: u64,
    outstanding: u64,
}

impl Credit {
    /// A window without outstanding messages. A window of 0 lets no message through.
    #[must_use]
    pub const fn new(window: u64) -> Self {
        Self {
            window,
            outstanding: 0,
        }
    }

    /// Takes `messages` of credit, all or nothing.
    #[must_use]
    pub const fn try_take(&mut self, messages: u64) -> bool {
        if messages > self.available() {
            return false;
        }
        self.outstanding += messages;
        assert!(self.outstanding <= self.window, "credit above its window");
        true
    }

    /// Gives `messages` of credit back.
    ///
    /// # Panics
    ///
    /// If more is given back than is outstanding: a message was counted twice.
    pub const fn give_back(&mut self, messages: u64) {
        assert!(
            messages <= self.outstanding,
            "more credit given back than was taken"
        );
        self.outstanding -= messages;
    }

    /// The credit that is left, in messages.
    #[must_use]
    pub const fn available(&self) -> u64 {
        self.window - self.outstanding
    }

    /// The credit that was taken and not given back, in messages.
    #[must_use]
    pub const fn outstanding(&self) -> u64 {
        self.outstanding
    }
}
