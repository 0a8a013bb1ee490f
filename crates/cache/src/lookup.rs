//! Look-ups and invalidations: from the callers to Redis and back.
//!
//! Each step is a function that runs with an answer of Redis, on the worker that received it. Between two steps,
//! only the flight (see `flight.rs`) holds state.

use std::sync::Arc;

use bytes::Bytes;
use freeboard_meter::{Counter, now_ns};
use freeboard_redis::RedisError;

use crate::{
    bulkhead::Permit,
    call::Reply,
    chance::is_refresh_due,
    entry::{Entry, TIME_END_MS},
    error::CacheError,
    flight::{Caller, Ending},
    flights::{Due, Granted, Joined, Served},
    held::HeldLease,
    lease::{Cached, Found, Lease},
    model::{LeaseOutcome, LeaseRequest, Leave},
    options::{Fallback, millis, nanos},
    releases::Claim,
    scripts::{LeaseAnswer, unexpected},
    shared::Inner,
};

const MILLI_NS: u64 = 1_000_000;

/// The consequence of a GET.
enum Verdict {
    Use(Cached),
    /// Request a lease; `seen_ms` is that of [`LeaseRequest`].
    Lease {
        seen_ms: u64,
    },
}

impl Inner {
    /// Finds a value or a lease for a caller.
    pub(crate) fn look_up(self: &Arc<Self>, key: Bytes, reply: Reply<Found>) {
        if let Some(value) = self.local_value(&key) {
            let is_stale = false;
            reply.complete(Ok(Found::Cached(Cached { value, is_stale })));
            return;
        }
        let since_ns = now_ns();
        let caller = Caller {
            reply,
            since_ns,
            deadline_ns: since_ns.saturating_add(self.wait_max_ns),
        };
        match self.flights.join(&key, caller) {
            Joined::Waits => {}
            Joined::Asks(turn) => self.ask(key, turn),
            Joined::Refused(caller, error) => self.refuse(vec![caller], &error),
        }
    }

    fn ask(self: &Arc<Self>, key: Bytes, turn: u64) {
        let inner = self.clone();
        let removals = self.removals(&key);
        self.redis
            .get(&key)
            .then(move |answer| inner.got(key, turn, removals, answer));
    }

    fn got(
        self: &Arc<Self>,
        key: Bytes,
        turn: u64,
        removals: u64,
        answer: Result<Option<Bytes>, RedisError>,
    ) {
        match self.entry_of(answer) {
            Ok(entry) => match entry.map_or(Verdict::Lease { seen_ms: 0 }, |it| self.judge(&it)) {
                Verdict::Use(cached) => self.serve(&key, turn, removals, &cached),
                Verdict::Lease { seen_ms } => {
                    if self.flights.leasing(&key, turn) {
                        self.ask_lease(key, turn, seen_ms);
                    }
                }
            },
            Err(error) => self.unavailable(key, turn, error, None),
        }
    }

    fn judge(&self, entry: &Entry) -> Verdict {
        // Without the time, the script must decide.
        let Some(now_ms) = self.clock.now_ms(now_ns()) else {
            return Verdict::Lease { seen_ms: 0 };
        };
        let fresh_until_ms = entry.fresh_until_ms;
        match Cached::of(entry, now_ms) {
            Some(cached) if entry.is_closed(now_ms) => Verdict::Use(cached),
            Some(cached) if !cached.is_stale => {
                let chance = self.chance.next();
                let beta = self.options.early_beta;
                match is_refresh_due(now_ms, fresh_until_ms, entry.cost_ms, beta, chance) {
                    true => Verdict::Lease {
                        seen_ms: fresh_until_ms,
                    },
                    false => Verdict::Use(cached),
                }
            }
            _ => Verdict::Lease { seen_ms: 0 },
        }
    }

    fn ask_lease(self: &Arc<Self>, key: Bytes, turn: u64, seen_ms: u64) {
        let token = self.tokens.next();
        let (sent_ns, timeout) = (now_ns(), self.redis.timeout());
        // While the server's time is unknown, a script is never too late.
        let server_ms = self.clock.now_ms(sent_ns);
        let valid_until_ms = server_ms.map_or(u64::MAX, |it| it.saturating_add(millis(timeout)));
        // The server's time is known within half a timeout, otherwise the request for it would have timed out.
        let runs_until_ns = sent_ns.saturating_add(nanos(timeout.saturating_add(timeout / 2)));
        let request = LeaseRequest {
            token,
            seen_ms,
            lease_ms: millis(self.options.lease_time),
            every_ms: millis(self.options.lease_every),
            valid_until_ms: valid_until_ms.min(TIME_END_MS - 1),
        };
        let inner = self.clone();
        let removals = self.removals(&key);
        self.script(&key, &request)
            .then(move |answer| inner.leased(key, turn, removals, &request, runs_until_ns, answer));
    }

