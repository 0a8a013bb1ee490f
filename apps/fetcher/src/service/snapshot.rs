//! The counters of main actors, and a snapshot of them.

use std::sync::atomic::{AtomicU32, Ordering};

use freeboard::{
    meter::{
        Counter, Exposition, FamilyKind, Histogram, HistogramSnapshot, HistogramSummary,
        LaneSnapshot,
    },
    redis::RedisSnapshot,
};
use serde::Serialize;

use super::job::Passing;
use crate::names;

/// The counters of one main actor, kept over its restarts. Only that actor writes them.
#[derive(Default)]
pub(super) struct MainCounters {
    lives: AtomicU32,
    pub(super) received: Counter,
    pub(super) malformed: Counter,
    pub(super) completed: Counter,
    pub(super) dead_lettered: Counter,
    pub(super) expired: Counter,
    pub(super) misses: Counter,
    retried: [Counter; Passing::COUNT],
    /// From the due time, or else the publication, to the start.
    pub(super) wait: Histogram,
    /// From the start to the confirm.
    pub(super) lifetime: Histogram,
    /// In the mailbox.
    pub(super) in_queue: Histogram,
}

impl MainCounters {
    /// Counts an incarnation of the actor and returns its number.
    pub(super) fn begin_life(&self) -> u32 {
        // Ordering: Relaxed: only the number matters.
        self.lives.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn retried(&self, by: Passing) -> &Counter {
        &self.retried[by as usize]
    }
}

impl std::fmt::Debug for MainCounters {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("MainCounters")
            .field("received", &self.received.get())
            .field("completed", &self.completed.get())
            .finish_non_exhaustive()
    }
}

/// The counters of a fetcher at one time. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FetcherSnapshot {
    /// Notifications started, each attempt counted.
    pub received: u64,
    /// Of these: acknowledged after their replies were confirmed.
    pub completed: u64,
    /// Of these: to be delivered again.
    pub retried: RetrySnapshot,
    /// Of these: dead-lettered, the malformed ones included.
    pub dead_lettered: u64,
    /// Of the dead letters: not valid notifications.
    pub malformed: u64,
    /// Of those retried or dead-lettered: not done by their deadline.
    pub expired: u64,
    /// In flight now.
    pub under_way: u64,
    /// Keys fetched from the slow store.
    pub misses: u64,
    /// From the due time of a notification, or else its publication, to its start, each attempt counted.
    pub wait: HistogramSummary,
    /// From its start to the confirm of its reply.
    pub lifetime: HistogramSummary,
    /// In the mailbox of a main actor.
    pub in_queue: HistogramSummary,
    /// Notifications handled by each main actor, by priority.
    pub mains: Vec<Vec<u64>>,
    /// The high-water mark of each main actor's mailbox, by priority.
    pub mailboxes: Vec<Vec<u64>>,
}

/// Notifications to be delivered again, by the component that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RetrySnapshot {
    /// The cache or Redis did not answer, or was full.
    pub cache: u64,
    /// The slow store did not answer, or was full.
    pub store: u64,
    /// The directory did not answer, or was full.
    pub directory: u64,
    /// The broker refused the reply, or did not confirm it.
    pub publish: u64,
    /// More was delivered than the prefetch after a reconnect.
    pub broker: u64,
    /// Answers or the confirm were missing at the deadline.
    pub deadline: u64,
}

impl RetrySnapshot {
    /// The sum.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.cache + self.store + self.directory + self.publish + self.broker + self.deadline
    }
}

impl FetcherSnapshot {
    pub(super) fn of(
        counters: &[MainCounters],
        lanes: &[Vec<LaneSnapshot>],
        under_way: u64,
    ) -> Self {
        let sum = |count: fn(&MainCounters) -> u64| counters.iter().map(count).sum();
        let of_lanes = |count: fn(&LaneSnapshot) -> u64| {
            let mains = lanes.iter();
            mains
                .map(|lanes| lanes.iter().map(count).collect())
                .collect()
        };
        let merged = |histogram: fn(&MainCounters) -> HistogramSnapshot| {
            let mut merged = HistogramSnapshot::default();
            for counters in counters {
                merged.merge(&histogram(counters));
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

    /// Counters, percentiles in milliseconds and gauges under the names of the original; `redis` is the snapshot of
    /// the client.
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

    /// Adds the Prometheus families.
    pub fn render(&self, text: &mut Exposition) {
        use FamilyKind::{Counter, Gauge, Summary};
        for (name, kind, help, value) in [
            (
                "fetcher_received_total",
                Counter,
                "Notifications started, each attempt counted.",
                self.received,
            ),
            (
                "fetcher_completed_total",
                Counter,
                "Notifications whose replies were confirmed.",
                self.completed,
            ),
            (
                "fetcher_dead_lettered_total",
                Counter,
                "Notifications dead-lettered.",
                self.dead_lettered,
            ),
            (
                "fetcher_malformed_total",
                Counter,
                "Messages that were not valid notifications.",
                self.malformed,
            ),
            (
                "fetcher_expired_total",
                Counter,
                "Notifications not done by their deadline, each attempt counted.",
                self.expired,
            ),
            (
                "fetcher_misses_total",
                Counter,
                "Keys fetched from the slow store.",
                self.misses,
            ),
            (
                "fetcher_under_way",
                Gauge,
                "Notifications in flight.",
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
            "Notifications to be delivered again, by the component that failed.",
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
                "From the due time of a notification, or else its publication, to its start.",
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
