//! The keys of a segment, and their derivation from those of the segment before.

use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

use super::{key::MasterKey, mac::Mac};
use crate::format::{Algorithm, StreamId, Tag};

const NEXT: &[u8] = b"freeboard-stream 1 ratchet";
const CHUNK: &[u8] = b"freeboard-stream 1 chunk";
const RECORD: &[u8] = b"freeboard-stream 1 record";
const CHECK: &[u8] = b"freeboard-stream 1 key check";

/// The secret of one segment. Its keys and the next segment's secret are derived from it, and no earlier secret.
#[derive(Clone)]
pub struct Ratchet {
    secret: Zeroizing<[u8; 32]>,
    algorithm: Algorithm,
    number: u64,
}

impl Ratchet {
    /// The ratchet of a stream's segment `number`. Takes a microsecond a segment.
    ///
    /// # Panics
    ///
    /// If the algorithm is [`Algorithm::None`], or `number` is 0.
    #[must_use]
    pub fn at(key: &MasterKey, algorithm: Algorithm, stream: StreamId, number: u64) -> Self {
        assert!(algorithm.is_sealed(), "an unsealed stream has no keys");
        assert!(number > 0, "segments count from 1");
        let root = Hkdf::<Sha256>::new(Some(&stream.0), key.bytes());
        let mut ratchet = Self {
            secret: expand(&root, &[NEXT]),
            algorithm,
            number: 1,
        };
        ratchet.advance_to(number);
        ratchet
    }

    fn advance_to(&mut self, number: u64) {
        while self.number < number {
            self.advance();
        }
    }

    /// Goes on to the next segment, and zeroises the secret of this one.
    pub fn advance(&mut self) {
        let secret = expand(&self.here(), &[NEXT]);
        self.secret = secret;
        self.number += 1;
    }

    /// The segment whose keys it gives.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The keys of its segment.
    #[must_use]
    pub fn keys(&self) -> SegmentKeys {
        let here = self.here();
        let number = self.number.to_le_bytes();
        let code = [self.algorithm.code()];
        let key = |purpose| expand(&here, &[purpose, &code, &number]);
        let check = Mac::new(self.algorithm, &key(CHECK)).tag(CHECK, &[]);
        SegmentKeys {
            chunk: Mac::new(self.algorithm, &key(CHUNK)),
            record: Mac::new(self.algorithm, &key(RECORD)),
            check: *check.first_chunk().expect("a tag has 64 bytes"),
        }
    }

    fn here(&self) -> Hkdf<Sha256> {
        Hkdf::from_prk(self.secret.as_slice()).expect("32 bytes are a pseudorandom key")
    }
}

/// The keys of segment `number`. `ratchet` keeps the last state, so a later segment takes only the steps between.
pub(crate) fn keys_at(
    ratchet: &mut Option<Ratchet>,
    key: &MasterKey,
    algorithm: Algorithm,
    stream: StreamId,
    number: u64,
) -> SegmentKeys {
    ratchet.take_if(|it| it.number > number);
    let ratchet = ratchet.get_or_insert_with(|| Ratchet::at(key, algorithm, stream, number));
    ratchet.advance_to(number);
    ratchet.keys()
}

/// The source of the keys of a stream's segments.
#[derive(Clone, Copy)]
pub(crate) enum Secret<'a> {
    /// For all of them.
    Master(&'a MasterKey),
    /// The state that a running writer has kept, for this segment and the later ones.
    Kept(&'a Ratchet),
}

impl Secret<'_> {
    /// The ratchet of segment `number`; `None` if that is before the kept one.
    pub(crate) fn at(self, algorithm: Algorithm, stream: StreamId, number: u64) -> Option<Ratchet> {
        match self {
            Self::Master(key) => Some(Ratchet::at(key, algorithm, stream, number)),
            Self::Kept(kept) => {
                let mut ratchet = (kept.number <= number).then(|| kept.clone())?;
                ratchet.advance_to(number);
                Some(ratchet)
            }
        }
    }
}

/// The keys with which one segment is sealed.
pub struct SegmentKeys {
    chunk: Mac,
    record: Mac,
    check: [u8; 32],
}

impl SegmentKeys {
    /// The key check of the segment's header. A reader's key is compared with it.
    #[must_use]
    pub fn key_check(&self) -> [u8; 32] {
        self.check
    }

    /// The tag of a header and of the bytes that it covers.
    pub(super) fn chunk_tag(&self, header: &[u8], rest: &[u8]) -> Tag {
        self.chunk.clone().tag(header, rest)
    }

    /// The MAC of the records of one chunk.
    pub(super) fn record_mac(&self) -> Mac {
        self.record.clone()
    }
}

fn expand(from: &Hkdf<Sha256>, info: &[&[u8]]) -> Zeroizing<[u8; 32]> {
    let mut secret = Zeroizing::new([0; 32]);
    from.expand_multi_info(info, secret.as_mut_slice())
        .expect("32 bytes are one block of SHA-256");
    secret
}

impl std::fmt::Debug for Ratchet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Ratchet").field(&self.number).finish()
    }
}
