//! Chance, repeated by its seed.

use freeboard_flow::random;

/// A word of state, and no seed is a bad one.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(random::STEP);
        random::mix(self.0)
    }

    /// A number below `limit`, which is above zero.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        // The remainder's bias does not matter to a test.
        self.next() % limit
    }

    pub(super) fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    pub(super) fn chance_per_million(&mut self, chance: u32) -> bool {
        self.below(1_000_000) < u64::from(chance)
    }

    /// Which of `count` things happened when not all of them need to have: none, all, those up to
    /// some point, or each by itself. Pure coins would almost never give the first three, which are
    /// what real disks do most.
    pub(super) fn subset(&mut self, count: usize) -> Vec<bool> {
        let length = count as u64;
        match self.below(4) {
            0 => vec![false; count],
            1 => vec![true; count],
            2 => {
                let end = self.below(length + 1);
                (0..length).map(|index| index < end).collect()
            }
            _ => (0..count).map(|_| self.coin()).collect(),
        }
    }
}
