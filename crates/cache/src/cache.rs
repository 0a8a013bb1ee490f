//! The cache's handle.

use std::{fmt, future::Future, sync::Arc};

use bytes::Bytes;
use freeboard_actor::{SpawnOptions, Supervision, System};
use freeboard_flow::{LaneConfig, Overload};
use freeboard_redis::Redis;
use parking_lot::Mutex;

use crate::{
    bulkhead::Bulkhead,
    call::{Call, Reply},
    chance::{Chance, Tokens},
    clock::Clock,
    error::{CacheStartError, FetchError},
    flights::{Flights, Limits},
    lease::{Cached, Found, Lease},
    local::Local,
    metrics::CacheSnapshot,
    model::Leave,
    options::{CacheOptions, millis, nanos},
    releases::Releases,
    scripts::Scripts,
    shared::Inner,
    watch::Watch,
};

/// Capacity of the actor's mailbox for notifications. A refused notification costs the waiting callers one poll.
const NOTIFICATIONS_MAX: usize = 4_096;

/// A leased cache on Redis. It is cheap to clone, and usable from any thread, any runtime, and from actors.
///
/// Its actor terminates after the last handle and the last lease are dropped.
#[derive(Clone)]
pub struct Cache {
    inner: Arc<Inner>,
}

impl Cache {
    /// A cache over `redis`, a server or a [`freeboard_redis::Cluster`], with an actor of `system` that receives
    /// notifications and handles timeouts.
    ///
    /// # Errors
    /// [`CacheStartError`]. An unreachable server is not an error here.
    pub fn new(
        system: &System,
        redis: &Redis,
        options: CacheOptions,
    ) -> Result<Self, CacheStartError> {
        options.validate()?;
        let channel = Bytes::from(format!("freeboard-cache:{}", options.prefix));
        #[cfg(not(feature = "test-util"))]
        let clock = Clock::default();
        #[cfg(feature = "test-util")]
        let clock = Clock::simulated(options.clock.clone());
        let inner = Arc::new(Inner {
            redis: redis.clone(),
            wait_max_ns: nanos(options.wait_max),
            scripts: Scripts::new(channel.clone()),
            clock,
            flights: Flights::new(Limits {
                waiters_max: options.waiters_max,
                flights_max: options.flights_max,
                poll: options.poll,
                lease_ns: nanos(options.lease_time),
            }),
            releases: Releases::default(),
            local: options.local.as_ref().map(Local::new),
            bulkhead: Bulkhead::new(options.fetches_max),
            chance: Chance::new(options.seed),
            tokens: Tokens::new(),
            gauges: Arc::default(),
            subscription: Mutex::new(None),
            options,
        });
        let lane = LaneConfig::bounded(NOTIFICATIONS_MAX).overload(Overload::Reject);
        let watched = Arc::downgrade(&inner);
        // A cache without it would neither end waits nor hear of invalidations.
        let options = SpawnOptions::new()
            .lane(lane)
            .supervision(Supervision::restart());
        let watch = system.spawn_with(options, move || Watch::new(watched.clone()))?;
        let subscription = redis.subscribe(channel, watch.recipient())?;
        *inner.subscription.lock() = Some(subscription);
        Ok(Self { inner })
    }

    /// The value, or for one caller of all processes the lease to fetch it. The other callers get the stale value,
    /// or wait up to [`CacheOptions::wait_max`].
    ///
    /// This is the basic operation. Actors use `cache.get_or_lease(key).tell(&recipient, Message::Found)`.
    pub fn get_or_lease(&self, key: impl AsRef<[u8]>) -> Call<Found> {
        self.call(key, |inner, key, reply| inner.look_up(key, reply))
    }

