//! The keyed hashes behind the tags.

use hmac::{Hmac, KeyInit, Mac as _};
use sha2::{Sha256, Sha512};

use crate::format::{Algorithm, TAG_BYTES, Tag};

/// A keyed hash, ready to be used any number of times.
///
/// The HMAC variants hold the hash states behind the padded key, so that a tag does not pay for
/// them again; RustCrypto's types zeroise them when dropped. BLAKE3's key is zeroised by its owner.
#[derive(Clone)]
pub(super) enum Mac {
    HmacSha256(Box<Hmac<Sha256>>),
    HmacSha512(Box<Hmac<Sha512>>),
    Blake3(Box<blake3::Hasher>),
}

impl Mac {
    /// # Panics
    ///
    /// If the algorithm has no keys.
    pub(super) fn new(algorithm: Algorithm, key: &[u8; 32]) -> Self {
        const ANY: &str = "HMAC takes keys of any length";
        match algorithm {
            Algorithm::None => panic!("an unsealed stream has no keys"),
            Algorithm::HmacSha256 => {
                Self::HmacSha256(Box::new(Hmac::new_from_slice(key).expect(ANY)))
            }
            Algorithm::HmacSha512 => {
                Self::HmacSha512(Box::new(Hmac::new_from_slice(key).expect(ANY)))
            }
            Algorithm::Blake3 => Self::Blake3(Box::new(blake3::Hasher::new_keyed(key))),
        }
    }

    /// The tag of the parts, one behind the other, followed by zeros.
    #[inline]
    pub(super) fn tag(&self, parts: &[&[u8]]) -> Tag {
        let mut tag = [0; TAG_BYTES];
        match self {
            Self::HmacSha256(mac) => {
                let mut mac = mac.as_ref().clone();
                parts.iter().for_each(|part| mac.update(part));
                tag[..32].copy_from_slice(&mac.finalize().into_bytes());
            }
            Self::HmacSha512(mac) => {
                let mut mac = mac.as_ref().clone();
                parts.iter().for_each(|part| mac.update(part));
                tag.copy_from_slice(&mac.finalize().into_bytes());
            }
            Self::Blake3(hasher) => {
                let mut hasher = hasher.as_ref().clone();
                parts.iter().for_each(|part| {
                    hasher.update(part);
                });
                tag[..32].copy_from_slice(hasher.finalize().as_bytes());
            }
        }
        tag
    }
}

impl Drop for Mac {
    fn drop(&mut self) {
        use zeroize::Zeroize;
        if let Self::Blake3(hasher) = self {
            hasher.zeroize();
        }
    }
}
