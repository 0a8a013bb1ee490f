//! Chance, repeated by its seed.

use std::hash::{BuildHasher, RandomState};

pub(crate) use freeboard_flow::random::below;

/// The random number of a turn. Who counts turns begins at a seed.
#[inline]
pub(crate) const fn number(turn: u64) -> u64 {
    freeboard_flow::random::number(0, turn)
}

/// A seed that differs from run to run.
pub(crate) fn seed() -> u64 {
    RandomState::new().hash_one(0)
}
