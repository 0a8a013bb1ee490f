//! Chance, repeated by its seed.

use std::hash::{BuildHasher, RandomState};

use freeboard_flow::random;

/// A sequence of numbers.
#[derive(Debug)]
pub(crate) struct Random {
    seed: u64,
    turn: u64,
}

impl Random {
    /// From a seed, or from one that differs from run to run.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(0));
        Self { seed, turn: 0 }
    }

    /// An evenly spread number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        let number = random::number(self.seed, self.turn);
        self.turn += 1;
        random::below(number, limit)
    }
}
