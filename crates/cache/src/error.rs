//! What can become of a call besides its answer.

use freeboard_actor::SpawnError;
use freeboard_redis::RedisError;

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// Redis did not answer, or refused, and the cache is not to fetch without it
    /// ([`crate::Fallback::Fail`]).
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// Somebody else fetches, or fetched a moment ago what was then invalidated, and there was no value
    /// within [`crate::CacheOptions::wait_max`].
    #[error("nobody filled the key while it was waited for")]
    WaitedTooLong,
    /// As many callers wait for the key as may ([`crate::CacheOptions::waiters_max`]).
    #[error("too many callers wait for the key")]
    WaitersFull,
    /// As many keys are being looked up as may be ([`crate::CacheOptions::flights_max`]).
    #[error("too many keys are being looked up")]
    FlightsFull,
    /// Redis did not answer, and as many fetch without it as may ([`crate::CacheOptions::fetches_max`]).
    #[error("too many fetch without Redis, which says: {0}")]
    FetchesFull(RedisError),
    /// The key is longer than [`crate::CacheOptions::key_bytes_max`].
    #[error("a key of {bytes} bytes, at most {max} are allowed")]
    KeyTooLong {
        /// Its length.
        bytes: usize,
        /// The most that is allowed.
        max: usize,
    },
    /// The cache has ended with its system.
    #[error("the cache has ended")]
    Closed,
}

/// Why [`crate::Cache::get_or_fetch`] has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError<E> {
    /// The cache had no answer, so nothing was fetched.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The fetch failed, and there is no stale value to use in its place.
    #[error("the fetch failed: {0}")]
    Fetch(E),
}

/// Why a cache could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheStartError {
    /// The options make no sense.
    #[error(transparent)]
    Options(#[from] CacheOptionsError),
    /// The cache's actor could not be spawned.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The client has no subscription to give.
    #[error(transparent)]
    Redis(#[from] RedisError),
}

/// Settings that make no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CacheOptionsError {
    /// A number is out of range.
    #[error("{name} must be between {min} and {max}")]
    Range {
        /// Its name.
        name: &'static str,
        /// Its least value.
        min: u64,
        /// Its greatest value.
        max: u64,
    },
    /// Not between 0 and a million.
    #[error("early_beta must be between 0 and 1000000")]
    EarlyBeta,
    /// The distances between two polls.
    #[error(transparent)]
    Poll(#[from] freeboard_flow::ConfigError),
}
