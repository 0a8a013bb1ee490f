//! A fetcher's gauges at one time.

use freeboard::{
    meter::{Exposition, FamilyKind, HistogramSnapshot, HistogramSummary, LaneSnapshot},
    redis::RedisSnapshot,
};
use serde::Serialize;

use super::{gauges::Gauges, job::Passing};
use crate::names;

/// What a fetcher has done so far. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FetcherSnapshot {
    /// Notifications that main actors have taken up, each attempt counted.
    pub received: u64,
    /// Of these: their replies are confirmed, and they are acknowledged.
    pub completed: u64,
    /// Of these: put off, to come again.
    pub retried: RetrySnapshot,
    /// Of these: dead-lettered, the malformed ones included.
    pub dead_lettered: u64,
    /// Of the dead letters: no notifications at all.
    pub malformed: u64,
    /// Of those put off or dead-lettered: still under way at their deadline.
    pub expired: u64,
    /// Under way now.
    pub under_way: u64,
    /// Keys that were asked of the slow store.
    pub misses: u64,
    /// From when a notification was due, or else published, to its start, each attempt counted.
    pub wait: HistogramSummary,
    /// From its start to the confirm of its reply.
    pub lifetime: HistogramSummary,
    /// In the mailbox of a main actor.
    pub in_queue: HistogramSummary,
    /// Notifications that each main actor has taken up, of each priority.
    pub mains: Vec<Vec<u64>>,
    /// The most that each main actor's mailbox has held, of each priority.
    pub mailboxes: Vec<Vec<u64>>,
}

/// Why notifications were put off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RetrySnapshot {
    /// The cache or Redis did not answer, or had no room.
    pub cache: u64,
    /// The slow store did not answer, or had no room.
    pub store: u64,
    /// The directory did not answer, or had no room.
    pub directory: u64,
    /// The broker did not take the reply, or did not confirm it.
    pub publish: u64,
    /// More were delivered than the prefetches, since the broker had come again.
    pub broker: u64,
    /// Not all answers, or no confirm, before the deadline.
    pub deadline: u64,
}

impl RetrySnapshot {
    /// All of them.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.cache + self.store + self.directory + self.publish + self.broker + self.deadline
    }
}

impl FetcherSnapshot {
    pub(super) fn of(gauges: &[Gauges], lanes: &[Vec<LaneSnapshot>], under_way: u64) -> Self {
        let sum = |count: fn(&Gauges) -> u64| gauges.iter().map(count).sum();
        let of_lanes = |count: fn(&LaneSnapshot) -> u64| {
            let mains = lanes.iter();
            mains
                .map(|lanes| lanes.iter().map(count).collect())
                .collect()
        };
        let merged = |histogram: fn(&Gauges) -> HistogramSnapshot| {
            let mut merged = HistogramSnapshot::default();
            for gauges in gauges {
                merged.merge(&histogram(gauges));
            }
            merged.summary()
        };
        Self {
            received: sum(|it| it.received.get()),
            completed: sum(|it| it.completed.get()),
            retried: RetrySnapshot {
                cache: sum(|it| it.retried(Passing::Cache).get()),
                store: sum(|it| it.retried(Passing::Store).get()),
                directory: sum(|it| it.retried(Passing::Directory).get()),
                publish: sum(|it| it.retried(Passing::Publish).get()),
                broker: sum(|it| it.retried(Passing::Broker).get()),
                deadline: sum(|it| it.retried(Passing::Deadline).get()),
            },
            dead_lettered: sum(|it| it.dead_lettered.get()),
            malformed: sum(|it| it.malformed.get()),
            expired: sum(|it| it.expired.get()),
            under_way,
            misses: sum(|it| it.misses.get()),
            wait: merged(|it| it.wait.snapshot()),
            lifetime: merged(|it| it.lifetime.snapshot()),
            in_queue: merged(|it| it.in_queue.snapshot()),
            mains: of_lanes(|lane| lane.handled),
            mailboxes: of_lanes(|lane| lane.high_water),
        }
    }

    /// Counters, percentiles in milliseconds and levels, by the names that the original gave them; `redis` is
    /// the client's.
    #[must_use]
    pub fn counters(&self, redis: &RedisSnapshot) -> Vec<(String, f64)> {
        let connections = &redis.connections;
        let shed: u64 = connections.iter().map(|it| it.shed.queue_full).sum();
        let sent: Vec<u64> = connections.iter().map(|it| it.sent).collect();
        let from_tell = names::slowest(connections.iter().map(|it| &it.from_tell));
        let from_send = names::slowest(connections.iter().map(|it| &it.from_send));
        let mut counters = vec![(names::QUEUE_FULL.to_owned(), shed as f64)];
        counters.extend(names::told("Fetcher", &self.mains));
        counters.extend(names::told("RedisMampa", &names::one_priority(&sent)));
        counters.extend(names::mailboxes(&self.mailboxes));
        for (name, summary) in [
            (names::WAIT, &self.wait),
            (names::LIFETIME, &self.lifetime),
            (names::IN_QUEUE, &self.in_queue),
            (names::FROM_TELL, &from_tell),
            (names::FROM_SEND, &from_send),
        ] {
            counters.extend(names::percentiles(name, summary));
        }
        counters
    }

    /// Adds its families.
    pub fn render(&self, text: &mut Exposition) {
        use FamilyKind::{Counter, Gauge, Summary};
        for (name, kind, help, value) in [
            (
                "fetcher_received_total",
                Counter,
                "Notifications that were taken up, each attempt counted.",
                self.received,
            ),
            (
                "fetcher_completed_total",
                Counter,
                "Notifications whose replies are confirmed.",
                self.completed,
            ),
            (
                "fetcher_dead_lettered_total",
                Counter,
                "Notifications that were dead-lettered.",
                self.dead_lettered,
            ),
            (
                "fetcher_malformed_total",
                Counter,
                "Messages that were no notifications.",
                self.malformed,
            ),
            (
                "fetcher_expired_total",
                Counter,
                "Notifications that were still under way at their deadline, each attempt counted.",
                self.expired,
            ),
            (
                "fetcher_misses_total",
                Counter,
                "Keys that were asked of the slow store.",
                self.misses,
            ),
            (
                "fetcher_under_way",
                Gauge,
                "Notifications that are under way.",
                self.under_way,
            ),
        ] {
            text.family(name, kind, help);
            text.sample(name, &[], value as f64);
        }
        let name = "fetcher_retried_total";
        text.family(
            name,
            Counter,
            "Notifications that were put off, by what failed.",
        );
        for (failed, count) in [
            ("cache", self.retried.cache),
            ("store", self.retried.store),
            ("directory", self.retried.directory),
            ("publish", self.retried.publish),
            ("broker", self.retried.broker),
            ("deadline", self.retried.deadline),
        ] {
            text.sample(name, &[("failed", failed)], count as f64);
        }
        for (name, help, summary) in [
            (
                "fetcher_wait_seconds",
                "From when a notification was due, or else published, to its start.",
                &self.wait,
            ),
            (
                "fetcher_lifetime_seconds",
                "From the start of a notification to the confirm of its reply.",
                &self.lifetime,
            ),
            (
                "fetcher_in_queue_seconds",
                "In the mailbox of a main actor.",
                &self.in_queue,
            ),
        ] {
            text.family(name, Summary, help);
            text.summary(name, &[], summary);
        }
    }
}
