//! The format of an entry in Redis: one string, a header followed by the value.
//!
//! ```text
//!   byte  0   0xFB                           magic
//!         1   1                              format version
//!         2   0 nothing, 1 value, 2 negative
//!         3   1 if callers wait              then a fill is published
//!         4   duration of the fetch          ms, 4 bytes
//!         8   fresh until                    ms since 1970 by the server's clock, 8 bytes; so the next three
//!        16   kept until                     stale from `fresh until` on
//!        24   lease until                    the holder may fill until then
//!        32   rate until                     no other lease is given until then
//!        40   token                          16 bytes; all 0: no lease
//!        56   the value
//! ```
//!
//! Numbers are big-endian, as Redis' Lua packs them. Value and lease are in one string, not under two keys: one GET
//! also tells whether a caller refreshes, and both change and expire together. The cost is 56 bytes. A hash would
//! need seven fields to name and parse for each read.

use bytes::{BufMut, Bytes, BytesMut};

/// Length of the header.
pub const HEADER_BYTES: usize = 56;
/// Length of a token.
pub const TOKEN_BYTES: usize = 16;

const MAGIC: u8 = 0xfb;
const VERSION: u8 = 1;
/// Lua's numbers are exact up to here. All times are earlier.
pub(crate) const TIME_END_MS: u64 = 1 << 53;

/// Identifies the holder of a lease. All zeros means no holder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Token(pub [u8; TOKEN_BYTES]);

impl Token {
    /// Whether there is no holder.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// The knowledge about a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: there is only a lease, or its rate limit.
    #[default]
    Nothing,
    /// There is a value.
    Value,
    /// There is no value.
    Negative,
}

impl Kind {
    pub(crate) const fn byte(self) -> u8 {
        match self {
            Self::Nothing => 0,
            Self::Value => 1,
            Self::Negative => 2,
        }
    }

    pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Nothing),
            1 => Some(Self::Value),
            2 => Some(Self::Negative),
            _ => None,
        }
    }
}

/// An entry. All times are by the server's clock, in ms since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The knowledge about the key.
    pub kind: Kind,
    /// Whether callers wait for a notification.
    pub is_awaited: bool,
    /// Duration of the fetch, in ms.
    pub cost_ms: u32,
    /// End of freshness.
    pub fresh_until_ms: u64,
    /// End of use; stale from `fresh_until_ms` on.
    pub keep_until_ms: u64,
    /// End of the lease.
    pub lease_until_ms: u64,
    /// End of the rate limit: no other lease is granted before.
    pub rate_until_ms: u64,
    /// The token of the lease.
    pub token: Token,
    /// Empty unless `kind` is a value.
    pub value: Bytes,
}

impl Entry {
    /// Decodes an entry; `None` if the bytes are not one.
    #[must_use]
    pub fn decode(raw: &Bytes) -> Option<Self> {
        let (header, _) = raw.split_first_chunk::<HEADER_BYTES>()?;
        if header[..2] != [MAGIC, VERSION] || header[3] > 1 {
            return None;
        }
        let time = |at: usize| {
            let bytes = header[at..].first_chunk().copied()?;
            Some(u64::from_be_bytes(bytes)).filter(|time| *time < TIME_END_MS)
        };
        Some(Self {
            kind: Kind::from_byte(header[2])?,
            is_awaited: header[3] == 1,
            cost_ms: u32::from_be_bytes(header[4..].first_chunk().copied()?),
            fresh_until_ms: time(8)?,
            keep_until_ms: time(16)?,
            lease_until_ms: time(24)?,
            rate_until_ms: time(32)?,
            token: Token(header[40..].first_chunk().copied()?),
            value: raw.slice(HEADER_BYTES..),
        })
    }

    /// Encodes it for Redis.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut raw = BytesMut::with_capacity(HEADER_BYTES + self.value.len());
        let awaited = u8::from(self.is_awaited);
        raw.put_slice(&[MAGIC, VERSION, self.kind.byte(), awaited]);
        raw.put_u32(self.cost_ms);
        raw.put_u64(self.fresh_until_ms);
        raw.put_u64(self.keep_until_ms);
        raw.put_u64(self.lease_until_ms);
        raw.put_u64(self.rate_until_ms);
        raw.put_slice(&self.token.0);
        raw.put_slice(&self.value);
        raw.freeze()
    }

    /// Whether its content may be used.
    #[must_use]
    pub fn is_usable(&self, now_ms: u64) -> bool {
        self.kind != Kind::Nothing && now_ms < self.keep_until_ms
    }

    /// Whether its content is fresh.
    #[must_use]
    pub fn is_fresh(&self, now_ms: u64) -> bool {
        self.is_usable(now_ms) && now_ms < self.fresh_until_ms
    }

    /// Whether no lease is available, because of a holder or the rate limit.
    #[must_use]
    pub fn is_closed(&self, now_ms: u64) -> bool {
        now_ms < self.lease_until_ms.max(self.rate_until_ms)
    }
}
