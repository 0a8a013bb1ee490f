//! The fencing token of a directory across nodes.
//!
//! Each activation of a key has an epoch that is higher than that of the activation before. Whatever the activation
//! writes carries the epoch, and a target that has seen a higher one refuses the write. So a process that was paused and
//! wakes late changes nothing ("fencing token", Kleppmann; "sequencer" in Chubby).

use std::fmt;

/// The epoch of an activation. Epochs are ordered by generation first, then by revision.
///
/// ```
/// use freeboard_flow::Epoch;
///
/// let epoch = Epoch::new(1, 7);
/// assert!(epoch < Epoch::new(1, 8) && Epoch::new(1, 8) < Epoch::new(2, 1));
/// assert_eq!(Epoch::from_bytes(epoch.to_bytes()), epoch);
/// assert_eq!(epoch.to_string(), "1.7");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch {
    /// Counts the lives of the source of revisions: it is raised when the source has lost its data.
    pub generation: u64,
    /// The revision that the source gave to this activation.
    pub revision: u64,
}

impl Epoch {
    /// The epoch with this generation and revision.
    #[must_use]
    pub const fn new(generation: u64, revision: u64) -> Self {
        Self {
            generation,
            revision,
        }
    }

    /// Generation and revision, both big-endian, so that the bytes have the order of the epochs.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        (((self.generation as u128) << 64) | self.revision as u128).to_be_bytes()
    }

    /// The epoch of these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        let number = u128::from_be_bytes(bytes);
        Self::new((number >> 64) as u64, number as u64)
    }
}

impl fmt::Display for Epoch {
    /// `GENERATION.REVISION`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.generation, self.revision)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_keep_epoch_and_order(a: (u64, u64), b: (u64, u64)) {
            let [a, b] = [a, b].map(|(generation, revision)| Epoch::new(generation, revision));
            prop_assert_eq!(Epoch::from_bytes(a.to_bytes()), a);
            prop_assert_eq!(a.cmp(&b), a.to_bytes().cmp(&b.to_bytes()));
        }
    }
}
