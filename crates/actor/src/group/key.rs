//! From a key, or a turn, to a number: pure functions whose values never change, since which member
//! has which key hangs on them.

/// The golden ratio in 64 bits, by which splitmix64 steps.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The mixer of splitmix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators",
/// 2014): one-to-one, and each bit of the outcome hangs on each bit that goes in.
#[inline]
const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The key eight bytes at a time, little-endian, the last ones filled up with zeros; before them its
/// length, so that a key and the same key with a zero behind it differ.
#[inline]
pub(super) fn hash(key: &[u8]) -> u64 {
    let (words, rest) = key.as_chunks::<8>();
    let length = mix(STEP.wrapping_add(key.len() as u64));
    let hash = words
        .iter()
        .fold(length, |hash, word| mix(hash ^ u64::from_le_bytes(*word)));
    if rest.is_empty() {
        return hash;
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(hash ^ u64::from_le_bytes(last))
}

/// The first `bytes` bytes as a big-endian number; a shorter key is taken whole.
#[inline]
pub(super) fn leading_number(key: &[u8], bytes: usize) -> u64 {
    key.iter()
        .take(bytes)
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Number `turn` of the splitmix64 sequence that starts at `seed`.
#[inline]
pub(super) fn random(seed: u64, turn: u64) -> u64 {
    mix(seed.wrapping_add(turn.wrapping_add(1).wrapping_mul(STEP)))
}

/// An evenly spread number brought below `limit`, by its upper bits (Lemire): no division.
#[inline]
pub(super) fn below(number: u64, limit: usize) -> usize {
    ((u128::from(number) * limit as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by another program from the description alone.
    #[test]
    fn hashes_are_what_they_always_were() {
        for (key, hash_of_it) in [
            ("", 0xe220_a839_7b1d_cdaf),
            ("a", 0x3e50_6e57_9633_5af0),
            ("a\0", 0x6cf2_cc48_ea22_fad8),
            ("app-0042", 0x97a8_88dc_eb5a_8e00),
            ("a key of more than sixteen bytes", 0xc611_b418_950e_74e2),
        ] {
            assert_eq!(hash(key.as_bytes()), hash_of_it, "{key:?}");
        }
    }

    /// The first outputs of the reference splitmix64 from seed 1234567.
    #[test]
    fn random_numbers_are_those_of_splitmix64() {
        let numbers: [u64; 3] = std::array::from_fn(|turn| random(1_234_567, turn as u64));
        assert_eq!(
            numbers,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn leading_bytes_are_a_big_endian_number() {
        assert_eq!(leading_number(b"abc", 2), 0x6162);
        assert_eq!(leading_number(b"a", 2), 0x61);
        assert_eq!(leading_number(b"", 8), 0);
        assert_eq!(leading_number(&[0xff; 9], 8), u64::MAX);
    }

    #[test]
    fn brought_below_a_limit_it_stays_below() {
        for limit in [1, 2, 3, 1_000] {
            assert_eq!(below(0, limit), 0);
            assert_eq!(below(u64::MAX, limit), limit - 1);
        }
    }
}
