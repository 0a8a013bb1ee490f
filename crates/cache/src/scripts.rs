//! The scripts that carry the protocol's decisions out inside of Redis, and their answers.

use bytes::Bytes;
use freeboard_redis::{FromValue, Redis, RedisError, Request, Script, ScriptCall, Value};

use crate::{
    entry::{Entry, Kind, Token},
    model::{Change, Fill, LeaseOutcome, LeaseRequest, Leave},
};

/// The scripts of one cache.
#[derive(Debug)]
pub(crate) struct Scripts {
    lease: Script,
    fill: Script,
    release: Script,
    invalidate: Script,
    /// Those who wait listen here.
    pub(crate) channel: Bytes,
}

/// What the script for a lease answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseAnswer {
    pub(crate) outcome: LeaseOutcome,
    /// By the server's clock.
    pub(crate) now_ms: u64,
}

macro_rules! script {
    ($file:literal) => {
        Script::new(concat!(
            include_str!("scripts/prelude.lua"),
            include_str!($file)
        ))
    };
}

impl Scripts {
    pub(crate) fn new(channel: Bytes) -> Self {
        Self {
            lease: script!("scripts/lease.lua"),
            fill: script!("scripts/fill.lua"),
            release: script!("scripts/release.lua"),
            invalidate: script!("scripts/invalidate.lua"),
            channel,
        }
    }

    /// `now_ms` is a test's time, in place of the server's.
    fn call(&self, script: &Script, key: &Bytes, now_ms: Option<u64>) -> ScriptCall {
        let call = script.call().key(key);
        let call = match now_ms {
            Some(now_ms) => millis(call, now_ms),
            None => call.arg(""),
        };
        call.arg(&self.channel)
    }

    pub(crate) fn lease<'a>(
        &self,
        redis: &'a Redis,
        key: &Bytes,
        now_ms: Option<u64>,
        request: &LeaseRequest,
    ) -> Request<'a, LeaseAnswer> {
        let call = self.call(&self.lease, key, now_ms).arg(request.token.0);
        let numbers = [request.seen_ms, request.lease_ms, request.every_ms];
        numbers.into_iter().fold(call, millis).on(redis)
    }

    pub(crate) fn fill<'a>(
        &self,
        redis: &'a Redis,
        key: &Bytes,
        now_ms: Option<u64>,
        fill: &Fill,
    ) -> Request<'a, Change> {
        let kind = match fill.value {
            Some(_) => Kind::Value,
            None => Kind::Negative,
        };
        let call = self.call(&self.fill, key, now_ms).arg(fill.token.0);
        let call = call.integer(kind.byte().into());
        let numbers = [u64::from(fill.cost_ms), fill.fresh_ms, fill.stale_ms];
        let call = numbers.into_iter().fold(call, millis);
        call.arg(fill.value.as_deref().unwrap_or_default())
            .on(redis)
    }

    pub(crate) fn release<'a>(
        &self,
        redis: &'a Redis,
        key: &Bytes,
        now_ms: Option<u64>,
        token: &Token,
    ) -> Request<'a, Change> {
        let call = self.call(&self.release, key, now_ms);
        call.arg(token.0).on(redis)
    }

    pub(crate) fn invalidate<'a>(
        &self,
        redis: &'a Redis,
        key: &Bytes,
        now_ms: Option<u64>,
        leave: Leave,
    ) -> Request<'a, Change> {
        let call = self.call(&self.invalidate, key, now_ms);
        let call = match leave {
            Leave::Nothing => call.integer(-1),
            Leave::Stale(stale_ms) => millis(call, stale_ms),
        };
        call.on(redis)
    }
}

/// Times of ours are far below what an `i64` holds.
fn millis(call: ScriptCall, millis: u64) -> ScriptCall {
    call.integer(i64::try_from(millis).unwrap_or(i64::MAX))
}

const fn unexpected(wanted: &'static str) -> RedisError {
    let came = "another answer of the script";
    RedisError::WrongType { wanted, came }
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

impl FromValue for LeaseAnswer {
    fn from_value(value: Value) -> Result<Self, RedisError> {
        let values = Vec::<Value>::from_value(value)?;
        let wanted = "the four parts of a lease's answer";
        let [outcome, takeover, now, raw] =
            <[Value; 4]>::try_from(values).map_err(|_| unexpected(wanted))?;
        let entry = match Option::<Bytes>::from_value(raw)? {
            Some(raw) => Some(Entry::decode(&raw).ok_or(unexpected("an entry"))?),
            None => None,
        };
        let outcome = match (u64::from_value(outcome)?, entry) {
            (0, stale) => LeaseOutcome::Granted {
                stale,
                is_takeover: bool::from_value(takeover)?,
            },
            (1, stale) => LeaseOutcome::Wait { stale },
            (2, Some(entry)) => LeaseOutcome::Value(entry),
            _ => return Err(unexpected("a lease's outcome")),
        };
        Ok(Self {
            outcome,
            now_ms: u64::from_value(now)?,
        })
    }
}
