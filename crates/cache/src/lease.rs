//! The right to fetch a value, and the duty to fill it in or to give it back.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use freeboard_meter::now_ns;
use freeboard_redis::RedisError;

use crate::{
    bulkhead::Permit,
    cache::Inner,
    call::{Call, Reply},
    error::CacheError,
    flight::Ending,
    found::Cached,
    model::{Change, Fill},
    options::millis,
    releases::Claim,
};

const MILLI_NS: u64 = 1_000_000;

/// The right to fetch a key's value, which one caller at a time has. Dropping it gives it back, and the next
/// caller gets it at once.
#[must_use = "dropping a lease gives it back"]
pub struct Lease {
    inner: Arc<Inner>,
    key: Bytes,
    /// `None` without Redis.
    claim: Option<Claim>,
    /// Under which others of this process wait.
    turn: Option<u64>,
    stale: Option<Cached>,
    begun_ns: u64,
    cost: Option<Duration>,
    permit: Option<Permit>,
    is_open: bool,
}

/// What became of a fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Filled {
    /// It is cached.
    Stored,
    /// The key was invalidated meanwhile, or the fetch took longer than the lease. It is not cached.
    Refused,
    /// It is larger than [`crate::CacheOptions::value_bytes_max`], and not cached.
    TooLarge,
    /// Redis did not answer when it was asked for a lease, so there is nothing to fill.
    Unleased,
}

impl Lease {
    pub(crate) fn new(
        inner: Arc<Inner>,
        key: Bytes,
        claim: Option<Claim>,
        turn: Option<u64>,
        stale: Option<Cached>,
        permit: Option<Permit>,
    ) -> Self {
        Self {
            inner,
            key,
            claim,
            turn,
            stale,
            begun_ns: now_ns(),
            cost: None,
            permit,
            is_open: true,
        }
    }

    /// The key, without the cache's prefix.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key[self.inner.options.prefix.len()..]
    }

    /// What may still be used while this fetches, or if it fails.
    #[must_use]
    pub const fn stale(&self) -> Option<&Cached> {
        self.stale.as_ref()
    }

    /// Whether Redis did not answer, so that what is fetched may not be cached.
    #[must_use]
    pub const fn is_direct(&self) -> bool {
        self.permit.is_some()
    }

    /// What the fetch took, if not the time since the lease was given; early refreshes go by it.
    pub fn cost(mut self, cost: Duration) -> Self {
        self.cost = Some(cost);
        self
    }

    /// Fills the value in, or that there is none. Those who wait get it.
    ///
    /// An error ([`CacheError::Redis`]) is that it is not known whether it is cached.
    pub fn fill(self, value: Option<Bytes>) -> Call<Filled> {
        let gauges = self.inner.gauges.clone();
        Call::new(gauges, |reply| self.fill_in(value, reply))
    }

    /// Gives it back, as dropping it does.
    pub fn release(self) {}

    fn fill_in(mut self, value: Option<Bytes>, reply: Reply<Filled>) {
        let inner = self.inner.clone();
        let value_bytes = value.as_ref().map_or(0, Bytes::len);
        let filled = match self.claim {
            None => Filled::Unleased,
            Some(_) if value_bytes > inner.options.value_bytes_max => Filled::TooLarge,
            Some(claim) => return self.store(claim, value, reply),
        };
        self.is_open = false;
        if let Some(claim) = self.claim {
            inner.release(&self.key, claim);
        }
        self.end(Ending::NotStored, &value);
        reply.complete(Ok(filled));
    }

    fn store(mut self, claim: Claim, value: Option<Bytes>, reply: Reply<Filled>) {
        self.is_open = false;
        let inner = self.inner.clone();
        let options = &inner.options;
        let fresh_time = match value {
            Some(_) => options.fresh_time,
            None => options.negative_time,
        };
        let took_ms = match self.cost {
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
            .scripts
            .fill(&inner.redis, &key, inner.clock.simulated_ms(), &fill)
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
                    // The lease may be given yet.
                    self.inner.release(&self.key, claim);
                }
                let outcome = Ok(Filled::Refused);
                (&gauges.fills_refused, Ending::NotStored, outcome)
            }
            Err(error) => {
                // If it was not stored, nobody else need wait until the lease is over.
                self.inner.release(&self.key, claim);
                let outcome = Err(CacheError::Redis(error));
                (&gauges.fills_failed, Ending::NotStored, outcome)
            }
        };
        counter.add(1);
        self.end(ending, &fill.value);
        reply.complete(outcome);
    }

    fn end(&mut self, ending: Ending, value: &Option<Bytes>) {
        // Before the next one asks.
        self.permit = None;
        if let Some(turn) = self.turn {
            self.inner.fetched(&self.key, turn, ending, value);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        self.inner.gauges.leases_released.add(1);
        if let Some(claim) = self.claim {
            self.inner.release(&self.key, claim);
        }
        // As in `end`.
        self.permit = None;
        if let Some(turn) = self.turn {
            self.inner.flights.given_up(&self.key, turn, now_ns());
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Lease")
            .field("key", &Bytes::copy_from_slice(self.key()))
            .field("is_direct", &self.is_direct())
            .field("has_stale", &self.stale.is_some())
            .finish_non_exhaustive()
    }
}
