//! What a fetcher is put together from.

use std::sync::Arc;

use freeboard::cache::Cache;

use crate::{
    broker::Broker,
    store::{Directory, SlowStore},
};

/// The parts of a fetcher: each embedded in the process, or real.
#[derive(Clone)]
pub struct Parts {
    /// Where notifications come from and replies go.
    pub broker: Arc<dyn Broker>,
    /// The keys of users and apps, in Redis.
    pub cache: Cache,
    /// Where keys come from that are not cached.
    pub store: Arc<dyn SlowStore>,
    /// The devices of users.
    pub directory: Arc<dyn Directory>,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Parts")
            .field("cache", &self.cache)
            .finish_non_exhaustive()
    }
}
