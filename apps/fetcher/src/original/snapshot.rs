//! The original's gauges at one time.

use freeboard::{
    Group,
    meter::{ActorSnapshot, HistogramSummary},
    redis::RedisSnapshot,
};
use serde::Serialize;

use super::{gauges::Gauges, main_actor::OriginalMain, redis_actor::RedisActor};
use crate::names;

/// What the original has done so far. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OriginalSnapshot {
    /// Notifications that main actors have taken up, and acknowledged.
    pub received: u64,
    /// Of these: their replies are confirmed.
    pub completed: u64,
    /// Of these: lost, because too much was in flight to Redis.
    pub shed: u64,
    /// Of these: lost for another reason.
    pub failed: u64,
    /// Messages that were no notifications.
    pub malformed: u64,
    /// Keys that were fetched from the slow store.
    pub misses: u64,
    /// Commands to Redis without a reply.
    pub in_flight: u64,
    /// From publishing to the start.
    pub wait: HistogramSummary,
    /// From the start to the confirm.
    pub lifetime: HistogramSummary,
    /// In the mailbox of a main actor.
    pub in_queue: HistogramSummary,
    /// From telling a redis actor to the reply.
    pub from_tell: HistogramSummary,
    /// From the write to the reply, of each connection.
    pub from_send: Vec<HistogramSummary>,
    /// Messages that each main actor has handled, of each priority.
    pub mains: Vec<Vec<u64>>,
    /// Messages that each redis actor has handled.
    pub redis: Vec<u64>,
    /// The most that each main actor's mailbox has held, of each priority.
    pub mailboxes: Vec<Vec<u64>>,
}

impl OriginalSnapshot {
    pub(super) fn of(
        gauges: &Gauges,
        mains: &Group<OriginalMain>,
        redis: &Group<RedisActor>,
        clients: &[RedisSnapshot],
    ) -> Self {
        let connections = || clients.iter().flat_map(|client| &client.connections);
        let of_mains: Vec<_> = mains.members().iter().map(|main| main.snapshot()).collect();
        let of_redis: Vec<_> = redis.members().iter().map(|it| it.snapshot()).collect();
        Self {
            received: gauges.received.get(),
            completed: gauges.completed.get(),
            shed: gauges.shed.get(),
            failed: gauges.failed.get(),
            malformed: gauges.malformed.get(),
            misses: gauges.misses.get(),
            in_flight: connections().map(|it| it.in_flight + it.waiting).sum(),
            wait: gauges.wait.summary(),
            lifetime: gauges.lifetime.summary(),
            in_queue: gauges.in_queue.summary(),
            from_tell: gauges.from_tell.summary(),
            from_send: connections().map(|it| it.from_send.clone()).collect(),
            mains: of_mains.iter().map(handled).collect(),
            redis: of_redis.iter().map(|it| handled(it).iter().sum()).collect(),
            mailboxes: of_mains.iter().map(high_waters).collect(),
        }
    }

    /// Counters, percentiles in milliseconds and levels, by the names that they had.
    #[must_use]
    pub fn counters(&self) -> Vec<(String, f64)> {
        let slowest = names::slowest(self.from_send.iter());
        let mut counters = vec![(names::QUEUE_FULL.to_owned(), self.shed as f64)];
        counters.extend(names::told("Fetcher", &self.mains));
        counters.extend(names::told("RedisMampa", &names::one_priority(&self.redis)));
        counters.extend(names::mailboxes(&self.mailboxes));
        for (name, summary) in [
            (names::WAIT, &self.wait),
            (names::LIFETIME, &self.lifetime),
            (names::IN_QUEUE, &self.in_queue),
            (names::FROM_TELL, &self.from_tell),
            (names::FROM_SEND, &slowest),
        ] {
            counters.extend(names::percentiles(name, summary));
        }
        counters
    }
}

fn high_waters(actor: &ActorSnapshot) -> Vec<u64> {
    actor.lanes.iter().map(|lane| lane.high_water).collect()
}

fn handled(actor: &ActorSnapshot) -> Vec<u64> {
    actor.lanes.iter().map(|lane| lane.handled).collect()
}
