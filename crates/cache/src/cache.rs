//! The cache: a handle on entries in Redis, and on what waits for them in this process.

use std::{fmt, future::Future, sync::Arc};

use bytes::Bytes;
use freeboard_actor::{SpawnOptions, System};
use freeboard_flow::{LaneConfig, Overload};
use freeboard_meter::now_ns;
use freeboard_redis::{Redis, RedisError, Subscription};
use parking_lot::Mutex;

use crate::{
    bulkhead::Bulkhead,
    call::{Call, Reply},
    clock::Clock,
    error::{CacheError, CacheStartError, FetchError},
    flights::{Flights, Limits},
    found::{Cached, Found},
    gauges::Gauges,
    local::Local,
    model::Leave,
    options::{CacheOptions, millis, nanos},
    random::{Chance, Tokens},
    releases::Releases,
    scripts::Scripts,
    snapshot::CacheSnapshot,
    watch::Watch,
};

/// Notifications that wait for the cache's actor at most. What is beyond costs those who wait one poll.
const NOTIFICATIONS_MAX: usize = 4_096;

/// A leased cache on Redis. Cheap to clone; usable from any thread, any runtime, and from actors.
///
/// When the last handle and the last lease are dropped, its actor ends.
#[derive(Clone)]
pub struct Cache {
    inner: Arc<Inner>,
}

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
    pub(crate) gauges: Arc<Gauges>,
    subscription: Mutex<Option<Subscription>>,
}

impl Cache {
    /// A cache over `redis`, with an actor of `system` that hears of fills and keeps time.
    ///
    /// A [`freeboard_redis::Cluster`] does not do: it has no subscriptions, by which those who wait hear of
    /// fills.
    ///
    /// # Errors
    /// [`CacheStartError`]: not that the server cannot be reached. [`RedisError::NotOnCluster`] for a cluster.
    pub fn new(
        system: &System,
        redis: &Redis,
        options: CacheOptions,
    ) -> Result<Self, CacheStartError> {
        options.validate()?;
        let channel = Bytes::from(format!("freeboard-cache:{}", options.prefix));
        let inner = Arc::new(Inner {
            redis: redis.clone(),
            wait_max_ns: nanos(options.wait_max),
            scripts: Scripts::new(channel.clone()),
            clock: Clock::new(options.clock.clone()),
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
        let watch = Watch::new(Arc::downgrade(&inner));
        let watch = system.spawn_once(SpawnOptions::new().lane(lane), watch)?;
        let subscription = redis.subscribe(channel, watch.recipient())?;
        *inner.subscription.lock() = Some(subscription);
        Ok(Self { inner })
    }

    /// The value, or one caller's turn to fetch it: the others of this process and of all processes get the
    /// stale value meanwhile, or wait up to [`CacheOptions::wait_max`].
    ///
    /// All ways of using the cache are built on this. An actor has itself told:
    /// `cache.get_or_lease(key).tell(&recipient, Message::Found)`.
    pub fn get_or_lease(&self, key: impl AsRef<[u8]>) -> Call<Found> {
        self.call(key, |inner, key, reply| inner.look_up(key, reply))
    }

    /// The value; if there is none, or it is stale and the first one to see that is this caller, what `fetch`
    /// brings, which is then cached for all. `None`: there is none, which is cached too.
    ///
    /// If `fetch` fails and a stale value is there, it is that. Dropping the future gives the lease to the next
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

    /// As [`Cache::get_or_fetch`], on this thread.
    ///
    /// # Errors
    /// As there.
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
        lease: crate::Lease,
        outcome: Result<Option<Bytes>, E>,
    ) -> Result<Option<Bytes>, FetchError<E>> {
        match outcome {
            Ok(value) => {
                // What becomes of it is counted; this caller has its value.
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

    /// What is cached, without fetching anything: also a stale value that nobody refreshes.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Call<Option<Cached>> {
        self.call(key, |inner, key, reply| inner.get(key, reply))
    }

    /// What is cached is not true any more. Nobody gets it from now on, and what is being fetched is not stored;
    /// but [`CacheOptions::lease_every`] holds.
    ///
    /// On an error it may not have been done: the value lives to the end of its time.
    pub fn invalidate(&self, key: impl AsRef<[u8]>) -> Call<()> {
        self.call(key, |inner, key, reply| {
            inner.invalidate(key, Leave::Nothing, reply);
        })
    }

    /// As [`Cache::invalidate`], but the value may still be used as a stale one, for
    /// [`CacheOptions::stale_time`] at most.
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

    /// What was counted so far.
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

impl Inner {
    fn full_key(&self, key: &[u8]) -> Result<Bytes, CacheError> {
        let prefix = self.options.prefix.as_bytes();
        let (bytes, max) = (prefix.len() + key.len(), self.options.key_bytes_max);
        match bytes <= max {
            true => Ok(Bytes::from([prefix, key].concat())),
            false => Err(CacheError::KeyTooLong { bytes, max }),
        }
    }

    fn get(self: &Arc<Self>, key: Bytes, reply: Reply<Option<Cached>>) {
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
        let counter = match cached {
            Cached { is_stale: true, .. } => &self.gauges.stale_hits,
            Cached { value: None, .. } => &self.gauges.negative_hits,
            Cached { .. } => &self.gauges.hits,
        };
        counter.add(1);
        if !cached.is_stale {
            self.keep(key, &cached.value, removals);
        }
        reply.complete(Ok(Some(cached)));
    }

    fn fail<T>(&self, error: RedisError, reply: Reply<T>) {
        self.gauges.redis_failures.add(1);
        reply.complete(Err(CacheError::Redis(error)));
    }

    /// Calls `then` with the server's time, which it asks for if it is not known.
    fn with_time(
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

    fn invalidate(self: &Arc<Self>, key: Bytes, leave: Leave, reply: Reply<()>) {
        self.gauges.invalidations.add(1);
        // Before, so that nobody finds it here; and after, for what was asked between the two. An answer that
        // comes later still is not put back.
        let forget = |inner: &Self, key: &Bytes| {
            if let Some(local) = &inner.local {
                local.remove(key);
            }
        };
        forget(self, &key);
        let inner = self.clone();
        self.scripts
            .invalidate(&self.redis, &key, self.clock.simulated_ms(), leave)
            .then(move |answer| {
                forget(&inner, &key);
                match answer {
                    Ok(_) => reply.complete(Ok(())),
                    Err(error) => inner.fail(error, reply),
                }
            });
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
        // The actor finds nothing to watch, and ends.
        self.flights.call();
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
