//! What a look-up finds.

use bytes::Bytes;

use crate::{
    entry::{Entry, Kind},
    lease::Lease,
};

/// What is cached under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cached {
    /// The value; `None` if what is known is that there is none.
    pub value: Option<Bytes>,
    /// Whether somebody else is refreshing it, or is to.
    pub is_stale: bool,
}

/// What [`crate::Cache::get_or_lease`] finds: a value, or that it is the caller's turn to fetch it.
#[derive(Debug)]
pub enum Found {
    /// It is cached, or somebody has just fetched it.
    Cached(Cached),
    /// The caller fetches, and fills. Dropping it is giving up.
    Lease(Lease),
}

impl Cached {
    /// What an entry says, if it may be used.
    pub(crate) fn of(entry: &Entry, now_ms: u64) -> Option<Self> {
        entry.is_usable(now_ms).then(|| Self {
            value: (entry.kind == Kind::Value).then(|| entry.value.clone()),
            is_stale: !entry.is_fresh(now_ms),
        })
    }
}
