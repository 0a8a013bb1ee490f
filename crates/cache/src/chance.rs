//! Random early refreshes, and unique tokens.
//!
//! A value is refreshed early with a probability that grows towards its end, and with the cost of its fetch:
//! XFetch of Vattani, Chierichetti, Lowenstein, "Optimal Probabilistic Cache Stampede Prevention" (VLDB 2015). Of
//! many callers, one is likely to refresh shortly before the value becomes stale, without coordination.

use std::hash::{BuildHasher, RandomState};

use freeboard_flow::random;

use crate::{
    entry::Token,
    sync::{AtomicU64, Ordering},
};

/// Uniform random numbers.
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

    /// In (0, 1].
    pub(crate) fn next(&self) -> f64 {
        // Ordering: Relaxed, each caller gets its own number.
        let state = self.state.fetch_add(random::STEP, Ordering::Relaxed);
        const STEPS: f64 = (1_u64 << 53) as f64;
        ((random::mix(state) >> 11) + 1) as f64 / STEPS
    }
}

/// Unique tokens: 64 random bits of the cache, whatever its seed, and a number.
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
        // Ordering: Relaxed, each caller gets its own number. It begins at 1, so that no token is all zeros.
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let both = u128::from(self.of_cache) << 64 | u128::from(number);
        Token(both.to_be_bytes())
    }
}

/// Whether to refresh a value now that is fresh until `fresh_until_ms`. `chance` is uniform in (0, 1]. A `beta`
/// above 1 refreshes earlier, 0 never.
pub(crate) fn is_refresh_due(
    now_ms: u64,
    fresh_until_ms: u64,
    cost_ms: u32,
    beta: f64,
    chance: f64,
) -> bool {
    let ahead_ms = f64::from(cost_ms) * beta * -chance.ln();
    ahead_ms > 0.0 && now_ms as f64 + ahead_ms >= fresh_until_ms as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearer_the_end_the_likelier() {
        // The expected probability is exp(-distance / cost).
        let share = |distance_ms: u64, cost_ms, beta| {
            let steps = 1_000;
            let chances = (1..=steps).map(|step| f64::from(step) / f64::from(steps));
            let due =
                chances.filter(|chance| is_refresh_due(0, distance_ms, cost_ms, beta, *chance));
            due.count()
        };
        assert_eq!(share(100, 100, 1.0), 367);
        assert_eq!(share(300, 100, 1.0), 49);
        assert_eq!(share(300, 100, 3.0), 367);
        assert_eq!(share(1, 100, 0.0), 0);
        assert_eq!(share(1, 0, 1.0), 0, "what costs nothing needs no refresh");
        assert_eq!(share(60_000, 100, 1.0), 0);
    }
}
