//! Counters of a cache, their snapshot, and the Prometheus text.

use freeboard_meter::{Counter, Exposition, FamilyKind, Histogram, HistogramSummary};
use serde::{Deserialize, Serialize};

use crate::error::CacheError;

/// Declares each counter once: the counter itself, its field in the snapshot, and its Prometheus family.
macro_rules! counters {
    ($($field:ident $name:literal $help:literal;)+) => {
        /// Counters of one cache. Any thread counts.
        #[derive(Debug, Default)]
        pub(crate) struct CacheGauges {
            $(pub(crate) $field: Counter,)+
            waiters_full: Counter,
            flights_full: Counter,
            fetches_full: Counter,
            key_too_long: Counter,
            pub(crate) wait_time: Histogram,
        }

        /// Counters of a cache in this process.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct CacheSnapshot {
            $(#[doc = $help] pub $field: u64,)+
            /// Refused callers, by reason.
            pub shed: ShedSnapshot,
            /// Keys being looked up.
            pub flights: u64,
            /// Held leases without Redis.
            pub direct_fetching: u64,
            /// Entries of the local layer, including expired ones.
            pub local_entries: u64,
            /// Time that callers waited for another's fetch, in nanoseconds.
            pub wait_time: HistogramSummary,
        }

        impl CacheGauges {
            /// All counters, without the gauges of current state.
            pub(crate) fn snapshot(&self) -> CacheSnapshot {
                CacheSnapshot {
                    $($field: self.$field.get(),)+
                    shed: ShedSnapshot {
                        waiters_full: self.waiters_full.get(),
                        flights_full: self.flights_full.get(),
                        fetches_full: self.fetches_full.get(),
                        key_too_long: self.key_too_long.get(),
                    },
                    wait_time: self.wait_time.summary(),
                    ..CacheSnapshot::default()
                }
            }
        }

        type Read = fn(&CacheSnapshot) -> u64;

        const COUNTERS: &[(&str, &str, Read)] = &[$(($name, $help, |it| it.$field),)+];
    };
}

counters! {
    hits "freeboard_cache_hits_total"
        "Callers that got a fresh value from Redis.";
    stale_hits "freeboard_cache_stale_hits_total"
        "Callers that got a stale value while another caller refreshed it.";
    negative_hits "freeboard_cache_negative_hits_total"
        "Callers that got the cached answer that there is no value.";
    local_hits "freeboard_cache_local_hits_total"
        "Callers that got a value from the local layer.";
    misses "freeboard_cache_misses_total"
        "Callers that found nothing and got the lease, or only read.";
    refreshes "freeboard_cache_refreshes_total"
        "Callers that got a lease in addition to a usable value.";
    early_refreshes "freeboard_cache_early_refreshes_total"
        "Callers that got a lease in addition to a fresh value.";
    waits "freeboard_cache_waits_total"
        "Callers that waited for another's fetch and got its value.";
    waits_too_long "freeboard_cache_waits_too_long_total"
        "Callers whose wait ended before there was a value.";
    notified "freeboard_cache_notified_total"
        "Requests repeated because the key was filled or released.";
    polled "freeboard_cache_polled_total"
        "Requests repeated by a poll.";
    leases_granted "freeboard_cache_leases_granted_total"
        "Leases granted by Redis.";
    leases_refused "freeboard_cache_leases_refused_total"
        "Leases refused because of another holder or the rate limit.";
    leases_expired "freeboard_cache_leases_expired_total"
        "Leases taken over from a holder that let them expire.";
    leases_released "freeboard_cache_leases_released_total"
        "Leases given back.";
    fills_stored "freeboard_cache_fills_stored_total"
        "Fills stored.";
    fills_refused "freeboard_cache_fills_refused_total"
        "Fills refused because the token was void: invalidated meanwhile, or too late.";
    fills_failed "freeboard_cache_fills_failed_total"
        "Fills with an unknown result.";
    fetches_excused "freeboard_cache_fetches_excused_total"
        "Failed fetches whose callers got a stale value.";
    direct_fetches "freeboard_cache_direct_fetches_total"
        "Leases given without Redis.";
    invalidations "freeboard_cache_invalidations_total"
        "Invalidations requested.";
    foreign "freeboard_cache_foreign_total"
        "Values under keys of the cache that are not entries.";
    redis_failures "freeboard_cache_redis_failures_total"
        "Failed commands, except fills and releases.";
    replies_refused "freeboard_cache_replies_refused_total"
        "Outcomes refused by the recipient's mailbox.";
}

impl CacheGauges {
    /// Counts callers that get an error.
    pub(crate) fn refused(&self, error: &CacheError, callers: usize) {
        let counter = match error {
            CacheError::WaitedTooLong => &self.waits_too_long,
            CacheError::WaitersFull => &self.waiters_full,
            CacheError::FlightsFull => &self.flights_full,
            CacheError::FetchesFull(_) => &self.fetches_full,
            CacheError::KeyTooLong { .. } => &self.key_too_long,
            // Redis errors are counted at their source, once for all callers.
            CacheError::Redis(_) | CacheError::Closed => return,
        };
        counter.add(callers as u64);
    }
}

/// Refused callers, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShedSnapshot {
    /// Too many callers waited for the key.
    pub waiters_full: u64,
    /// Too many keys were being looked up.
    pub flights_full: u64,
    /// Too many callers fetched without Redis.
    pub fetches_full: u64,
    /// The key was too long.
    pub key_too_long: u64,
}

impl CacheSnapshot {
    /// Adds the metric families to `text`, with the label `cache`.
    pub fn render(&self, cache: &str, text: &mut Exposition) {
        let label = ("cache", cache);
        for (name, help, field) in COUNTERS {
            text.family(name, FamilyKind::Counter, help);
            text.sample(name, &[label], field(self) as f64);
        }
        for (name, help, value) in [
            (
                "freeboard_cache_flights",
                "Keys being looked up.",
                self.flights,
            ),
            (
                "freeboard_cache_direct_fetching",
                "Held leases without Redis.",
                self.direct_fetching,
            ),
            (
                "freeboard_cache_local_entries",
                "Entries of the local layer, including expired ones.",
                self.local_entries,
            ),
        ] {
            text.family(name, FamilyKind::Gauge, help);
            text.sample(name, &[label], value as f64);
        }
        let name = "freeboard_cache_shed_total";
        let help = "Refused callers, by reason.";
        text.family(name, FamilyKind::Counter, help);
        for (reason, count) in [
            ("waiters_full", self.shed.waiters_full),
            ("flights_full", self.shed.flights_full),
            ("fetches_full", self.shed.fetches_full),
            ("key_too_long", self.shed.key_too_long),
        ] {
            text.sample(name, &[label, ("reason", reason)], count as f64);
        }
        let name = "freeboard_cache_wait_seconds";
        let help = "Time that callers waited for another's fetch.";
        text.family(name, FamilyKind::Summary, help);
        text.summary(name, &[label], &self.wait_time);
    }
}