    fn leased(
        self: &Arc<Self>,
        key: Bytes,
        turn: u64,
        removals: u64,
        request: &LeaseRequest,
        runs_until_ns: u64,
        answer: Result<LeaseAnswer, RedisError>,
    ) {
        let token = request.token;
        let answer = match answer {
            Ok(answer) => answer,
            // Redis may have granted the lease all the same: then the value can be stored.
            Err(error) if !error.is_unsent() => {
                let claim = Claim {
                    token,
                    runs_until_ns,
                };
                return self.unavailable(key, turn, error, Some(claim));
            }
            Err(error) => return self.unavailable(key, turn, error, None),
        };
        let cached = |entry: &Entry| Cached::of(entry, answer.now_ms);
        match answer.outcome {
            LeaseOutcome::Value(entry) => match cached(&entry) {
                Some(cached) => self.serve(&key, turn, removals, &cached),
                // Our scripts never answer this, but the callers need an outcome.
                None => self.unavailable(key, turn, unexpected("a value to use"), None),
            },
            LeaseOutcome::Wait { stale, until_ms } => {
                self.gauges.leases_refused.add(1);
                match stale.as_ref().and_then(cached) {
                    Some(cached) => self.serve(&key, turn, removals, &cached),
                    None => self.wait(key, turn, until_ms.saturating_sub(answer.now_ms)),
                }
            }
            LeaseOutcome::Granted { stale, is_takeover } => {
                self.gauges.leases_granted.add(1);
                self.gauges.leases_expired.add(is_takeover.into());
                self.gauges
                    .early_refreshes
                    .add((request.seen_ms > 0).into());
                let stale = stale.as_ref().and_then(cached);
                let claim = Claim {
                    token,
                    runs_until_ns: 0,
                };
                self.grant(key, turn, Some(claim), stale, None);
            }
        }
    }

    /// No lease is available for `closed_ms`, unless it is given back.
    fn wait(self: &Arc<Self>, key: Bytes, turn: u64, closed_ms: u64) {
        let now_ns = now_ns();
        let open_ns = now_ns.saturating_add(closed_ms.saturating_mul(MILLI_NS));
        let waits = self.flights.waits(&key, turn, open_ns, now_ns);
        self.refuse(waits.expired, &CacheError::WaitedTooLong);
        if let Some(turn) = waits.again {
            self.gauges.notified.add(1);
            self.ask_lease(key, turn, 0);
        }
    }

    /// Gives one caller the lease, and the others the stale value, if any.
    fn grant(
        self: &Arc<Self>,
        key: Bytes,
        turn: u64,
        claim: Option<Claim>,
        stale: Option<Cached>,
        permit: Option<Permit>,
    ) {
        let Granted {
            leader,
            served,
            turn,
        } = self.flights.granted(&key, turn, stale.is_some(), now_ns());
        let is_direct = permit.is_some();
        let held = HeldLease {
            inner: self.clone(),
            key: key.clone(),
            claim,
            turn,
            begun_ns: now_ns(),
            permit,
        };
        let lease = Lease::new(
            (key.clone(), self.options.prefix.len()),
            stale.clone(),
            is_direct,
            self.gauges.clone(),
            Box::new(move |end| held.end(end)),
        );
        match leader {
            Some(leader) => {
                match stale {
                    Some(_) => self.gauges.refreshes.add(1),
                    None => self.gauges.misses.add(1),
                }
                leader.reply.complete(Ok(Found::Lease(lease)));
            }
            // No caller is left: give the lease back.
            None => drop(lease),
        }
        if let Some(stale) = stale {
            self.give(&key, served, &stale);
        }
    }

    /// Redis did not answer.
    fn unavailable(
        self: &Arc<Self>,
        key: Bytes,
        turn: u64,
        error: RedisError,
        claim: Option<Claim>,
    ) {
        self.gauges.redis_failures.add(1);
        let refuse = |callers, error: CacheError| {
            // Nobody fetches with this claim, so the next caller must not wait until it expires.
            if let Some(claim) = claim {
                self.release(&key, claim);
            }
            self.refuse(callers, &error);
        };
        // The client was closed: Redis will not come back.
        let is_over = error == RedisError::Closed;
        if self.options.fallback == Fallback::Fail || is_over {
            let callers = self.flights.failed(&key, turn);
            return refuse(callers, CacheError::Redis(error));
        }
        match self.bulkhead.enter() {
            Some(permit) => {
                self.gauges.direct_fetches.add(1);
                self.grant(key, turn, claim, None, Some(permit));
            }
            None => {
                let callers = self.flights.failed(&key, turn);
                refuse(callers, CacheError::FetchesFull(error));
            }
        }
    }

