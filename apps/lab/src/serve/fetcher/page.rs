//! What others may know of a fetcher: its gauges, and whether it is well.

use std::{sync::Arc, time::Duration};

use freeboard::{
    cache::Cache,
    meter::Exposition,
    net::{
        http::Body,
        types::{Response, StatusCode},
    },
    redis::Redis,
};
use freeboard_fetcher::{broker::Queue, service::Fetcher, store::Bulkhead};

use super::{super::metrics::answer, Ends};

/// What others may know.
pub(super) struct Page {
    pub(super) ends: Ends,
    pub(super) redis: Redis,
    pub(super) cache: Cache,
    pub(super) store: Arc<Bulkhead>,
    pub(super) fetcher: Arc<Fetcher>,
}

impl Page {
    pub(super) fn render(&self, text: &mut Exposition) {
        self.fetcher.snapshot().render(text);
        self.redis.render("fetcher", text);
        self.cache.snapshot().render("fetcher", text);
        self.store.occupancy().render(text);
        let ledgers = [Queue::Priority0, Queue::Priority1, Queue::Replies];
        for queue in ledgers {
            self.ends.broker.ledger(queue).render(queue, text);
        }
    }

    /// Whether it can do its work now.
    pub(super) fn health(&self) -> Response<Body> {
        let mut down = Vec::new();
        if !(self.ends.is_connected)() {
            down.push("the broker cannot be reached".to_owned());
        }
        let is_any_up = self.redis.snapshot().connections.iter().any(|it| it.is_up);
        if !is_any_up && let Err(error) = self.redis.wait_up(Duration::ZERO) {
            down.push(format!("Redis cannot be reached: {error}"));
        }
        if !self.fetcher.is_alive() {
            down.push("a main actor has ended".to_owned());
        }
        match down.as_slice() {
            [] => answer(StatusCode::OK, "ok\n".to_owned()),
            down => answer(StatusCode::SERVICE_UNAVAILABLE, down.join("\n") + "\n"),
        }
    }
}
