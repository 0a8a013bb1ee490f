//! Chance, repeated by its seed.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014): a word
/// of state, and no seed is a bad one.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
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
