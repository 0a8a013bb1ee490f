//! The result of a look-up: a cached value, or a lease.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;

use crate::{
    call::{Call, Reply},
    entry::{Entry, Kind},
    metrics::CacheGauges,
};

/// A cached value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cached {
    /// The value; `None` if it is known that there is none.
    pub value: Option<Bytes>,
    /// Whether another caller refreshes it, or will.
    pub is_stale: bool,
}

/// The result of [`crate::Cache::get_or_lease`]: a value, or the lease to fetch it.
#[derive(Debug)]
pub enum Found {
    /// The value was cached, or another caller has just fetched it.
    Cached(Cached),
    /// The caller must fetch and fill. Dropping the lease gives it back.
    Lease(Lease),
}

impl Cached {
    /// The usable content of an entry.
    pub(crate) fn of(entry: &Entry, now_ms: u64) -> Option<Self> {
        entry.is_usable(now_ms).then(|| Self {
            value: (entry.kind == Kind::Value).then(|| entry.value.clone()),
            is_stale: !entry.is_fresh(now_ms),
        })
    }
}

/// The right to fetch a key's value, which one caller at a time has. Dropping it gives it back, and the next
/// caller gets it at once.
#[must_use = "dropping a lease gives it back"]
pub struct Lease {
    key: Bytes,
    prefix_bytes: usize,
    stale: Option<Cached>,
    is_direct: bool,
    cost: Option<Duration>,
    gauges: Arc<CacheGauges>,
    /// `None` once it was filled.
    end: Option<EndLease>,
}

/// Ends a lease, once.
pub(crate) type EndLease = Box<dyn FnOnce(LeaseEnd) + Send + Sync>;

/// How a caller ends its lease.
pub(crate) enum LeaseEnd {
    Filled {
        value: Option<Bytes>,
        /// `None` is the time since the lease was granted.
        cost: Option<Duration>,
        reply: Reply<Filled>,
    },
    GivenUp,
}

/// The result of a fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Filled {
    /// The value is cached.
    Stored,
    /// Not cached, because the key was invalidated meanwhile, or the fetch took longer than the lease.
    Refused,
    /// Not cached, because it exceeds [`crate::CacheOptions::value_bytes_max`].
    TooLarge,
    /// Not cached, because the lease was given without Redis ([`Lease::is_direct`]).
    Unleased,
}

impl Lease {
    /// `key` has a prefix of `prefix_bytes`.
    pub(crate) fn new(
        (key, prefix_bytes): (Bytes, usize),
        stale: Option<Cached>,
        is_direct: bool,
        gauges: Arc<CacheGauges>,
        end: EndLease,
    ) -> Self {
        Self {
            key,
            prefix_bytes,
            stale,
            is_direct,
            cost: None,
            gauges,
            end: Some(end),
        }
    }

    /// The key, without the cache's prefix.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key[self.prefix_bytes..]
    }

    /// The stale value, which may be used during the fetch, or if it fails.
    #[must_use]
    pub const fn stale(&self) -> Option<&Cached> {
        self.stale.as_ref()
    }

    /// Whether Redis did not answer, so that the value may not be cached.
    #[must_use]
    pub const fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Sets the duration of the fetch, by which early refreshes are timed; default the time since the lease was
    /// granted.
    pub fn cost(mut self, cost: Duration) -> Self {
        self.cost = Some(cost);
        self
    }

    /// Stores the value, or that there is none. Waiting callers get it.
    ///
    /// After [`crate::CacheError::Redis`] it is unknown whether the value is cached.
    pub fn fill(mut self, value: Option<Bytes>) -> Call<Filled> {
        let gauges = self.gauges.clone();
        Call::new(gauges, move |reply| {
            if let Some(end) = self.end.take() {
                let cost = self.cost;
                end(LeaseEnd::Filled { value, cost, reply });
            }
        })
    }

    /// Gives the lease back, like dropping it.
    pub fn release(self) {}
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            end(LeaseEnd::GivenUp);
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Lease")
            .field("key", &Bytes::copy_from_slice(self.key()))
            .field("is_direct", &self.is_direct)
            .field("has_stale", &self.stale.is_some())
            .finish_non_exhaustive()
    }
}
