//! Chance, repeated by its seed.

use std::hash::{BuildHasher, RandomState};

/// The golden ratio in 64 bits, by which splitmix64 steps.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The mixer of splitmix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators",
/// 2014), after `turn` steps.
#[inline]
pub(crate) const fn mix(turn: u64) -> u64 {
    let word = turn.wrapping_add(1).wrapping_mul(STEP);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// An evenly spread number brought below `limit`, by its upper bits (Lemire): no division.
#[inline]
pub(crate) fn below(number: u64, limit: usize) -> usize {
    ((u128::from(number) * limit as u128) >> 64) as usize
}

/// A seed that differs from run to run.
pub(crate) fn seed() -> u64 {
    RandomState::new().hash_one(0)
}
