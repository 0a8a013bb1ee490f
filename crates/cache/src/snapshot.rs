//! What a cache has counted, as plain data and as Prometheus text.

use freeboard_meter::{Exposition, FamilyKind, HistogramSummary};
use serde::{Deserialize, Serialize};

/// One cache in this process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheSnapshot {
    /// Callers that got a fresh value out of Redis.
    pub hits: u64,
    /// Callers that got a stale value, while somebody else refreshed it.
    pub stale_hits: u64,
    /// Callers that got the news, still fresh, that there is no value.
    pub negative_hits: u64,
    /// Callers that got a value out of the layer of this process.
    pub local_hits: u64,
    /// Callers that found nothing and got the lease, or nothing but asked for no lease.
    pub misses: u64,
    /// Callers that got a lease beside a value that could still be used.
    pub refreshes: u64,
    /// Those of them whose value was still fresh.
    pub early_refreshes: u64,
    /// Callers that waited for another's fetch and got its value.
    pub waits: u64,
    /// Callers whose wait was over before there was a value.
    pub waits_too_long: u64,
    /// Questions that were asked again because the key was filled or freed.
    pub notified: u64,
    /// Questions that were asked again because it was time.
    pub polled: u64,
    /// Leases that Redis gave.
    pub leases_granted: u64,
    /// Answers of Redis that somebody else has, or had, the lease.
    pub leases_refused: u64,
    /// Leases that were taken over from a holder that let them run out.
    pub leases_expired: u64,
    /// Leases that were given back.
    pub leases_released: u64,
    /// Fills that were stored.
    pub fills_stored: u64,
    /// Fills whose token was void: invalidated meanwhile, or too late.
    pub fills_refused: u64,
    /// Fills of which it is not known whether they were stored.
    pub fills_failed: u64,
    /// Fetches that failed beside a value that was used in their place.
    pub fetches_excused: u64,
    /// Leases that were given without Redis.
    pub direct_fetches: u64,
    /// Invalidations that were asked for.
    pub invalidations: u64,
    /// Values under our keys that are not ours.
    pub foreign: u64,
    /// Commands that Redis did not answer, or refused, but for fills and releases.
    pub redis_failures: u64,
    /// Outcomes that the mailbox they were for refused.
    pub replies_refused: u64,
    /// Callers that were refused, by reason.
    pub shed: ShedSnapshot,
    /// Keys that are being looked up.
    pub flights: u64,
    /// Leases without Redis that are held.
    pub direct_fetching: u64,
    /// Entries of the layer of this process, those that are too old among them.
    pub local_entries: u64,
    /// How long callers waited for another's fetch, in nanoseconds.
    pub wait_time: HistogramSummary,
}

/// Callers that were refused, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShedSnapshot {
    /// As many callers waited for the key as may.
    pub waiters_full: u64,
    /// As many keys were being looked up as may be.
    pub flights_full: u64,
    /// As many fetched without Redis as may.
    pub fetches_full: u64,
    /// The key was too long.
    pub key_too_long: u64,
}

