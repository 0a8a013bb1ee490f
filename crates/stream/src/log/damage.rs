//! What recovery found broken, and why it did not cut it off.

use std::fmt;

/// Damage with valid data behind it: cutting it off would lose what was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailDamage {
    /// The segment it is in.
    pub segment: u64,
    /// The offset in that segment's file, in bytes.
    pub offset: u64,
    /// The sequence of the first record that cannot be read.
    pub record: u64,
    /// What is wrong there.
    pub reason: String,
    /// What lies behind it and proves that it is not the remains of a crash.
    pub behind: String,
}

impl fmt::Display for TailDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "segment {} at byte {}, record {}: {}; {}",
            self.segment, self.offset, self.record, self.reason, self.behind
        )
    }
}
