//! The scripts that carry the protocol's decisions out inside of Redis, and their answers.

use bytes::Bytes;
use freeboard_redis::{FromValue, Redis, RedisError, Request, Script, ScriptCall, Value};

use crate::{
    arguments::Common,
    entry::{Entry, Token},
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

// What the script for a lease begins its answer with.
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

    /// `now_ms` is a test's time, in place of the server's.
    fn call(&self, script: &Script, key: &Bytes, now_ms: Option<u64>) -> ScriptCall {
        let channel = &self.channel;
        Common { now_ms, channel }.write(script.call().key(key))
    }

    pub(crate) fn lease<'a>(
        &self,
        redis: &'a Redis,
        key: &Bytes,
        now_ms: Option<u64>,
        request: &LeaseRequest,
    ) -> Request<'a, LeaseAnswer> {
        let call = self.call(&self.lease, key, now_ms);
        request.write(call).on(redis)
    }

    pub(crate) fn fill<'a>(
        &self,
        redis: &'a Redis,
        key: &Bytes,
        now_ms: Option<u64>,
        fill: &Fill,
    ) -> Request<'a, Change> {
        let call = self.call(&self.fill, key, now_ms);
        fill.write(call).on(redis)
    }

    pub(crate) fn release<'a>(
        &self,
        redis: &'a Redis,
        key: &Bytes,
        now_ms: Option<u64>,
        token: &Token,
    ) -> Request<'a, Change> {
        let call = self.call(&self.release, key, now_ms);
        token.write(call).on(redis)
    }

    pub(crate) fn invalidate<'a>(
        &self,
        redis: &'a Redis,
        key: &Bytes,
        now_ms: Option<u64>,
        leave: Leave,
    ) -> Request<'a, Change> {
        let call = self.call(&self.invalidate, key, now_ms);
        leave.write(call).on(redis)
    }
}

/// An answer that none of the scripts gives.
pub(crate) const fn unexpected(wanted: &'static str) -> RedisError {
    let came = "another answer of the script";
    RedisError::WrongType { wanted, came }
}

impl Change {
    /// As a script answers it.
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
    /// As the script answers it.
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
