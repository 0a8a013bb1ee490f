//! Errors of calls, fetches and options.

use freeboard_actor::SpawnError;
use freeboard_redis::RedisError;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// Redis did not answer or returned an error, and the cache does not fetch without it
    /// ([`crate::Fallback::Fail`]).
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// Another caller fetches, or the rate limit holds after an invalidation, and there was no value within
    /// [`crate::CacheOptions::wait_max`].
    #[error("no other caller filled the key in time")]
    WaitedTooLong,
    /// Too many callers wait for the key ([`crate::CacheOptions::waiters_max`]).
    #[error("too many callers wait for the key")]
    WaitersFull,
    /// Too many keys are being looked up ([`crate::CacheOptions::flights_max`]).
    #[error("too many keys are being looked up")]
    FlightsFull,
    /// Redis did not answer, and too many callers fetch without it ([`crate::CacheOptions::fetches_max`]).
    #[error("too many callers fetch without Redis, which failed: {0}")]
    FetchesFull(RedisError),
    /// The key is longer than [`crate::CacheOptions::key_bytes_max`].
    #[error("a key of {bytes} bytes; the limit is {max}")]
    KeyTooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The cache's system was shut down.
    #[error("the cache was shut down")]
    Closed,
}

/// Why [`crate::Cache::get_or_fetch`] failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError<E> {
    /// The cache failed, so nothing was fetched.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The fetch failed, and there is no stale value.
    #[error("the fetch failed: {0}")]
    Fetch(E),
}

/// Why a cache could not be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheStartError {
    /// The options are invalid.
    #[error(transparent)]
    Options(#[from] CacheOptionsError),
    /// The cache's actor could not be spawned.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The client accepts no subscription.
    #[error(transparent)]
    Redis(#[from] RedisError),
}

/// Invalid options.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CacheOptionsError {
    /// A number is out of range.
    #[error("{name} must be between {min} and {max}")]
    Range {
        /// Its name.
        name: &'static str,
        /// Its minimum.
        min: u64,
        /// Its maximum.
        max: u64,
    },
    /// `early_beta` is out of range.
    #[error("early_beta must be between 0 and 1000000")]
    EarlyBeta,
    /// `poll` is invalid.
    #[error(transparent)]
    Poll(#[from] freeboard_flow::ConfigError),
}
