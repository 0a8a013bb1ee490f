//! Chance: of early refreshes, repeated by its seed; and of tokens, which are never repeated.

use std::hash::{BuildHasher, RandomState};

use freeboard_flow::random;

use crate::{
    entry::Token,
    sync::{AtomicU64, Ordering},
};

/// Evenly spread numbers.
#[derive(Debug)]
pub(crate) struct Chance {
    state: AtomicU64,
}

impl Chance {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(0));
        Self {
            state: AtomicU64::new(seed),
        }
    }

    /// Above 0, at most 1.
    pub(crate) fn next(&self) -> f64 {
        // Ordering: Relaxed, each caller gets its own number.
        let state = self.state.fetch_add(random::STEP, Ordering::Relaxed);
        const STEPS: f64 = (1_u64 << 53) as f64;
        ((random::mix(state) >> 11) + 1) as f64 / STEPS
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
