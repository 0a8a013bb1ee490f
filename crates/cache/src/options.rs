//! Options of a cache.

use std::time::Duration;

use freeboard_flow::Backoff;

#[cfg(feature = "test-util")]
use crate::clock::SimulatedClock;
use crate::error::CacheOptionsError;

/// Options of a cache. Caches that share entries should use the same options; each entry carries its own times, so
/// differences do no harm.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// Prefix of every key in Redis, and of the notification channel. Caches that share entries must share it, other
    /// caches must not. Default `cache:`.
    pub prefix: String,
    /// Time for which a value is fresh; default 60 s.
    pub fresh_time: Duration,
    /// Time after that, or after [`crate::Cache::expire`], in which the stale value may be used while one caller
    /// refreshes it; default 30 s. With 0, only fresh values are used.
    pub stale_time: Duration,
    /// Time for which it is cached that there is no value; default 5 s.
    pub negative_time: Duration,
    /// Duration of a lease; default 10 s. The fill of a slower fetch is refused, and a crashed holder blocks the key
    /// for this time.
    pub lease_time: Duration,
    /// Minimum time between two leases of a key, however often it is invalidated; default 1 s. Misses in between
    /// wait, or use the stale value. If this is longer than `wait_max`, a miss soon after an invalidation fails with
    /// [`crate::CacheError::WaitedTooLong`]. The limit does not apply after a release, nor to a value that became
    /// stale by time.
    pub lease_every: Duration,
    /// Limit of a caller's wait for another's fetch, and for the rate limit; default 3 s. It should exceed
    /// `lease_every` by the duration of a fetch.
    pub wait_max: Duration,
    /// Back-off between polls, which are needed if a notification is lost, and between attempts to give a lease back;
    /// default from 20 ms, doubling, to 500 ms.
    pub poll: Backoff,
    /// Above 1, values are refreshed earlier; below 1, later; with 0, only once they are stale. Default 1, the
    /// optimum if all fetches of a key take the same time. Nothing is refreshed within `lease_every`.
    pub early_beta: f64,
    /// Random seed of early refreshes; default differs from run to run.
    pub seed: Option<u64>,
    /// Behaviour while Redis does not answer; default [`Fallback::Fetch`].
    pub fallback: Fallback,
    /// Limit of concurrent fetches without Redis, in this process; default 64.
    pub fetches_max: usize,
    /// Limit of callers of this process that wait for one key; default 4,096.
    pub waiters_max: usize,
    /// Limit of keys that this process looks up concurrently, and of leases whose release it retries; default
    /// 16,384.
    pub flights_max: usize,
    /// Limit of a key with its prefix; default 1 KiB.
    pub key_bytes_max: usize,
    /// Limit of a stored value; default 1 MiB. A larger value goes only to the callers of this process.
    pub value_bytes_max: usize,
    /// A local layer in this process before Redis; default none.
    pub local: Option<LocalOptions>,
    /// A test's time, instead of the server's; default none.
    #[cfg(feature = "test-util")]
    pub clock: Option<SimulatedClock>,
}

/// Behaviour while Redis is down, the client has no capacity, or an answer is late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// Callers get [`crate::CacheError::Redis`].
    Fail,
    /// Callers get direct leases, at most [`CacheOptions::fetches_max`], and one per key. Their values are not
    /// stored.
    #[default]
    Fetch,
}

/// Options of the local layer. It does not receive invalidations of other processes, so its values expire soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalOptions {
    /// Limit of entries.
    pub entries_max: usize,
    /// Limit of the bytes of keys and values.
    pub bytes_max: usize,
    /// Life time of an entry, and so the delay after which another process's invalidation takes effect here.
    pub time: Duration,
}

impl Default for LocalOptions {
    fn default() -> Self {
        Self {
            entries_max: 10_000,
            bytes_max: 16 << 20,
            time: Duration::from_millis(500),
        }
    }
}

impl Default for CacheOptions {
    fn default() -> Self {
        let milli = 1_000_000;
        Self {
            prefix: "cache:".to_owned(),
            fresh_time: Duration::from_secs(60),
            stale_time: Duration::from_secs(30),
            negative_time: Duration::from_secs(5),
            lease_time: Duration::from_secs(10),
            lease_every: Duration::from_secs(1),
            wait_max: Duration::from_secs(3),
            poll: Backoff {
                min_ns: 20 * milli,
                max_ns: 500 * milli,
                factor: 2,
            },
            early_beta: 1.0,
            seed: None,
            fallback: Fallback::default(),
            fetches_max: 64,
            waiters_max: 4_096,
            flights_max: 16_384,
            key_bytes_max: 1 << 10,
            value_bytes_max: 1 << 20,
            local: None,
            #[cfg(feature = "test-util")]
            clock: None,
        }
    }
}

/// Limit of times: a hundred years.
const TIME_MAX_MS: u64 = 100 * 365 * 24 * 60 * 60 * 1_000;
const COUNT_MAX: u64 = u32::MAX as u64;
/// Redis' limit of a string.
const BYTES_MAX: u64 = 512 << 20;
const BETA_MAX: f64 = 1e6;

impl CacheOptions {
    pub(crate) fn validate(&self) -> Result<(), CacheOptionsError> {
        let local = self.local.unwrap_or_default();
        let times = [
            ("fresh_time in ms", self.fresh_time, 1),
            ("stale_time in ms", self.stale_time, 0),
            ("negative_time in ms", self.negative_time, 1),
            ("lease_time in ms", self.lease_time, 1),
            ("lease_every in ms", self.lease_every, 0),
            ("wait_max in ms", self.wait_max, 0),
            ("local.time in ms", local.time, 1),
        ];
        let counts = [
            ("fetches_max", self.fetches_max, 0, COUNT_MAX),
            ("waiters_max", self.waiters_max, 1, COUNT_MAX),
            ("flights_max", self.flights_max, 1, COUNT_MAX),
            ("key_bytes_max", self.key_bytes_max, 1, BYTES_MAX),
            ("value_bytes_max", self.value_bytes_max, 0, BYTES_MAX / 2),
            ("local.entries_max", local.entries_max, 1, COUNT_MAX),
            ("local.bytes_max", local.bytes_max, 1, u64::MAX / 2),
        ];
        let times = times.map(|(name, time, min)| (name, millis(time), min, TIME_MAX_MS));
        let counts = counts.map(|(name, count, min, max)| (name, count as u64, min, max));
        let poll = ("poll.min_ns", self.poll.min_ns, 1_000_000, u64::MAX);
        for (name, value, min, max) in times.into_iter().chain(counts).chain([poll]) {
            if !(min..=max).contains(&value) {
                return Err(CacheOptionsError::Range { name, min, max });
            }
        }
        if !(0.0..=BETA_MAX).contains(&self.early_beta) {
            return Err(CacheOptionsError::EarlyBeta);
        }
        Ok(self.poll.validate()?)
    }
}

/// In whole milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// In nanoseconds, saturating.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
