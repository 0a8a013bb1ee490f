//! Counters of a cache, their snapshot, and the Prometheus text.

use freeboard_meter::{Counter, Exposition, FamilyKind, Histogram, HistogramSummary};
use serde::{Deserialize, Serialize};

use crate::error::CacheError;

/// Counters of one cache; [`CacheSnapshot`] documents each.
#[derive(Debug, Default)]
pub(crate) struct CacheGauges {
    pub(crate) hits: Counter,
    pub(crate) stale_hits: Counter,
    pub(crate) negative_hits: Counter,
    pub(crate) local_hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) refreshes: Counter,
    pub(crate) early_refreshes: Counter,
    pub(crate) waits: Counter,
    pub(crate) waits_too_long: Counter,
    pub(crate) notified: Counter,
    pub(crate) polled: Counter,
    pub(crate) leases_granted: Counter,
    pub(crate) leases_refused: Counter,
    pub(crate) leases_expired: Counter,
    pub(crate) leases_released: Counter,
    pub(crate) fills_stored: Counter,
    pub(crate) fills_refused: Counter,
    pub(crate) fills_failed: Counter,
    pub(crate) fetches_excused: Counter,
    pub(crate) direct_fetches: Counter,
    pub(crate) invalidations: Counter,
    pub(crate) foreign: Counter,
    pub(crate) redis_failures: Counter,
    pub(crate) replies_refused: Counter,
    waiters_full: Counter,
    flights_full: Counter,
    fetches_full: Counter,
    key_too_long: Counter,
    pub(crate) wait_time: Histogram,
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

    /// All counters, without the gauges of current state.
    pub(crate) fn snapshot(&self) -> CacheSnapshot {
        CacheSnapshot {
            hits: self.hits.get(),
            stale_hits: self.stale_hits.get(),
            negative_hits: self.negative_hits.get(),
            local_hits: self.local_hits.get(),
            misses: self.misses.get(),
            refreshes: self.refreshes.get(),
            early_refreshes: self.early_refreshes.get(),
            waits: self.waits.get(),
            waits_too_long: self.waits_too_long.get(),
            notified: self.notified.get(),
            polled: self.polled.get(),
            leases_granted: self.leases_granted.get(),
            leases_refused: self.leases_refused.get(),
            leases_expired: self.leases_expired.get(),
            leases_released: self.leases_released.get(),
            fills_stored: self.fills_stored.get(),
            fills_refused: self.fills_refused.get(),
            fills_failed: self.fills_failed.get(),
            fetches_excused: self.fetches_excused.get(),
            direct_fetches: self.direct_fetches.get(),
            invalidations: self.invalidations.get(),
            foreign: self.foreign.get(),
            redis_failures: self.redis_failures.get(),
            replies_refused: self.replies_refused.get(),
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

/// Counters of a cache in this process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheSnapshot {
    /// Callers that got a fresh value from Redis.
    pub hits: u64,
    /// Callers that got a stale value while another caller refreshed it.
    pub stale_hits: u64,
    /// Callers that got the cached answer that there is no value.
    pub negative_hits: u64,
    /// Callers that got a value from the local layer.
    pub local_hits: u64,
    /// Callers that found nothing and got the lease, or only read.
    pub misses: u64,
    /// Callers that got a lease in addition to a usable value.
    pub refreshes: u64,
    /// Callers that got a lease in addition to a fresh value.
    pub early_refreshes: u64,
    /// Callers that waited for another's fetch and got its value.
    pub waits: u64,
    /// Callers whose wait ended before there was a value.
    pub waits_too_long: u64,
    /// Requests repeated because the key was filled or released.
    pub notified: u64,
    /// Requests repeated by a poll.
    pub polled: u64,
    /// Leases granted by Redis.
    pub leases_granted: u64,
    /// Leases refused because of another holder or the rate limit.
    pub leases_refused: u64,
    /// Leases taken over from a holder that let them expire.
    pub leases_expired: u64,
    /// Leases given back.
    pub leases_released: u64,
    /// Fills stored.
    pub fills_stored: u64,
    /// Fills refused because the token was void: invalidated meanwhile, or too late.
    pub fills_refused: u64,
    /// Fills with an unknown result.
    pub fills_failed: u64,
    /// Failed fetches whose callers got a stale value.
    pub fetches_excused: u64,
    /// Leases given without Redis.
    pub direct_fetches: u64,
    /// Invalidations requested.
    pub invalidations: u64,
    /// Values under keys of the cache that are not entries.
    pub foreign: u64,
    /// Failed commands, except fills and releases.
    pub redis_failures: u64,
    /// Outcomes refused by the recipient's mailbox.
    pub replies_refused: u64,
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
        for (name, kind, help, field) in FAMILIES {
            text.family(name, *kind, help);
            text.sample(name, &[label], field(self) as f64);
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

type Family = (
    &'static str,
    FamilyKind,
    &'static str,
    fn(&CacheSnapshot) -> u64,
);

/// Declares each metric in one row.
macro_rules! families {
    ($($kind:ident $name:literal = |$it:ident| $value:expr, $help:literal;)+) => {
        const FAMILIES: &[Family] = &[$(($name, FamilyKind::$kind, $help, |$it| $value),)+];
    };
}

families! {
    Counter "freeboard_cache_hits_total" = |it| it.hits,
        "Callers that got a fresh value from Redis.";
    Counter "freeboard_cache_stale_hits_total" = |it| it.stale_hits,
        "Callers that got a stale value while another caller refreshed it.";
    Counter "freeboard_cache_negative_hits_total" = |it| it.negative_hits,
        "Callers that got the cached answer that there is no value.";
    Counter "freeboard_cache_local_hits_total" = |it| it.local_hits,
        "Callers that got a value from the local layer.";
    Counter "freeboard_cache_misses_total" = |it| it.misses,
        "Callers that found nothing and got the lease, or only read.";
    Counter "freeboard_cache_refreshes_total" = |it| it.refreshes,
        "Callers that got a lease in addition to a usable value.";
    Counter "freeboard_cache_early_refreshes_total" = |it| it.early_refreshes,
        "Callers that got a lease in addition to a fresh value.";
    Counter "freeboard_cache_waits_total" = |it| it.waits,
        "Callers that waited for another's fetch and got its value.";
    Counter "freeboard_cache_waits_too_long_total" = |it| it.waits_too_long,
        "Callers whose wait ended before there was a value.";
    Counter "freeboard_cache_notified_total" = |it| it.notified,
        "Requests repeated because the key was filled or released.";
    Counter "freeboard_cache_polled_total" = |it| it.polled,
        "Requests repeated by a poll.";
    Counter "freeboard_cache_leases_granted_total" = |it| it.leases_granted,
        "Leases granted by Redis.";
    Counter "freeboard_cache_leases_refused_total" = |it| it.leases_refused,
        "Leases refused because of another holder or the rate limit.";
    Counter "freeboard_cache_leases_expired_total" = |it| it.leases_expired,
        "Leases taken over from a holder that let them expire.";
    Counter "freeboard_cache_leases_released_total" = |it| it.leases_released,
        "Leases given back.";
    Counter "freeboard_cache_fills_stored_total" = |it| it.fills_stored,
        "Fills stored.";
    Counter "freeboard_cache_fills_refused_total" = |it| it.fills_refused,
        "Fills refused because the token was void: invalidated meanwhile, or too late.";
    Counter "freeboard_cache_fills_failed_total" = |it| it.fills_failed,
        "Fills with an unknown result.";
    Counter "freeboard_cache_fetches_excused_total" = |it| it.fetches_excused,
        "Failed fetches whose callers got a stale value.";
    Counter "freeboard_cache_direct_fetches_total" = |it| it.direct_fetches,
        "Leases given without Redis.";
    Counter "freeboard_cache_invalidations_total" = |it| it.invalidations,
        "Invalidations requested.";
    Counter "freeboard_cache_foreign_total" = |it| it.foreign,
        "Values under keys of the cache that are not entries.";
    Counter "freeboard_cache_redis_failures_total" = |it| it.redis_failures,
        "Failed commands, except fills and releases.";
    Counter "freeboard_cache_replies_refused_total" = |it| it.replies_refused,
        "Outcomes refused by the recipient's mailbox.";
    Gauge "freeboard_cache_flights" = |it| it.flights,
        "Keys being looked up.";
    Gauge "freeboard_cache_direct_fetching" = |it| it.direct_fetching,
        "Held leases without Redis.";
    Gauge "freeboard_cache_local_entries" = |it| it.local_entries,
        "Entries of the local layer, including expired ones.";
}
