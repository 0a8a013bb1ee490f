//! The state that the handles, leases and the actor of a cache share.

use std::sync::Arc;

use bytes::Bytes;
use freeboard_meter::now_ns;
use freeboard_redis::{Redis, RedisError, Request, Subscription};
use parking_lot::Mutex;

use crate::{
    bulkhead::Bulkhead,
    call::Reply,
    chance::{Chance, Tokens},
    clock::Clock,
    entry::Entry,
    error::CacheError,
    flight::Caller,
    flights::Flights,
    local::Local,
    metrics::CacheGauges,
    model::Change,
    options::{CacheOptions, millis, nanos},
    releases::{Claim, Owed, Releases},
    scripts::{ScriptArguments, Scripts},
};

pub(crate) struct Inner {
    pub(crate) redis: Redis,
    pub(crate) options: CacheOptions,
    pub(crate) wait_max_ns: u64,
    pub(crate) scripts: Scripts,
    pub(crate) clock: Clock,
    pub(crate) flights: Flights,
    pub(crate) releases: Releases,
    pub(crate) local: Option<Local>,
    pub(crate) bulkhead: Bulkhead,
    pub(crate) chance: Chance,
    pub(crate) tokens: Tokens,
    pub(crate) gauges: Arc<CacheGauges>,
    pub(crate) subscription: Mutex<Option<Subscription>>,
}

impl Inner {
    pub(crate) fn full_key(&self, key: &[u8]) -> Result<Bytes, CacheError> {
        let prefix = self.options.prefix.as_bytes();
        let (bytes, max) = (prefix.len() + key.len(), self.options.key_bytes_max);
        match bytes <= max {
            true => Ok(Bytes::from([prefix, key].concat())),
            false => Err(CacheError::KeyTooLong { bytes, max }),
        }
    }

    pub(crate) fn fail<T>(&self, error: RedisError, reply: Reply<T>) {
        self.gauges.redis_failures.add(1);
        reply.complete(Err(CacheError::Redis(error)));
    }

    /// A call of the script that takes these arguments.
    pub(crate) fn script<A: ScriptArguments>(
        &self,
        key: &Bytes,
        arguments: &A,
    ) -> Request<'_, A::Answer> {
        let now_ms = self.clock.simulated_ms();
        self.scripts.call(&self.redis, key, now_ms, arguments)
    }

    /// Calls `then` with the server's time, and asks for it if it is unknown.
    pub(crate) fn with_time(
        self: Arc<Self>,
        then: impl FnOnce(&Self, Result<u64, RedisError>) + Send + 'static,
    ) {
        match self.clock.now_ms(now_ns()) {
            Some(now_ms) => then(&self, Ok(now_ms)),
            None => self.ask_time(then),
        }
    }

    /// Asks the server for its time.
    pub(crate) fn ask_time(
        self: Arc<Self>,
        then: impl FnOnce(&Self, Result<u64, RedisError>) + Send + 'static,
    ) {
        let sent_ns = now_ns();
        let redis = self.redis.clone();
        redis.time().then(move |answer| {
            if let Ok(time) = answer {
                self.clock.learn(sent_ns, now_ns(), time);
            }
            then(&self, answer.map(millis));
        });
    }

    /// The value in the local layer.
    pub(crate) fn local_value(&self, key: &Bytes) -> Option<Option<Bytes>> {
        let value = self.local.as_ref()?.get(key)?;
        self.gauges.local_hits.add(1);
        Some(value)
    }

    /// The entry in Redis, if it is one.
    pub(crate) fn entry_of(
        &self,
        answer: Result<Option<Bytes>, RedisError>,
    ) -> Result<Option<Entry>, RedisError> {
        let raw = match answer {
            Ok(None) => return Ok(None),
            Ok(Some(raw)) => Some(raw),
            // The key holds a hash or a list.
            Err(RedisError::Server(error)) if error.code() == "WRONGTYPE" => None,
            Err(error) => return Err(error),
        };
        let entry = raw.and_then(|raw| Entry::decode(&raw));
        if entry.is_none() {
            self.gauges.foreign.add(1);
        }
        Ok(entry)
    }

    /// The count to pass to [`Inner::keep`], read before the request is sent.
    pub(crate) fn removals(&self, key: &Bytes) -> u64 {
        self.local.as_ref().map_or(0, |local| local.removals(key))
    }

    /// Keeps a value in the local layer, unless the key was removed after the request was sent.
    pub(crate) fn keep(&self, key: &Bytes, value: &Option<Bytes>, removals: u64) {
        if let Some(local) = &self.local {
            local.put(key.clone(), value.clone(), removals);
        }
    }

    pub(crate) fn refuse(&self, callers: Vec<Caller>, error: &CacheError) {
        self.gauges.refused(error, callers.len());
        for caller in callers {
            caller.reply.complete(Err(error.clone()));
        }
    }

    /// Refuses all callers.
    pub(crate) fn close(&self) {
        let callers = self.flights.close();
        self.refuse(callers, &CacheError::Closed);
    }
}

/// Leases given back.
impl Inner {
    /// Gives a lease back, and retries until Redis confirms it.
    pub(crate) fn release(self: &Arc<Self>, key: &Bytes, claim: Claim) {
        let from_ns = claim.runs_until_ns.max(now_ns());
        self.send_release(Owed {
            key: key.clone(),
            claim,
            over_ns: from_ns.saturating_add(nanos(self.options.lease_time)),
            attempt: 0,
        });
    }

    fn send_release(self: &Arc<Self>, owed: Owed) {
        let inner = Arc::downgrade(self);
        let sent_ns = now_ns();
        let key = owed.key.clone();
        let token = owed.claim.token;
        self.script(&key, &token).then(move |answer| {
            if let Some(inner) = inner.upgrade() {
                inner.release_answered(owed, sent_ns, answer);
            }
        });
    }

    fn release_answered(&self, mut owed: Owed, sent_ns: u64, answer: Result<Change, RedisError>) {
        let due_ns = match answer {
            Ok(change) if change.is_done || owed.claim.runs_until_ns <= sent_ns => return,
            Ok(_) => owed.claim.runs_until_ns,
            Err(RedisError::Closed) => return,
            Err(_) => now_ns().saturating_add(self.options.poll.delay_ns(owed.attempt)),
        };
        owed.attempt = owed.attempt.saturating_add(1);
        if due_ns < owed.over_ns {
            self.releases.push(due_ns, owed, self.options.flights_max);
            self.flights.wake();
        }
    }

    /// Sends the due releases. Returns when the next is due.
    pub(crate) fn send_releases(self: &Arc<Self>) -> Option<u64> {
        let now_ns = now_ns();
        while let Some(owed) = self.releases.pop_due(now_ns) {
            self.send_release(owed);
        }
        self.releases.next_ns()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
        // The actor then finds no cache, and stops.
        self.flights.wake();
    }
}
