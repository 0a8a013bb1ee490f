//! Evenly spread numbers: splitmix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number
//! Generators", 2014).
//!
//! The same seed gives the same numbers in every version: the assignment of keys to group members depends on it. The
//! caller provides the seed.
//!
//! ```
//! use freeboard_flow::random;
//!
//! let picks: Vec<_> = (0..4).map(|turn| random::below(random::number(7, turn), 10)).collect();
//! assert_eq!(picks, [3, 0, 9, 5]);
//! ```

/// The increment of the state from number to number: the golden ratio in 64 bits.
pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes a state into a number, one-to-one: each bit of the number depends on each bit of the state.
#[inline]
#[must_use]
pub const fn mix(state: u64) -> u64 {
    let word = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Number `turn`, from 0, of the sequence that starts at `seed`.
#[inline]
#[must_use]
pub const fn number(seed: u64, turn: u64) -> u64 {
    mix(seed.wrapping_add(turn.wrapping_add(1).wrapping_mul(STEP)))
}

/// Maps an evenly spread number below `limit` by its upper bits, without a division (Lemire). 0 for a limit of 0.
#[inline]
#[must_use]
pub const fn below(number: u64, limit: usize) -> usize {
    ((number as u128 * limit as u128) >> 64) as usize
}
