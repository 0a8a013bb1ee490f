//! The counters of main actors, and a snapshot of them.

use std::sync::atomic::AtomicU64;

use freeboard::{
    meter::{Counter, Exposition, Histogram, LaneSnapshot, metrics},
    redis::RedisSnapshot,
};
use serde::Serialize;

use super::job::Passing;
use crate::names::{self, Figures};

metrics! {
    /// Notifications to be delivered again, by the component that failed, or for their wait.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct RetrySnapshot by "failed";
    #[derive(Debug, Default)]
    counted by pub(super) struct RetryCounters {
        /// The cache or Redis did not answer, or was full.
        cache,
        /// The slow store did not answer, or was full.
        store,
        /// The directory did not answer, or was full.
        directory,
        /// The broker refused the reply, or did not confirm it.
        publish,
        /// More was delivered than the prefetch after a reconnect.
        broker,
        /// Answers or the confirm were missing at the deadline.
        deadline,
        /// It had waited too long at the broker.
        wait,
    }
}

impl RetrySnapshot {
    /// The sum.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.cache
            + self.store
            + self.directory
            + self.publish
            + self.broker
            + self.deadline
            + self.wait
    }
}

metrics! {
    /// The counters of a fetcher at one time. Times are in nanoseconds.
    #[derive(Clone, Debug, Default, PartialEq, Serialize)]
    pub struct FetcherSnapshot: FETCHER {
        gauge under_way: u64 = "fetcher_under_way", "Notifications in flight.";
    }
    with {
        /// Notifications handled by each main actor, by priority.
        pub mains: Vec<Vec<u64>>,
        /// The messages in each main actor's mailbox now, by priority.
        pub mailboxes: Vec<Vec<u64>>,
    }
    /// The counters of all main actors.
    #[derive(Debug, Default)]
    counted by pub(super) struct FetcherCounters {
        counter received: Counter = "fetcher_received_total",
            "Notifications started, each attempt counted; not those put off for their wait.";
        counter completed: Counter = "fetcher_completed_total",
            "Notifications whose replies were confirmed.";
        counter retried: RetryCounters => RetrySnapshot = "fetcher_retried_total",
            "Notifications to be delivered again, by the component that failed.";
        counter dead_lettered: Counter = "fetcher_dead_lettered_total",
            "Notifications dead-lettered, including malformed ones.";
        counter malformed: Counter = "fetcher_malformed_total",
            "Messages that were not valid notifications.";
        counter expired: Counter = "fetcher_expired_total",
            "Notifications not done by their deadline, each attempt counted.";
        counter misses: Counter = "fetcher_misses_total", "Keys fetched from the slow store.";
        summary wait: Histogram = "fetcher_wait_seconds",
            "From the due time of a notification, or else its publication, to its start.";
        summary lifetime: Histogram = "fetcher_lifetime_seconds",
            "From the start of a notification to the confirm of its reply.";
        summary in_queue: Histogram = "fetcher_in_queue_seconds",
            "In the mailbox of a main actor.";
    }
    with {
        /// The id of the next job.
        pub(super) ids: AtomicU64,
        /// The length of the last notification.
        pub(super) body_bytes: AtomicU64,
    }
}

impl FetcherCounters {
    pub(super) fn retried(&self, by: Passing) -> &Counter {
        let retried = &self.retried;
        match by {
            Passing::Cache => &retried.cache,
            Passing::Store => &retried.store,
            Passing::Directory => &retried.directory,
            Passing::Publish => &retried.publish,
            Passing::Broker => &retried.broker,
            Passing::Deadline => &retried.deadline,
        }
    }

    /// With the state of the main actors, whose lanes are given by priority.
    pub(super) fn snapshot_with(
        &self,
        lanes: &[Vec<LaneSnapshot>],
        under_way: u64,
    ) -> FetcherSnapshot {
        let of_lanes = |count: fn(&LaneSnapshot) -> u64| {
            let mains = lanes.iter();
            mains
                .map(|lanes| lanes.iter().map(count).collect())
                .collect()
        };
        FetcherSnapshot {
            under_way,
            mains: of_lanes(|lane| lane.handled),
            mailboxes: of_lanes(|lane| lane.depth),
            ..self.snapshot()
        }
    }
}

impl FetcherSnapshot {
    /// Counters, percentiles in milliseconds and gauges under the names of the original; `redis` is the snapshot of
    /// the client.
    #[must_use]
    pub fn counters(&self, redis: &RedisSnapshot) -> Vec<(String, f64)> {
        let connections = &redis.connections;
        let figures = Figures {
            queue_full: connections.iter().map(|it| it.shed.queue_full).sum(),
            mains: &self.mains,
            redis: connections.iter().map(|it| it.sent).collect(),
            mailboxes: &self.mailboxes,
            wait: &self.wait,
            lifetime: &self.lifetime,
            in_queue: &self.in_queue,
            from_tell: &names::slowest(connections.iter().map(|it| &it.from_tell)),
            from_send: &names::slowest(connections.iter().map(|it| &it.from_send)),
        };
        figures.named()
    }

    /// Adds the metrics to `text`.
    pub fn render(&self, text: &mut Exposition) {
        text.metrics(FETCHER, &[], self);
    }
}
