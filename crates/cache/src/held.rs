//! The cache's side of a lease: storing the value, or giving the lease back.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use freeboard_meter::now_ns;
use freeboard_platform::planted;
use freeboard_redis::RedisError;

use crate::{
    bulkhead::Permit,
    call::Reply,
    error::CacheError,
    flight::Ending,
    lease::{Filled, LeaseEnd},
    model::{Change, Fill},
    options::millis,
    releases::Claim,
    shared::Inner,
};

const MILLI_NS: u64 = 1_000_000;

pub(crate) struct HeldLease {
    pub(crate) inner: Arc<Inner>,
    pub(crate) key: Bytes,
    /// `None` without Redis.
    pub(crate) claim: Option<Claim>,
    /// The turn of the flight in which other callers of this process wait.
    pub(crate) turn: Option<u64>,
    pub(crate) begun_ns: u64,
    pub(crate) permit: Option<Permit>,
}

impl HeldLease {
    pub(crate) fn end(self, end: LeaseEnd) {
        match end {
            LeaseEnd::Filled { value, cost, reply } => self.fill(value, cost, reply),
            LeaseEnd::GivenUp => self.give_up(),
        }
    }

    fn fill(mut self, value: Option<Bytes>, cost: Option<Duration>, reply: Reply<Filled>) {
        let value_bytes = value.as_ref().map_or(0, Bytes::len);
        let filled = match self.claim {
            None => Filled::Unleased,
            Some(_) if value_bytes > self.inner.options.value_bytes_max => Filled::TooLarge,
            Some(claim) => return self.store(claim, value, cost, reply),
        };
        if let Some(claim) = self.claim {
            self.inner.release(&self.key, claim);
        }
        self.serve_waiting(Ending::NotStored, &value);
        reply.complete(Ok(filled));
    }

    fn give_up(mut self) {
        self.inner.gauges.leases_released.add(1);
        if let Some(claim) = self.claim {
            self.inner.release(&self.key, claim);
        }
        // As in `serve_waiting`.
        self.permit = None;
        if let Some(turn) = self.turn {
            self.inner.flights.given_up(&self.key, turn, now_ns());
        }
    }

    fn store(
        self,
        claim: Claim,
        value: Option<Bytes>,
        cost: Option<Duration>,
        reply: Reply<Filled>,
    ) {
        let inner = self.inner.clone();
        let options = &inner.options;
        let fresh_time = match value {
            Some(_) => options.fresh_time,
            None => options.negative_time,
        };
        let took_ms = match cost {
            Some(cost) => millis(cost),
            None => now_ns().saturating_sub(self.begun_ns) / MILLI_NS,
        };
        let fill = Fill {
            token: claim.token,
            value,
            cost_ms: u32::try_from(took_ms).unwrap_or(u32::MAX),
            fresh_ms: millis(fresh_time),
            stale_ms: millis(options.stale_time),
        };
        if let Some(turn) = self.turn {
            inner.flights.filling(&self.key, turn);
        }
        let key = self.key.clone();
        let removals = inner.removals(&key);
        inner
            .script(&key, &fill)
            .then(move |answer| self.stored(claim, &fill, removals, answer, reply));
    }

    fn stored(
        mut self,
        claim: Claim,
        fill: &Fill,
        removals: u64,
        answer: Result<Change, RedisError>,
        reply: Reply<Filled>,
    ) {
        let gauges = self.inner.gauges.clone();
        let (counter, ending, outcome) = match answer {
            Ok(Change { is_done: true, .. }) => {
                self.inner.keep(&self.key, &fill.value, removals);
                (&gauges.fills_stored, Ending::Stored, Ok(Filled::Stored))
            }
            Ok(_) => {
                if now_ns() < claim.runs_until_ns {
                    // The script may still grant the lease.
                    self.inner.release(&self.key, claim);
                }
                let outcome = Ok(Filled::Refused);
                (&gauges.fills_refused, Ending::NotStored, outcome)
            }
            Err(error) => {
                // If the value was not stored, other callers should not wait until the lease expires.
                self.inner.release(&self.key, claim);
                let outcome = Err(CacheError::Redis(error));
                (&gauges.fills_failed, Ending::NotStored, outcome)
            }
        };
        counter.add(1);
        self.serve_waiting(ending, &fill.value);
        reply.complete(outcome);
    }

    fn serve_waiting(&mut self, ending: Ending, value: &Option<Bytes>) {
        if planted!("permit-kept") {
            std::mem::forget(self.permit.take());
        }
        // Before the next caller asks for a permit.
        self.permit = None;
        if let Some(turn) = self.turn
            && !planted!("fetch-wakes-nobody")
        {
            self.inner.fetched(&self.key, turn, ending, value);
        }
    }
}
