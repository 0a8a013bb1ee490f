//! Evenly spread numbers: splitmix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number
//! Generators", 2014).
//!
//! The same seed gives the same numbers, in every version: which member of a group has which key hangs
//! on them. Where a seed comes from is the caller's business.
//!
//! ```
//! use freeboard_flow::random;
//!
//! let picks: Vec<_> = (0..4).map(|turn| random::below(random::number(7, turn), 10)).collect();
//! assert_eq!(picks, [3, 0, 9, 5]);
//! ```

/// By how much the state grows from number to number: the golden ratio in 64 bits.
pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes a state into a number: one-to-one, and each bit of the number hangs on each bit of the state.
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

/// An evenly spread number brought below `limit`, by its upper bits (Lemire): no division. 0 for a limit
/// of 0.
#[inline]
#[must_use]
pub const fn below(number: u64, limit: usize) -> usize {
    ((number as u128 * limit as u128) >> 64) as usize
}