    /// Redis has a value for the callers.
    fn serve(self: &Arc<Self>, key: &Bytes, turn: u64, removals: u64, cached: &Cached) {
        if !cached.is_stale {
            self.keep(key, &cached.value, removals);
        }
        let served = self.flights.answered(key, turn);
        self.give(key, served, cached);
    }

    /// A caller of this process has fetched a value for the others.
    pub(crate) fn fetched(
        self: &Arc<Self>,
        key: &Bytes,
        turn: u64,
        ending: Ending,
        value: &Option<Bytes>,
    ) {
        let served = self.flights.filled(key, turn, ending);
        let cached = Cached {
            value: value.clone(),
            is_stale: false,
        };
        self.give(key, served, &cached);
    }

    fn give(self: &Arc<Self>, key: &Bytes, served: Served, cached: &Cached) {
        // First the request that others wait for, because the callers' functions may be slow.
        if let Some(turn) = served.next {
            self.ask(key.clone(), turn);
        }
        let count = served.callers.len() as u64;
        let counter = match served.has_waited {
            true => &self.gauges.waits,
            false => self.hits_of(cached),
        };
        counter.add(count);
        let now_ns = now_ns();
        for caller in served.callers {
            if served.has_waited {
                let waited_ns = now_ns.saturating_sub(caller.since_ns);
                self.gauges.wait_time.record_shared(waited_ns);
            }
            caller.reply.complete(Ok(Found::Cached(cached.clone())));
        }
    }

    /// The counter of this kind of hit.
    fn hits_of(&self, cached: &Cached) -> &Counter {
        match cached {
            Cached { is_stale: true, .. } => &self.gauges.stale_hits,
            Cached { value: None, .. } => &self.gauges.negative_hits,
            Cached { .. } => &self.gauges.hits,
        }
    }

    /// Another process has filled or freed a key.
    pub(crate) fn notified(self: &Arc<Self>, key: Bytes) {
        if let Some(turn) = self.flights.notified(&key) {
            self.gauges.notified.add(1);
            self.ask_lease(key, turn, 0);
        }
    }

    /// Handles due flights. Returns when the next is due.
    pub(crate) fn handle_due(self: &Arc<Self>) -> Option<u64> {
        let (all, next_ns) = self.flights.due(now_ns());
        for due in all {
            match due {
                Due::Ask(key, turn) => {
                    self.gauges.polled.add(1);
                    self.ask_lease(key, turn, 0);
                }
                Due::Expired(callers) => self.refuse(callers, &CacheError::WaitedTooLong),
            }
        }
        next_ns
    }

    /// Reads the cached value.
    pub(crate) fn get(self: &Arc<Self>, key: Bytes, reply: Reply<Option<Cached>>) {
        if let Some(value) = self.local_value(&key) {
            let is_stale = false;
            return reply.complete(Ok(Some(Cached { value, is_stale })));
        }
        let inner = self.clone();
        let removals = self.removals(&key);
        self.redis
            .get(&key)
            .then(move |answer| match inner.entry_of(answer) {
                Ok(None) => inner.got_nothing(reply),
                Ok(Some(entry)) => inner.with_time(move |inner, now_ms| match now_ms {
                    Ok(now_ms) => {
                        let cached = Cached::of(&entry, now_ms);
                        inner.got_entry(&key, cached, removals, reply);
                    }
                    Err(error) => inner.fail(error, reply),
                }),
                Err(error) => inner.fail(error, reply),
            });
    }

    fn got_nothing(&self, reply: Reply<Option<Cached>>) {
        self.gauges.misses.add(1);
        reply.complete(Ok(None));
    }

    fn got_entry(
        &self,
        key: &Bytes,
        cached: Option<Cached>,
        removals: u64,
        reply: Reply<Option<Cached>>,
    ) {
        let Some(cached) = cached else {
            return self.got_nothing(reply);
        };
        self.hits_of(&cached).add(1);
        if !cached.is_stale {
            self.keep(key, &cached.value, removals);
        }
        reply.complete(Ok(Some(cached)));
    }

    pub(crate) fn invalidate(self: &Arc<Self>, key: Bytes, leave: Leave, reply: Reply<()>) {
        self.gauges.invalidations.add(1);
        // Before, so that nobody finds it here; and after, for values requested in between. Answers that arrive
        // later are not put back.
        let forget = |inner: &Self, key: &Bytes| {
            if let Some(local) = &inner.local {
                local.remove(key);
            }
        };
        forget(self, &key);
        let inner = self.clone();
        self.script(&key, &leave).then(move |answer| {
            forget(&inner, &key);
            match answer {
                Ok(_) => reply.complete(Ok(())),
                Err(error) => inner.fail(error, reply),
            }
        });
    }
}
