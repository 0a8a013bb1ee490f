//! The scripts that implement the protocol inside Redis: their calls, arguments and answers.
//!
//! ```text
//!   KEYS   the entry
//!   ARGV   time, or nothing   channel   of a lease:         token  seen  lease  every  valid until
//!                                       of a fill:          token  kind  cost  fresh  stale  value
//!                                       of a release:       token
//!                                       of an invalidation: stale, or -1
//! ```

use bytes::Bytes;
use freeboard_redis::{FromValue, Redis, RedisError, Request, Script, ScriptCall, Value};

use crate::{
    entry::{Entry, Kind, TIME_END_MS, Token},
    model::{Change, Fill, LeaseOutcome, LeaseRequest, Leave},
};

/// The scripts of one cache.
#[derive(Debug)]
pub(crate) struct Scripts {
    lease: Script,
    fill: Script,
    release: Script,
    invalidate: Script,
    /// The channel of notifications.
    pub(crate) channel: Bytes,
}

/// The answer of the lease script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseAnswer {
    pub(crate) outcome: LeaseOutcome,
    /// By the server's clock.
    pub(crate) now_ms: u64,
}

// First element of the lease script's answer.
const GRANTED: u64 = 0;
const WAIT: u64 = 1;
const VALUE: u64 = 2;

macro_rules! source {
    ($file:literal) => {
        concat!(include_str!("scripts/prelude.lua"), include_str!($file))
    };
}

pub(crate) const LEASE: &str = source!("scripts/lease.lua");
pub(crate) const FILL: &str = source!("scripts/fill.lua");
pub(crate) const RELEASE: &str = source!("scripts/release.lua");
pub(crate) const INVALIDATE: &str = source!("scripts/invalidate.lua");

impl Scripts {
    pub(crate) fn new(channel: Bytes) -> Self {
        Self {
            lease: Script::new(LEASE),
            fill: Script::new(FILL),
            release: Script::new(RELEASE),
            invalidate: Script::new(INVALIDATE),
            channel,
        }
    }

    /// A call of the script that takes these arguments. `now_ms` is a test's time, instead of the server's.
    pub(crate) fn call<'a, A: ScriptArguments>(
        &self,
        redis: &'a Redis,
        key: &Bytes,
        now_ms: Option<u64>,
        arguments: &A,
    ) -> Request<'a, A::Answer> {
        let channel = &self.channel;
        let call = Common { now_ms, channel }.write(A::script(self).call().key(key));
        arguments.write(call).on(redis)
    }
}

/// The arguments of one of the scripts, after those of all scripts.
pub(crate) trait ScriptArguments {
    type Answer: FromValue;

    fn script(scripts: &Scripts) -> &Script;

    fn write(&self, call: ScriptCall) -> ScriptCall;
}

/// The error for an answer that no script gives.
pub(crate) const fn unexpected(wanted: &'static str) -> RedisError {
    let came = "another answer of the script";
    RedisError::WrongType { wanted, came }
}

impl Change {
    /// Encodes it as a script does.
    pub(crate) fn into_value(self) -> Value {
        let parts = [self.is_done, self.is_published];
        Value::Array(parts.map(|part| Value::Integer(part.into())).into())
    }
}

impl FromValue for Change {
    fn from_value(value: Value) -> Result<Self, RedisError> {
        let (is_done, is_published) = FromValue::from_value(value)?;
        Ok(Self {
            is_done,
            is_published,
        })
    }
}

impl LeaseAnswer {
    /// Encodes it as the script does.
    pub(crate) fn into_value(self) -> Value {
        let (outcome, more, entry) = match self.outcome {
            LeaseOutcome::Granted { stale, is_takeover } => (GRANTED, is_takeover.into(), stale),
            LeaseOutcome::Wait { stale, until_ms } => (WAIT, until_ms, stale),
            LeaseOutcome::Value(entry) => (VALUE, 0, Some(entry)),
        };
        let integer = |number: u64| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
        Value::Array(vec![
            integer(outcome),
            integer(more),
            integer(self.now_ms),
            entry.map_or(Value::Null, |entry| Value::Bulk(entry.encode())),
        ])
    }
}

