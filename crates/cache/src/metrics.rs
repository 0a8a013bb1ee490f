//! Counters of a cache, their snapshot, and its metrics.

use freeboard_meter::{Counter, Exposition, Histogram, metrics};
use serde::{Deserialize, Serialize};

use crate::error::CacheError;

metrics! {
    /// Refused callers, by reason.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct ShedSnapshot by "reason";
    #[derive(Debug, Default)]
    counted by pub(crate) struct ShedCounters {
        /// Too many callers waited for the key.
        waiters_full,
        /// Too many keys were being looked up.
        flights_full,
        /// Too many callers fetched without Redis.
        fetches_full,
        /// The key was too long.
        key_too_long,
    }
}

metrics! {
    /// Counters of a cache in this process. Times are in nanoseconds.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct CacheSnapshot: CACHE {
        gauge flights: u64 = "freeboard_cache_flights", "Keys being looked up.";
        gauge direct_fetching: u64 = "freeboard_cache_direct_fetching", "Held leases without Redis.";
        gauge local_entries: u64 = "freeboard_cache_local_entries",
            "Entries of the local layer, including expired ones.";
    }
    /// Counters of one cache. Any thread counts.
    #[derive(Debug, Default)]
    counted by pub(crate) struct CacheGauges {
        counter hits: Counter = "freeboard_cache_hits_total",
            "Callers that got a fresh value from Redis.";
        counter stale_hits: Counter = "freeboard_cache_stale_hits_total",
            "Callers that got a stale value while another caller refreshed it.";
        counter negative_hits: Counter = "freeboard_cache_negative_hits_total",
            "Callers that got the cached answer that there is no value.";
        counter local_hits: Counter = "freeboard_cache_local_hits_total",
            "Callers that got a value from the local layer.";
        counter misses: Counter = "freeboard_cache_misses_total",
            "Callers that found nothing and got the lease, or only read.";
        counter refreshes: Counter = "freeboard_cache_refreshes_total",
            "Callers that got a lease in addition to a usable value.";
        counter early_refreshes: Counter = "freeboard_cache_early_refreshes_total",
            "Callers that got a lease in addition to a fresh value.";
        counter waits: Counter = "freeboard_cache_waits_total",
            "Callers that waited for another's fetch and got its value.";
        counter waits_too_long: Counter = "freeboard_cache_waits_too_long_total",
            "Callers whose wait ended before there was a value.";
        counter notified: Counter = "freeboard_cache_notified_total",
            "Requests repeated because the key was filled or released.";
        counter polled: Counter = "freeboard_cache_polled_total", "Requests repeated by a poll.";
        counter leases_granted: Counter = "freeboard_cache_leases_granted_total",
            "Leases granted by Redis.";
        counter leases_refused: Counter = "freeboard_cache_leases_refused_total",
            "Leases refused because of another holder or the rate limit.";
        counter leases_expired: Counter = "freeboard_cache_leases_expired_total",
            "Leases taken over from a holder that let them expire.";
        counter leases_released: Counter = "freeboard_cache_leases_released_total", "Leases given back.";
        counter fills_stored: Counter = "freeboard_cache_fills_stored_total", "Fills stored.";
        counter fills_refused: Counter = "freeboard_cache_fills_refused_total",
            "Fills refused because the token was void: invalidated meanwhile, or too late.";
        counter fills_failed: Counter = "freeboard_cache_fills_failed_total",
            "Fills with an unknown result.";
        counter fetches_excused: Counter = "freeboard_cache_fetches_excused_total",
            "Failed fetches whose callers got a stale value.";
        counter direct_fetches: Counter = "freeboard_cache_direct_fetches_total",
            "Leases given without Redis.";
        counter invalidations: Counter = "freeboard_cache_invalidations_total",
            "Invalidations requested.";
        counter foreign: Counter = "freeboard_cache_foreign_total",
            "Values under keys of the cache that are not entries.";
        counter redis_failures: Counter = "freeboard_cache_redis_failures_total",
            "Failed commands, except fills and releases.";
        counter replies_refused: Counter = "freeboard_cache_replies_refused_total",
            "Outcomes refused by the recipient's mailbox.";
        counter shed: ShedCounters => ShedSnapshot = "freeboard_cache_shed_total",
            "Refused callers, by reason.";
        summary wait_time: Histogram = "freeboard_cache_wait_seconds",
            "Time that callers waited for another's fetch.";
    }
}

impl CacheGauges {
    /// Counts callers that get an error.
    pub(crate) fn refused(&self, error: &CacheError, callers: usize) {
        let counter = match error {
            CacheError::WaitedTooLong => &self.waits_too_long,
            CacheError::WaitersFull => &self.shed.waiters_full,
            CacheError::FlightsFull => &self.shed.flights_full,
            CacheError::FetchesFull(_) => &self.shed.fetches_full,
            CacheError::KeyTooLong { .. } => &self.shed.key_too_long,
            // Redis errors are counted at their source, once for all callers.
            CacheError::Redis(_) | CacheError::Closed => return,
        };
        counter.add(callers as u64);
    }
}

impl CacheSnapshot {
    /// Adds the metrics to `text`, with the label `cache`.
    pub fn render(&self, cache: &str, text: &mut Exposition) {
        text.metrics(CACHE, &[("cache", cache)], self);
    }
}
