//! Random numbers of a run. Each purpose has a sequence of its own, so that a change of one leaves the others as they are.

use std::{ops::RangeInclusive, time::Duration};

use freeboard_flow::random;

/// A sequence of random numbers, given by a seed and a purpose.
#[derive(Clone, Debug)]
pub struct Random {
    seed: u64,
    turn: u64,
}

impl Random {
    /// The sequence of this seed for this purpose.
    #[must_use]
    pub fn new(seed: u64, purpose: &str) -> Self {
        let mixed = purpose.bytes().fold(seed, |mixed, byte| {
            random::mix(mixed ^ u64::from(byte)).wrapping_add(random::STEP)
        });
        Self {
            seed: mixed,
            turn: 0,
        }
    }

    /// The next number, of all 64 bits.
    pub fn number(&mut self) -> u64 {
        self.turn += 1;
        random::number(self.seed, self.turn - 1)
    }

    /// A number below `limit`; 0 for a limit of 0.
    pub fn below(&mut self, limit: usize) -> usize {
        random::below(self.number(), limit)
    }

    /// A number of a range.
    ///
    /// # Panics
    /// If the range is empty.
    #[track_caller]
    pub fn within(&mut self, range: RangeInclusive<usize>) -> usize {
        let (first, last) = range.into_inner();
        assert!(first <= last, "the range {first}..={last} is empty");
        first + self.below((last - first).saturating_add(1))
    }

    /// A time up to `most`.
    pub fn time(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.below(1 << 20) as f64 / f64::from(1 << 20))
    }

    /// True once in `times` draws.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of the elements.
    ///
    /// # Panics
    /// If there is none.
    pub fn choose<'a, T>(&mut self, elements: &'a [T]) -> &'a T {
        &elements[self.below(elements.len())]
    }
}
