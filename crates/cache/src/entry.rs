//! What stands in Redis under a key: one string, a header and the value behind it.
//!
//! ```text
//!   byte  0   0xFB                           whose it is
//!         1   1                              the version of this format
//!         2   0 nothing, 1 value, 2 negative
//!         3   1 if somebody waits            then a fill is published
//!         4   what the fetch took            ms, 4 bytes
//!         8   fresh until                    ms since 1970 by the server's clock, 8 bytes; so the next three
//!        16   kept until                     stale from `fresh until` on
//!        24   lease until                    the holder may fill until then
//!        32   rate until                     no other lease is given until then
//!        40   token                          16 bytes; all 0: no lease
//!        56   the value
//! ```
//!
//! Numbers are big-endian, as Redis' Lua packs them. One string, not a value beside a lease under another
//! key: a look-up is one GET that also says whether somebody refreshes, and both go in one step and expire as
//! one. The 56 bytes are the price. It is no hash, as that would be seven fields to name and parse for each
//! look-up.

use bytes::{BufMut, Bytes, BytesMut};

/// The bytes before the value.
pub const HEADER_BYTES: usize = 56;
/// The bytes of a token.
pub const TOKEN_BYTES: usize = 16;

const MAGIC: u8 = 0xfb;
const VERSION: u8 = 1;
/// Lua's numbers are exact up to here; no time of ours is later.
pub(crate) const TIME_END_MS: u64 = 1 << 53;

/// Who may fill an entry. All zero stands for nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Token(pub [u8; TOKEN_BYTES]);

impl Token {
    /// Whether it is nobody's.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// What an entry says of its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: there is only a lease, or its rate limit.
    #[default]
    Nothing,
    /// That there is a value.
    Value,
    /// That there is none.
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
    /// What it says.
    pub kind: Kind,
    /// Whether somebody waits to be notified.
    pub is_awaited: bool,
    /// What the fetch took, in ms.
    pub cost_ms: u32,
    /// What it says is fresh until then.
    pub fresh_until_ms: u64,
    /// What it says may be used until then.
    pub keep_until_ms: u64,
    /// The lease ends then.
    pub lease_until_ms: u64,
    /// No other lease is given until then.
    pub rate_until_ms: u64,
    /// Of the lease.
    pub token: Token,
    /// Empty unless `kind` is a value.
    pub value: Bytes,
}

impl Entry {
    /// Reads an entry; `None` if these bytes are not ours.
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

    /// As it stands in Redis.
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

    /// Whether what it says may be used.
    #[must_use]
    pub fn is_usable(&self, now_ms: u64) -> bool {
        self.kind != Kind::Nothing && now_ms < self.keep_until_ms
    }

    /// Whether what it says is fresh.
    #[must_use]
    pub fn is_fresh(&self, now_ms: u64) -> bool {
        self.is_usable(now_ms) && now_ms < self.fresh_until_ms
    }

    /// Whether nobody gets a lease now: somebody has it, or had it a moment ago.
    #[must_use]
    pub fn is_closed(&self, now_ms: u64) -> bool {
        now_ms < self.lease_until_ms.max(self.rate_until_ms)
    }
}
