//! What a cache counts. Any thread may.

use freeboard_meter::{Counter, Histogram};

use crate::{
    error::CacheError,
    snapshot::{CacheSnapshot, ShedSnapshot},
};

/// Counters of one cache; what each means stands in [`CacheSnapshot`].
#[derive(Debug, Default)]
pub(crate) struct Gauges {
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

impl Gauges {
    /// So many callers get an error.
    pub(crate) fn refused(&self, error: &CacheError, callers: usize) {
        let counter = match error {
            CacheError::WaitedTooLong => &self.waits_too_long,
            CacheError::WaitersFull => &self.waiters_full,
            CacheError::FlightsFull => &self.flights_full,
            CacheError::FetchesFull(_) => &self.fetches_full,
            CacheError::KeyTooLong { .. } => &self.key_too_long,
            // Counted where it came from, once for all callers; and the end of the cache.
            CacheError::Redis(_) | CacheError::Closed => return,
        };
        counter.add(callers as u64);
    }

    /// All of it, but for what is under way.
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
