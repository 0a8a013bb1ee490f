//! What the scripts are called with: written here for the client, read here for [`crate::native`].
//!
//! ```text
//!   KEYS   the entry
//!   ARGV   time, or nothing   channel   of a lease:         token  seen  lease  every  valid until
//!                                       of a fill:          token  kind  cost  fresh  stale  value
//!                                       of a release:       token
//!                                       of an invalidation: stale, or -1
//! ```

use bytes::Bytes;
use freeboard_redis::ScriptCall;

use crate::{
    entry::{Kind, TIME_END_MS, Token},
    model::{Fill, LeaseRequest, Leave},
};

const NO_TIME: &[u8] = b"";
const LEAVE_NOTHING: &[u8] = b"-1";

/// The arguments that all scripts have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Common<'a> {
    /// A test's time, in place of the server's.
    pub(crate) now_ms: Option<u64>,
    /// Those who wait listen here.
    pub(crate) channel: &'a [u8],
}

/// Arguments that are read one after the other.
pub(crate) struct Arguments<'a, 'b>(pub(crate) &'b [&'a [u8]]);

impl<'a> Arguments<'a, '_> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn token(&mut self) -> Option<Token> {
        self.next()?.try_into().ok().map(Token)
    }

    /// A time or a span, small enough that some of them can be added up.
    fn millis(&mut self) -> Option<u64> {
        millis_of(self.next()?)
    }
}

fn millis_of(text: &[u8]) -> Option<u64> {
    let millis = str::from_utf8(text).ok()?.parse().ok()?;
    (millis < TIME_END_MS).then_some(millis)
}

/// Times of ours are far below what an `i64` holds.
fn millis(call: ScriptCall, millis: u64) -> ScriptCall {
    call.integer(i64::try_from(millis).unwrap_or(i64::MAX))
}

impl<'a> Common<'a> {
    pub(crate) fn write(&self, call: ScriptCall) -> ScriptCall {
        let call = match self.now_ms {
            Some(now_ms) => millis(call, now_ms),
            None => call.arg(NO_TIME),
        };
        call.arg(self.channel)
    }

    pub(crate) fn read(from: &mut Arguments<'a, '_>) -> Option<Self> {
        let now_ms = match from.next()? {
            NO_TIME => None,
            text => Some(millis_of(text)?),
        };
        let channel = from.next()?;
        Some(Self { now_ms, channel })
    }
}

impl LeaseRequest {
    pub(crate) fn write(&self, call: ScriptCall) -> ScriptCall {
        let numbers = [
            self.seen_ms,
            self.lease_ms,
            self.every_ms,
            self.valid_until_ms,
        ];
        numbers.into_iter().fold(call.arg(self.token.0), millis)
    }

    pub(crate) fn read(from: &mut Arguments<'_, '_>) -> Option<Self> {
        Some(Self {
            token: from.token()?,
            seen_ms: from.millis()?,
            lease_ms: from.millis()?,
            every_ms: from.millis()?,
            valid_until_ms: from.millis()?,
        })
    }
}

impl Fill {
    pub(crate) fn write(&self, call: ScriptCall) -> ScriptCall {
        let kind = match self.value {
            Some(_) => Kind::Value,
            None => Kind::Negative,
        };
        let call = call.arg(self.token.0).integer(kind.byte().into());
        let numbers = [u64::from(self.cost_ms), self.fresh_ms, self.stale_ms];
        let call = numbers.into_iter().fold(call, millis);
        call.bytes(self.value.clone().unwrap_or_default())
    }

    pub(crate) fn read(from: &mut Arguments<'_, '_>) -> Option<Self> {
        let token = from.token()?;
        let kind = u8::try_from(from.millis()?).ok().and_then(Kind::from_byte);
        let cost_ms = from.millis()?.try_into().ok()?;
        let (fresh_ms, stale_ms) = (from.millis()?, from.millis()?);
        let value = from.next()?;
        Some(Self {
            token,
            value: match kind? {
                Kind::Value => Some(Bytes::copy_from_slice(value)),
                Kind::Negative => None,
                Kind::Nothing => return None,
            },
            cost_ms,
            fresh_ms,
            stale_ms,
        })
    }
}

impl Token {
    pub(crate) fn write(&self, call: ScriptCall) -> ScriptCall {
        call.arg(self.0)
    }

    pub(crate) fn read(from: &mut Arguments<'_, '_>) -> Option<Self> {
        from.token()
    }
}

impl Leave {
    pub(crate) fn write(self, call: ScriptCall) -> ScriptCall {
        match self {
            Self::Nothing => call.arg(LEAVE_NOTHING),
            Self::Stale(stale_ms) => millis(call, stale_ms),
        }
    }

    pub(crate) fn read(from: &mut Arguments<'_, '_>) -> Option<Self> {
        match from.next()? {
            LEAVE_NOTHING => Some(Self::Nothing),
            text => millis_of(text).map(Self::Stale),
        }
    }
}
