//! What others may know of a fetcher: its gauges, and whether it is well.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use freeboard::{
    cache::Cache,
    meter::{Exposition, FamilyKind},
    net::{
        http::Body,
        types::{Response, StatusCode},
    },
    redis::Redis,
};
use freeboard_fetcher::{
    broker::{Ledger, Queue},
    service::Fetcher,
    store::{Bulkhead, Occupancy},
};

use super::Ends;

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
        self.redis.snapshot().render("fetcher", text);
        self.cache.snapshot().render("fetcher", text);
        render_store(&self.store.occupancy(), text);
        let ledgers = [Queue::Priority0, Queue::Priority1, Queue::Replies];
        for queue in ledgers {
            let ledger = self.ends.broker.ledger(queue);
            render_ledger(queue, &ledger, text);
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

/// How busy the slow store is.
fn render_store(store: &Occupancy, text: &mut Exposition) {
    use FamilyKind::{Counter, Gauge};
    for (name, kind, help, value) in [
        (
            "fetcher_store_running",
            Gauge,
            "Keys that are being fetched from the slow store.",
            store.running as u64,
        ),
        (
            "fetcher_store_waiting",
            Gauge,
            "Keys that wait for a place at the slow store.",
            store.waiting as u64,
        ),
        (
            "fetcher_store_served_total",
            Counter,
            "Keys that the slow store has answered.",
            store.served,
        ),
        (
            "fetcher_store_refused_total",
            Counter,
            "Keys that found no place to wait for the slow store.",
            store.refused,
        ),
    ] {
        text.family(name, kind, help);
        text.sample(name, &[], value as f64);
    }
}

/// What became of what a queue brought, and of what was put into it.
fn render_ledger(queue: Queue, ledger: &Ledger, text: &mut Exposition) {
    use FamilyKind::{Counter, Gauge};
    for (name, kind, help, value) in [
        (
            "fetcher_broker_delivered_total",
            Counter,
            "Deliveries of the broker.",
            ledger.delivered,
        ),
        (
            "fetcher_broker_acked_total",
            Counter,
            "Deliveries that were acknowledged.",
            ledger.acked,
        ),
        (
            "fetcher_broker_retried_total",
            Counter,
            "Deliveries that were put off, to come again.",
            ledger.retried,
        ),
        (
            "fetcher_broker_dead_lettered_total",
            Counter,
            "Deliveries that were dead-lettered.",
            ledger.dead_lettered,
        ),
        (
            "fetcher_broker_returned_total",
            Counter,
            "Deliveries that have gone back unsettled, with a connection.",
            ledger.returned,
        ),
        (
            "fetcher_broker_moves_failed_total",
            Counter,
            "Times that a retry or a dead letter was not taken; it is tried again.",
            ledger.moves_failed,
        ),
        (
            "fetcher_broker_unacked",
            Gauge,
            "Deliveries that are under way.",
            ledger.unacked,
        ),
        (
            "fetcher_broker_published_total",
            Counter,
            "Messages published.",
            ledger.published,
        ),
        (
            "fetcher_broker_confirmed_total",
            Counter,
            "Messages published that are confirmed.",
            ledger.confirmed,
        ),
    ] {
        text.family(name, kind, help);
        text.sample(name, &[("queue", queue.name())], value as f64);
    }
}

/// A short text.
pub(super) fn answer(status: StatusCode, body: String) -> Response<Body> {
    let mut answer = Response::new(Body::from(Bytes::from(body)));
    *answer.status_mut() = status;
    answer
}
