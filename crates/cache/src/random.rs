//! Chance: of early refreshes, repeated by its seed; and of tokens, which are never repeated.

use std::hash::{BuildHasher, RandomState};

use crate::{
    entry::Token,
    sync::{AtomicU64, Ordering},
};

/// The golden ratio in 64 bits, by which splitmix64 steps.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Evenly spread numbers: splitmix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number
/// Generators", 2014).
#[derive(Debug)]
pub(crate) struct Chance {
    turn: AtomicU64,
}

impl Chance {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(0));
        Self {
            turn: AtomicU64::new(seed),
        }
    }

    /// Above 0, at most 1.
    pub(crate) fn next(&self) -> f64 {
        // Ordering: Relaxed, each caller gets its own number.
        let word = self.turn.fetch_add(STEP, Ordering::Relaxed);
        let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let word = word ^ (word >> 31);
        const STEPS: f64 = (1_u64 << 53) as f64;
        ((word >> 11) + 1) as f64 / STEPS
    }
}

/// Tokens that nobody else has: 64 bits that differ from cache to cache, whatever the seed, and a number.
#[derive(Debug)]
pub(crate) struct Tokens {
    of_cache: u64,
    last: AtomicU64,
}

impl Tokens {
    pub(crate) fn new() -> Self {
        Self {
            of_cache: RandomState::new().hash_one(0),
            last: AtomicU64::new(0),
        }
    }

    pub(crate) fn next(&self) -> Token {
        // Ordering: Relaxed, each caller gets its own number. It begins at 1, so that no token is all 0.
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let both = u128::from(self.of_cache) << 64 | u128::from(number);
        Token(both.to_be_bytes())
    }
}
