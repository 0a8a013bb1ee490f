//! Failures on demand.

use std::num::NonZeroU64;

use fastrand::Rng;

/// Which fetches fail, in the order in which they end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Failures {
    /// None.
    #[default]
    None,
    /// Each n-th: all of them with 1.
    Each(NonZeroU64),
    /// By chance, the same ones for the same seed.
    Chance {
        /// So many of a million, on average.
        per_million: u32,
        /// What the chance begins with.
        seed: u64,
    },
}

/// Decides it for one fetch after the other.
pub(super) struct FailurePlan {
    failures: Failures,
    count: u64,
    random: Rng,
}

impl FailurePlan {
    pub(super) fn new(failures: Failures) -> Self {
        let seed = match failures {
            Failures::Chance { seed, .. } => seed,
            Failures::None | Failures::Each(_) => 0,
        };
        Self {
            failures,
            count: 0,
            random: Rng::with_seed(seed),
        }
    }

    pub(super) fn next_fails(&mut self) -> bool {
        self.count += 1;
        match self.failures {
            Failures::None => false,
            Failures::Each(number) => self.count.is_multiple_of(number.get()),
            Failures::Chance { per_million, .. } => self.random.u32(..1_000_000) < per_million,
        }
    }
}