impl CacheSnapshot {
    /// Adds the families to `text`, labelled with `cache`.
    pub fn render(&self, cache: &str, text: &mut Exposition) {
        let label = ("cache", cache);
        for (name, kind, help, field) in FAMILIES {
            text.family(name, *kind, help);
            text.sample(name, &[label], field(self) as f64);
        }
        let name = "freeboard_cache_shed_total";
        let help = "Callers that were refused, by reason.";
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
        let help = "How long callers waited for another's fetch.";
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

const FAMILIES: &[Family] = &[
    (
        "freeboard_cache_hits_total",
        FamilyKind::Counter,
        "Callers that got a fresh value out of Redis.",
        |it| it.hits,
    ),
    (
        "freeboard_cache_stale_hits_total",
        FamilyKind::Counter,
        "Callers that got a stale value, while somebody else refreshed it.",
        |it| it.stale_hits,
    ),
    (
        "freeboard_cache_negative_hits_total",
        FamilyKind::Counter,
        "Callers that got the news, still fresh, that there is no value.",
        |it| it.negative_hits,
    ),
    (
        "freeboard_cache_local_hits_total",
        FamilyKind::Counter,
        "Callers that got a value out of the layer of this process.",
        |it| it.local_hits,
    ),
    (
        "freeboard_cache_misses_total",
        FamilyKind::Counter,
        "Callers that found nothing and got the lease, or nothing but asked for no lease.",
        |it| it.misses,
    ),
    (
        "freeboard_cache_refreshes_total",
        FamilyKind::Counter,
        "Callers that got a lease beside a value that could still be used.",
        |it| it.refreshes,
    ),
    (
        "freeboard_cache_early_refreshes_total",
        FamilyKind::Counter,
        "Callers that got a lease beside a value that was still fresh.",
        |it| it.early_refreshes,
    ),
    (
        "freeboard_cache_waits_total",
        FamilyKind::Counter,
        "Callers that waited for another's fetch and got its value.",
        |it| it.waits,
    ),
    (
        "freeboard_cache_waits_too_long_total",
        FamilyKind::Counter,
        "Callers whose wait was over before there was a value.",
        |it| it.waits_too_long,
    ),
    (
        "freeboard_cache_notified_total",
        FamilyKind::Counter,
        "Questions that were asked again because the key was filled or freed.",
        |it| it.notified,
    ),
    (
        "freeboard_cache_polled_total",
        FamilyKind::Counter,
        "Questions that were asked again because it was time.",
        |it| it.polled,
    ),
    (
        "freeboard_cache_leases_granted_total",
        FamilyKind::Counter,
        "Leases that Redis gave.",
        |it| it.leases_granted,
    ),
    (
        "freeboard_cache_leases_refused_total",
        FamilyKind::Counter,
        "Answers of Redis that somebody else has, or had, the lease.",
        |it| it.leases_refused,
    ),
    (
        "freeboard_cache_leases_expired_total",
        FamilyKind::Counter,
        "Leases that were taken over from a holder that let them run out.",
        |it| it.leases_expired,
    ),
    (
        "freeboard_cache_leases_released_total",
        FamilyKind::Counter,
        "Leases that were given back.",
        |it| it.leases_released,
    ),
    (
        "freeboard_cache_fills_stored_total",
        FamilyKind::Counter,
        "Fills that were stored.",
        |it| it.fills_stored,
    ),
    (
        "freeboard_cache_fills_refused_total",
        FamilyKind::Counter,
        "Fills whose token was void: invalidated meanwhile, or too late.",
        |it| it.fills_refused,
    ),
    (
        "freeboard_cache_fills_failed_total",
        FamilyKind::Counter,
        "Fills of which it is not known whether they were stored.",
        |it| it.fills_failed,
    ),
    (
        "freeboard_cache_fetches_excused_total",
        FamilyKind::Counter,
        "Fetches that failed beside a value that was used in their place.",
        |it| it.fetches_excused,
    ),
    (
        "freeboard_cache_direct_fetches_total",
        FamilyKind::Counter,
        "Leases that were given without Redis.",
        |it| it.direct_fetches,
    ),
    (
        "freeboard_cache_invalidations_total",
        FamilyKind::Counter,
        "Invalidations that were asked for.",
        |it| it.invalidations,
    ),
    (
        "freeboard_cache_foreign_total",
        FamilyKind::Counter,
        "Values under our keys that are not ours.",
        |it| it.foreign,
    ),
    (
        "freeboard_cache_redis_failures_total",
        FamilyKind::Counter,
        "Commands that Redis did not answer, or refused, but for fills and releases.",
        |it| it.redis_failures,
    ),
    (
        "freeboard_cache_replies_refused_total",
        FamilyKind::Counter,
        "Outcomes that the mailbox they were for refused.",
        |it| it.replies_refused,
    ),
    (
        "freeboard_cache_flights",
        FamilyKind::Gauge,
        "Keys that are being looked up.",
        |it| it.flights,
    ),
    (
        "freeboard_cache_direct_fetching",
        FamilyKind::Gauge,
        "Leases without Redis that are held.",
        |it| it.direct_fetching,
    ),
    (
        "freeboard_cache_local_entries",
        FamilyKind::Gauge,
        "Entries of the layer of this process.",
        |it| it.local_entries,
    ),
];