impl FromValue for LeaseAnswer {
    fn from_value(value: Value) -> Result<Self, RedisError> {
        let values = Vec::<Value>::from_value(value)?;
        let wanted = "the four parts of a lease's answer";
        let [outcome, more, now, raw] =
            <[Value; 4]>::try_from(values).map_err(|_| unexpected(wanted))?;
        let entry = match Option::<Bytes>::from_value(raw)? {
            Some(raw) => Some(Entry::decode(&raw).ok_or(unexpected("an entry"))?),
            None => None,
        };
        let outcome = match (u64::from_value(outcome)?, entry) {
            (GRANTED, stale) => LeaseOutcome::Granted {
                stale,
                is_takeover: bool::from_value(more)?,
            },
            (WAIT, stale) => LeaseOutcome::Wait {
                stale,
                until_ms: u64::from_value(more)?,
            },
            (VALUE, Some(entry)) => LeaseOutcome::Value(entry),
            _ => return Err(unexpected("a lease's outcome")),
        };
        Ok(Self {
            outcome,
            now_ms: u64::from_value(now)?,
        })
    }
}

const NO_TIME: &[u8] = b"";
const LEAVE_NOTHING: &[u8] = b"-1";

/// The arguments of all scripts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Common<'a> {
    /// A test's time, instead of the server's.
    pub(crate) now_ms: Option<u64>,
    /// The channel of notifications.
    pub(crate) channel: &'a [u8],
}

/// A reader of arguments, in order.
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

    /// A time or a duration, limited so that sums do not overflow.
    fn millis(&mut self) -> Option<u64> {
        millis_of(self.next()?)
    }
}

fn millis_of(text: &[u8]) -> Option<u64> {
    let millis = str::from_utf8(text).ok()?.parse().ok()?;
    (millis < TIME_END_MS).then_some(millis)
}

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

impl ScriptArguments for LeaseRequest {
    type Answer = LeaseAnswer;

    fn script(scripts: &Scripts) -> &Script {
        &scripts.lease
    }

    fn write(&self, call: ScriptCall) -> ScriptCall {
        let numbers = [
            self.seen_ms,
            self.lease_ms,
            self.every_ms,
            self.valid_until_ms,
        ];
        numbers.into_iter().fold(call.arg(self.token.0), millis)
    }
}

impl LeaseRequest {
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

impl ScriptArguments for Fill {
    type Answer = Change;

    fn script(scripts: &Scripts) -> &Script {
        &scripts.fill
    }

    fn write(&self, call: ScriptCall) -> ScriptCall {
        let kind = match self.value {
            Some(_) => Kind::Value,
            None => Kind::Negative,
        };
        let call = call.arg(self.token.0).integer(kind.byte().into());
        let numbers = [u64::from(self.cost_ms), self.fresh_ms, self.stale_ms];
        let call = numbers.into_iter().fold(call, millis);
        call.bytes(self.value.clone().unwrap_or_default())
    }
}

impl Fill {
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

impl ScriptArguments for Token {
    type Answer = Change;

    fn script(scripts: &Scripts) -> &Script {
        &scripts.release
    }

    fn write(&self, call: ScriptCall) -> ScriptCall {
        call.arg(self.0)
    }
}

impl Token {
    pub(crate) fn read(from: &mut Arguments<'_, '_>) -> Option<Self> {
        from.token()
    }
}

impl ScriptArguments for Leave {
    type Answer = Change;

    fn script(scripts: &Scripts) -> &Script {
        &scripts.invalidate
    }

    fn write(&self, call: ScriptCall) -> ScriptCall {
        match self {
            Self::Nothing => call.arg(LEAVE_NOTHING),
            Self::Stale(stale_ms) => millis(call, *stale_ms),
        }
    }
}

impl Leave {
    pub(crate) fn read(from: &mut Arguments<'_, '_>) -> Option<Self> {
        match from.next()? {
            LEAVE_NOTHING => Some(Self::Nothing),
            text => millis_of(text).map(Self::Stale),
        }
    }
}
