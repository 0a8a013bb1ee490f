//! From a key to a number: pure functions whose values never change, since which member has which key
//! hangs on them.

use freeboard_flow::random::{STEP, mix};

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

    #[test]
    fn leading_bytes_are_a_big_endian_number() {
        assert_eq!(leading_number(b"abc", 2), 0x6162);
        assert_eq!(leading_number(b"a", 2), 0x61);
        assert_eq!(leading_number(b"", 8), 0);
        assert_eq!(leading_number(&[0xff; 9], 8), u64::MAX);
    }
}