    /// The value. If it is missing or stale and this caller gets the lease, the result of `fetch`, which is then
    /// cached. `None` means that there is no value; this is cached too.
    ///
    /// If `fetch` fails, returns the stale value if there is one. Dropping the future gives the lease to the next
    /// caller.
    ///
    /// # Errors
    /// [`FetchError::Cache`] before `fetch` is called, [`FetchError::Fetch`] if it fails.
    pub async fn get_or_fetch<F, E>(
        &self,
        key: impl AsRef<[u8]>,
        fetch: impl FnOnce() -> F,
    ) -> Result<Option<Bytes>, FetchError<E>>
    where
        F: Future<Output = Result<Option<Bytes>, E>>,
    {
        match self.get_or_lease(key).await? {
            Found::Cached(cached) => Ok(cached.value),
            Found::Lease(lease) => {
                let outcome = fetch().await;
                self.settle(lease, outcome)
            }
        }
    }

    /// Like [`Cache::get_or_fetch`], on the calling thread.
    ///
    /// # Errors
    /// The same.
    pub fn get_or_fetch_blocking<E>(
        &self,
        key: impl AsRef<[u8]>,
        fetch: impl FnOnce() -> Result<Option<Bytes>, E>,
    ) -> Result<Option<Bytes>, FetchError<E>> {
        match self.get_or_lease(key).wait()? {
            Found::Cached(cached) => Ok(cached.value),
            Found::Lease(lease) => {
                let outcome = fetch();
                self.settle(lease, outcome)
            }
        }
    }

    fn settle<E>(
        &self,
        lease: Lease,
        outcome: Result<Option<Bytes>, E>,
    ) -> Result<Option<Bytes>, FetchError<E>> {
        match outcome {
            Ok(value) => {
                // The result is counted; this caller has its value.
                lease.fill(value.clone()).then(|_| {});
                Ok(value)
            }
            Err(error) => match lease.stale() {
                Some(stale) => {
                    self.inner.gauges.fetches_excused.add(1);
                    Ok(stale.value.clone())
                }
                None => Err(FetchError::Fetch(error)),
            },
        }
    }

    /// The cached value, also a stale one. Never fetches.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Call<Option<Cached>> {
        self.call(key, |inner, key, reply| inner.get(key, reply))
    }

    /// Removes the value, and voids the lease of a fetch in progress. [`CacheOptions::lease_every`] still limits the
    /// next lease.
    ///
    /// After an error the value may still be cached, until it expires.
    pub fn invalidate(&self, key: impl AsRef<[u8]>) -> Call<()> {
        self.call(key, |inner, key, reply| {
            inner.invalidate(key, Leave::Nothing, reply);
        })
    }

    /// Like [`Cache::invalidate`], but keeps the value as a stale one, for at most [`CacheOptions::stale_time`].
    pub fn expire(&self, key: impl AsRef<[u8]>) -> Call<()> {
        self.call(key, |inner, key, reply| {
            let leave = Leave::Stale(millis(inner.options.stale_time));
            inner.invalidate(key, leave, reply);
        })
    }

    fn call<T: 'static>(
        &self,
        key: impl AsRef<[u8]>,
        start: impl FnOnce(&Arc<Inner>, Bytes, Reply<T>) + Send + 'static,
    ) -> Call<T> {
        let key = self.inner.full_key(key.as_ref());
        let inner = self.inner.clone();
        let gauges = inner.gauges.clone();
        Call::new(gauges, move |reply| match key {
            Ok(key) => start(&inner, key, reply),
            Err(error) => {
                inner.gauges.refused(&error, 1);
                reply.complete(Err(error));
            }
        })
    }

    /// The counters so far.
    #[must_use]
    pub fn snapshot(&self) -> CacheSnapshot {
        let inner = &self.inner;
        let mut snapshot = inner.gauges.snapshot();
        snapshot.flights = inner.flights.len() as u64;
        snapshot.direct_fetching = inner.bulkhead.taken() as u64;
        snapshot.local_entries = inner.local.as_ref().map_or(0, Local::len) as u64;
        snapshot
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Cache")
            .field("prefix", &self.inner.options.prefix)
            .finish_non_exhaustive()
    }
}
