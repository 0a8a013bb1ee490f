//! Chance, repeated by its seed.

use std::hash::{BuildHasher, RandomState};

/// The golden ratio in 64 bits, by which splitmix64 steps.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// splitmix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", 2014).
#[derive(Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// From a seed, or from one that differs from run to run.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        let state = seed.unwrap_or_else(|| RandomState::new().hash_one(0));
        Self { state }
    }

    /// An evenly spread number below `limit`, by its upper bits (Lemire): no division.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.state = self.state.wrapping_add(STEP);
        let word = self.state;
        let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let word = word ^ (word >> 31);
        ((u128::from(word) * limit as u128) >> 64) as usize
    }
}
