//! Settings of a cache.

use std::time::Duration;

use freeboard_flow::Backoff;

use crate::{clock::SimulatedClock, error::CacheOptionsError};

/// Settings of a cache. All that share its entries should agree on them; each entry carries its own times, so
/// that nothing breaks while they do not.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// Stands before every key in Redis, and names the channel of those who wait. Caches that share entries
    /// share it, others must not. Default `cache:`.
    pub prefix: String,
    /// How long a value is fresh; default 60 s.
    pub fresh_time: Duration,
    /// How long after that, or after [`crate::Cache::expire`], it may be used while somebody refreshes it;
    /// default 30 s. 0: a value that is not fresh is not used.
    pub stale_time: Duration,
    /// How long it is remembered that there is no value; default 5 s.
    pub negative_time: Duration,
    /// How long a lease holds. A holder that fetches longer does so in vain, and one that has died holds the
    /// key up so long; default 10 s.
    pub lease_time: Duration,
    /// A key's least time from one lease to the next, however often it is invalidated; default 1 s. Misses
    /// between the two wait, or use the stale value: if it is longer than `wait_max`, a miss soon after an
    /// invalidation ends as [`crate::CacheError::WaitedTooLong`]. A lease that was released, or a value that
    /// became stale in its own time, does not count.
    pub lease_every: Duration,
    /// How long a caller waits for somebody else's fetch, and for the end of the rate limit; default 3 s. To be
    /// longer than `lease_every` by what a fetch takes.
    pub wait_max: Duration,
    /// The distances between two polls, in case a notification is lost, and between two tries to give a lease
    /// back; default from 20 ms, doubling, to 500 ms.
    pub poll: Backoff,
    /// Above 1, values are refreshed earlier; below 1, later; 0, only once they are stale. Default 1, the
    /// optimum if all fetches of a key took the same time. Nothing is refreshed under the rate limit of
    /// `lease_every`.
    pub early_beta: f64,
    /// Where the chance of early refreshes starts; default differs from run to run.
    pub seed: Option<u64>,
    /// What to do while Redis does not answer; default to fetch.
    pub fallback: Fallback,
    /// The most fetches at once without Redis, in this process; default 64.
    pub fetches_max: usize,
    /// The most callers of this process that wait for one key; default 4,096.
    pub waiters_max: usize,
    /// The most keys that this process looks up at once, and the most leases that it gives back once more; default
    /// 16,384.
    pub flights_max: usize,
    /// The longest key, prefix included; default 1 KiB.
    pub key_bytes_max: usize,
    /// The largest value that is stored; a larger one is given to who fetched it, and released. Default
    /// 1 MiB.
    pub value_bytes_max: usize,
    /// A layer of this process before Redis; default none.
    pub local: Option<LocalOptions>,
    /// A test's time in place of the server's; default none.
    pub clock: Option<SimulatedClock>,
}

/// What to do while Redis is down, has no room, or does not answer in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// Nothing: callers get [`crate::CacheError::Redis`].
    Fail,
    /// Give callers leases on nothing, [`CacheOptions::fetches_max`] at once and one for each key. What they
    /// fetch is not stored.
    #[default]
    Fetch,
}

/// Settings of the layer in this process. It does not hear of what others invalidate, so its values live
/// shortly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalOptions {
    /// The most entries.
    pub entries_max: usize,
    /// The most bytes of keys and values.
    pub bytes_max: usize,
    /// How long an entry is used: as long as another's invalidation may go unnoticed here.
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
            clock: None,
        }
    }
}

/// No time of an entry is longer: a hundred years.
const TIME_MAX_MS: u64 = 100 * 365 * 24 * 60 * 60 * 1_000;
const COUNT_MAX: u64 = u32::MAX as u64;
/// What Redis takes for a string.
const BYTES_MAX: u64 = 512 << 20;
const BETA_MAX: f64 = 1e6;

impl CacheOptions {
    pub(crate) fn validate(&self) -> Result<(), CacheOptionsError> {
        let local = self.local.unwrap_or_default();
        for (name, value, min, max) in [
            ("fresh_time in ms", millis(self.fresh_time), 1, TIME_MAX_MS),
            ("stale_time in ms", millis(self.stale_time), 0, TIME_MAX_MS),
            (
                "negative_time in ms",
                millis(self.negative_time),
                1,
                TIME_MAX_MS,
            ),
            ("lease_time in ms", millis(self.lease_time), 1, TIME_MAX_MS),
            (
                "lease_every in ms",
                millis(self.lease_every),
                0,
                TIME_MAX_MS,
            ),
            ("wait_max in ms", millis(self.wait_max), 0, TIME_MAX_MS),
            ("poll.min_ns", self.poll.min_ns, 1_000_000, u64::MAX),
            ("fetches_max", self.fetches_max as u64, 0, COUNT_MAX),
            ("waiters_max", self.waiters_max as u64, 1, COUNT_MAX),
            ("flights_max", self.flights_max as u64, 1, COUNT_MAX),
            ("key_bytes_max", self.key_bytes_max as u64, 1, BYTES_MAX),
            (
                "value_bytes_max",
                self.value_bytes_max as u64,
                0,
                BYTES_MAX / 2,
            ),
            ("local.entries_max", local.entries_max as u64, 1, COUNT_MAX),
            ("local.bytes_max", local.bytes_max as u64, 1, u64::MAX / 2),
            ("local.time in ms", millis(local.time), 1, TIME_MAX_MS),
        ] {
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

/// In nanoseconds; what is longer than they can say is for ever.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_out_of_range_are_named() {
        let check = |options: CacheOptions, text: &str| {
            assert_eq!(options.validate().unwrap_err().to_string(), text);
        };
        let default = CacheOptions::default;
        assert_eq!(default().validate(), Ok(()));
        let lease_time = Duration::ZERO;
        let wanted = "lease_time in ms must be between 1 and 3153600000000";
        check(
            CacheOptions {
                lease_time,
                ..default()
            },
            wanted,
        );
        let wanted = "early_beta must be between 0 and 1000000";
        check(
            CacheOptions {
                early_beta: f64::NAN,
                ..default()
            },
            wanted,
        );
        let local = LocalOptions {
            entries_max: 0,
            ..LocalOptions::default()
        };
        let wanted = "local.entries_max must be between 1 and 4294967295";
        check(
            CacheOptions {
                local: Some(local),
                ..default()
            },
            wanted,
        );
    }
}
