//! The sum that binds a chunk's header to its records.

use super::{RECORD_HEAD_BYTES, fields::get_u64};

/// An odd number without a pattern (2^64 over the golden ratio), congruent to 5 modulo 8, so that its
/// powers stay apart.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The sum over the heads and tags of a chunk's records, kept while the records are appended.
///
/// `sum = (sum + word) * 0x9e3779b97f4a7c15` modulo 2^64, over each record's head, turned so that
/// its checksum is the low half, and then the words of its tag. A changed word always changes it, and
/// so do two exchanged records of different checksums. It costs a multiplication where a CRC would
/// cost a call, and two sums can be joined. The payloads are covered by the checksums it sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeadsSum(u64);

impl HeadsSum {
    /// Adds a record.
    #[inline]
    pub fn add(&mut self, head: [u8; RECORD_HEAD_BYTES], tag: &[u8]) {
        self.word(u64::from_le_bytes(head).rotate_left(32));
        tag.chunks_exact(8)
            .for_each(|word| self.word(get_u64(word, 0)));
    }

    #[inline]
    fn word(&mut self, word: u64) {
        self.0 = self.0.wrapping_add(word).wrapping_mul(FACTOR);
    }

    /// The sum over its own records followed by `records` untagged ones, whose sum is `other`.
    #[must_use]
    pub fn join(self, other: Self, records: u32) -> Self {
        Self(
            self.0
                .wrapping_mul(FACTOR.wrapping_pow(records))
                .wrapping_add(other.0),
        )
    }

    /// The sum that a header has.
    pub(super) fn of_value(value: u64) -> Self {
        Self(value)
    }

    /// The sum, as the header has it.
    #[must_use]
    pub fn value(self) -> u64 {
        self.0
    }
}
