//! Chance, repeated by its seed.

use std::ops::Range;

use freeboard_flow::random;

#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(random::STEP);
        random::mix(self.0)
    }

    pub(crate) fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    /// One in so many.
    pub(crate) fn one_in(&mut self, many: u64) -> bool {
        self.next().is_multiple_of(many)
    }

    pub(crate) fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.within(0..choices.len() as u64) as usize]
    }

    /// A number from 1 to `limit`, as often below ten as above a tenth of the limit.
    pub(crate) fn by_magnitude(&mut self, limit: u64) -> u64 {
        let bits = self.within(1..u64::from(limit.ilog2()) + 2);
        self.within(1..(1 << bits)).min(limit)
    }
}
