//! The keyed hashes behind the tags.

use hmac::{HmacReset, KeyInit, Mac as _};
use ripemd::Ripemd160;
use sha2::{Sha256, Sha512};
use zeroize::Zeroizing;

use crate::format::{Algorithm, TAG_BYTES, Tag};

/// Inputs up to this length are put into one piece for BLAKE3, whose streaming state is larger than
/// they are.
const SHORT_BYTES: usize = 1_024;

/// A keyed hash. All that it holds is zeroised when it is dropped.
#[derive(Clone)]
pub(super) enum Mac {
    HmacSha256(Box<HmacReset<Sha256>>),
    HmacSha512(Box<HmacReset<Sha512>>),
    HmacRipemd160(Box<HmacReset<Ripemd160>>),
    Blake3 {
        key: Zeroizing<[u8; 32]>,
        short: Vec<u8>,
    },
}

impl Mac {
    /// # Panics
    ///
    /// If the algorithm has no keys.
    pub(super) fn new(algorithm: Algorithm, key: &Zeroizing<[u8; 32]>) -> Self {
        const ANY: &str = "HMAC takes keys of any length";
        match algorithm {
            Algorithm::None => panic!("an unsealed stream has no keys"),
            Algorithm::HmacSha256 => {
                let mac = HmacReset::new_from_slice(key.as_slice()).expect(ANY);
                Self::HmacSha256(Box::new(mac))
            }
            Algorithm::HmacSha512 => {
                let mac = HmacReset::new_from_slice(key.as_slice()).expect(ANY);
                Self::HmacSha512(Box::new(mac))
            }
            Algorithm::HmacRipemd160 => {
                let mac = HmacReset::new_from_slice(key.as_slice()).expect(ANY);
                Self::HmacRipemd160(Box::new(mac))
            }
            Algorithm::Blake3 => Self::Blake3 {
                key: key.clone(),
                short: Vec::new(),
            },
        }
    }

    /// The tag of the two parts, one behind the other, followed by zeros. Afterwards it is as it was:
    /// to begin anew costs less than a copy.
    #[inline]
    pub(super) fn tag(&mut self, front: &[u8], rest: &[u8]) -> Tag {
        let mut tag = [0; TAG_BYTES];
        match self {
            Self::HmacSha256(mac) => {
                mac.update(front);
                mac.update(rest);
                tag[..32].copy_from_slice(&mac.finalize_reset().into_bytes());
            }
            Self::HmacSha512(mac) => {
                mac.update(front);
                mac.update(rest);
                tag.copy_from_slice(&mac.finalize_reset().into_bytes());
            }
            Self::HmacRipemd160(mac) => {
                mac.update(front);
                mac.update(rest);
                tag[..20].copy_from_slice(&mac.finalize_reset().into_bytes());
            }
            Self::Blake3 { key, short } => {
                let hash = if front.len() + rest.len() <= SHORT_BYTES {
                    short.clear();
                    short.extend_from_slice(front);
                    short.extend_from_slice(rest);
                    blake3::keyed_hash(key, short)
                } else {
                    use zeroize::Zeroize;
                    let mut hasher = blake3::Hasher::new_keyed(key);
                    hasher.update(front).update(rest);
                    let hash = hasher.finalize();
                    hasher.zeroize();
                    hash
                };
                tag[..32].copy_from_slice(hash.as_bytes());
            }
        }
        tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first vectors of RFC 4231 and RFC 2286. HMAC fills short keys with zeros, so their 20 bytes are a key of 32.
    #[test]
    fn tags_are_those_of_the_standards() {
        let mut key = Zeroizing::new([0; 32]);
        key[..20].fill(0x0b);
        for (algorithm, expected) in [
            (
                Algorithm::HmacSha256,
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                Algorithm::HmacRipemd160,
                "24cb4bd67d20fc1a5d2ed7732dcc39377f0a5668",
            ),
        ] {
            let mut mac = Mac::new(algorithm, &key);
            // Twice: a tag leaves nothing behind.
            for _ in 0..2 {
                let tag = mac.tag(b"Hi ", b"There");
                let (tag, rest) = tag.split_at(algorithm.tag_bytes());
                let text: String = tag.iter().map(|byte| format!("{byte:02x}")).collect();
                assert_eq!(text, expected);
                assert!(rest.iter().all(|byte| *byte == 0));
            }
        }
    }
}
