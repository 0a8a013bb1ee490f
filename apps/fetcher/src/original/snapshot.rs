//! The original's counters at one time.

use std::sync::atomic::AtomicU64;

use freeboard::{
    Group,
    meter::{ActorSnapshot, Counter, HistogramSummary},
    redis::RedisSnapshot,
};
use serde::Serialize;

use super::{main_actor::OriginalMain, redis_actor::RedisActor, sample::Sample};
use crate::names::{self, Figures};

/// The counters of all actors of the original.
#[derive(Debug, Default)]
pub(super) struct OriginalCounters {
    pub(super) received: Counter,
    /// The length of the last notification.
    pub(super) body_bytes: AtomicU64,
    pub(super) malformed: Counter,
    pub(super) completed: Counter,
    /// Lost because too many commands were in flight to Redis.
    pub(super) shed: Counter,
    /// Lost for another reason.
    pub(super) failed: Counter,
    pub(super) misses: Counter,
    pub(super) wait: Sample,
    pub(super) lifetime: Sample,
    pub(super) in_queue: Sample,
    pub(super) from_tell: Sample,
}

/// The counters of the original at one time. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OriginalSnapshot {
    /// Notifications started, and acknowledged.
    pub received: u64,
    /// Of these: their replies are confirmed.
    pub completed: u64,
    /// Of these: lost because too many commands were in flight to Redis.
    pub shed: u64,
    /// Of these: lost for another reason.
    pub failed: u64,
    /// Messages that were not valid notifications.
    pub malformed: u64,
    /// Keys fetched from the slow store.
    pub misses: u64,
    /// Commands to Redis without a reply.
    pub in_flight: u64,
    /// From publishing to the start.
    pub wait: HistogramSummary,
    /// From the start to the confirm.
    pub lifetime: HistogramSummary,
    /// In the mailbox of a main actor.
    pub in_queue: HistogramSummary,
    /// From the tell to a redis actor to the reply.
    pub from_tell: HistogramSummary,
    /// From the write to the reply, by connection.
    pub from_send: Vec<HistogramSummary>,
    /// Messages handled by each main actor, by priority.
    pub mains: Vec<Vec<u64>>,
    /// Messages handled by each redis actor.
    pub redis: Vec<u64>,
    /// The messages in each main actor's mailbox now, by priority.
    pub mailboxes: Vec<Vec<u64>>,
}

impl OriginalSnapshot {
    pub(super) fn of(
        counters: &OriginalCounters,
        mains: &Group<OriginalMain>,
        redis: &Group<RedisActor>,
        clients: &[RedisSnapshot],
    ) -> Self {
        let connections = || clients.iter().flat_map(|client| &client.connections);
        let of_mains: Vec<_> = mains.members().iter().map(|main| main.snapshot()).collect();
        let of_redis: Vec<_> = redis.members().iter().map(|it| it.snapshot()).collect();
        Self {
            received: counters.received.get(),
            completed: counters.completed.get(),
            shed: counters.shed.get(),
            failed: counters.failed.get(),
            malformed: counters.malformed.get(),
            misses: counters.misses.get(),
            in_flight: connections().map(|it| it.in_flight + it.waiting).sum(),
            wait: counters.wait.summary(),
            lifetime: counters.lifetime.summary(),
            in_queue: counters.in_queue.summary(),
            from_tell: counters.from_tell.summary(),
            from_send: connections().map(|it| it.from_send.clone()).collect(),
            mains: of_mains.iter().map(handled).collect(),
            redis: of_redis.iter().map(|it| handled(it).iter().sum()).collect(),
            mailboxes: of_mains.iter().map(depths).collect(),
        }
    }

    /// Counters, percentiles in milliseconds and gauges under their original names.
    #[must_use]
    pub fn counters(&self) -> Vec<(String, f64)> {
        let figures = Figures {
            queue_full: self.shed,
            mains: &self.mains,
            redis: self.redis.clone(),
            mailboxes: &self.mailboxes,
            wait: &self.wait,
            lifetime: &self.lifetime,
            in_queue: &self.in_queue,
            from_tell: &self.from_tell,
            from_send: &names::slowest(self.from_send.iter()),
        };
        figures.named()
    }
}

fn depths(actor: &ActorSnapshot) -> Vec<u64> {
    actor.lanes.iter().map(|lane| lane.depth).collect()
}

fn handled(actor: &ActorSnapshot) -> Vec<u64> {
    actor.lanes.iter().map(|lane| lane.handled).collect()
}
