//! Counters of connections and clusters, their snapshots, and their metrics.
//!
//! Callers count refused commands. All other counters have the connection's actor as their only writer.

use freeboard_meter::{Counter, Exposition, Histogram, OwnedCounter, metrics};
use serde::{Deserialize, Serialize};

use crate::{
    error::RedisError,
    sync::{AtomicUsize, Ordering},
};

metrics! {
    /// Commands refused before they were sent, by reason.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct ShedSnapshot by "reason";
    #[derive(Debug, Default)]
    counted by pub(crate) struct ShedCounters {
        /// The connection's credit was used up.
        queue_full,
        /// The command alone exceeded the credit.
        too_large,
        /// The connection was down.
        down,
        /// The deadline passed before the command was sent.
        expired,
    }
}

metrics! {
    /// Counters of one connection. Times are in nanoseconds.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct ConnectionSnapshot: CONNECTION {
        gauge is_up: bool = "freeboard_redis_up", "Whether the connection accepts commands.";
        gauge in_flight: u64 = "freeboard_redis_in_flight", "Sent commands without a reply.";
        gauge waiting: u64 = "freeboard_redis_waiting", "Commands not sent yet.";
        gauge bytes_under_way: u64 = "freeboard_redis_under_way_bytes",
            "Bytes of commands in flight and waiting.";
        gauge tombstones: u64 = "freeboard_redis_tombstones",
            "Units in flight whose deadline has passed; their replies are dropped.";
    }
    /// Counters of one connection.
    #[derive(Debug, Default)]
    counted by pub(crate) struct ConnectionGauges {
        counter sent: OwnedCounter = "freeboard_redis_sent_total", "Commands handed to the socket.";
        counter sent_bytes: OwnedCounter = "freeboard_redis_sent_bytes_total",
            "Bytes of commands handed to the socket.";
        counter batches: OwnedCounter = "freeboard_redis_batches_total", "Batches handed to the socket.";
        counter replies: OwnedCounter = "freeboard_redis_replies_total",
            "Commands with a complete reply.";
        counter received_bytes: OwnedCounter = "freeboard_redis_received_bytes_total", "Bytes received.";
        counter timed_out: OwnedCounter = "freeboard_redis_timed_out_total",
            "Commands whose deadline passed after they were sent.";
        counter lost: OwnedCounter = "freeboard_redis_lost_total",
            "Commands in flight when the connection was lost.";
        counter replies_refused: Counter = "freeboard_redis_replies_refused_total",
            "Replies refused by the recipient's mailbox.";
        counter connects: OwnedCounter = "freeboard_redis_connects_total", "Successful connects.";
        counter connect_failures: OwnedCounter = "freeboard_redis_connect_failures_total",
            "Failed connects.";
        counter stuck: OwnedCounter = "freeboard_redis_stuck_total",
            "Replacements because of an overdue reply.";
        counter pushes: OwnedCounter = "freeboard_redis_pushes_total", "Messages for subscribers.";
        counter pushes_shed: OwnedCounter = "freeboard_redis_pushes_shed_total",
            "Messages refused by a subscriber's mailbox.";
        counter shed: ShedCounters => ShedSnapshot = "freeboard_redis_shed_total",
            "Commands refused before they were sent, by reason.";
        summary from_tell: Histogram = "freeboard_redis_from_tell_seconds",
            "From the caller's call to the reply.";
        summary from_send: Histogram = "freeboard_redis_from_send_seconds",
            "From the write to the reply.";
    }
    with {
        /// Sent commands without a reply, and those of them whose deadline has passed.
        in_flight: AtomicUsize,
        tombstones: AtomicUsize,
    }
}

impl ConnectionGauges {
    /// With the current state; `under_way` is the number of commands without an outcome, `None` while the
    /// connection is down.
    pub(crate) fn snapshot_with(
        &self,
        under_way: Option<usize>,
        bytes_under_way: usize,
    ) -> ConnectionSnapshot {
        // Ordering: Relaxed, as in `set_in_flight`.
        let in_flight = self.in_flight.load(Ordering::Relaxed);
        ConnectionSnapshot {
            is_up: under_way.is_some(),
            in_flight: in_flight as u64,
            waiting: under_way.unwrap_or(0).saturating_sub(in_flight) as u64,
            bytes_under_way: bytes_under_way as u64,
            tombstones: self.tombstones.load(Ordering::Relaxed) as u64,
            ..self.snapshot()
        }
    }

    /// Counts an outcome that is not a reply.
    pub(crate) fn failed(&self, error: &RedisError) {
        match error {
            RedisError::QueueFull => self.shed.queue_full.add(1),
            RedisError::TooLarge => self.shed.too_large.add(1),
            RedisError::Expired => self.shed.expired.add(1),
            RedisError::Down(_) | RedisError::Closed => self.shed.down.add(1),
            RedisError::TimedOut => self.timed_out.bump(1),
            RedisError::Lost(_) | RedisError::Protocol(_) => self.lost.bump(1),
            _ => {}
        }
    }

    pub(crate) fn set_in_flight(&self, in_flight: usize, tombstones: usize) {
        // Ordering: Relaxed, statistics that publish nothing but themselves.
        self.in_flight.store(in_flight, Ordering::Relaxed);
        self.tombstones.store(tombstones, Ordering::Relaxed);
    }
}

/// Counters of a client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RedisSnapshot {
    /// One entry per connection, by index.
    pub connections: Vec<ConnectionSnapshot>,
}

impl RedisSnapshot {
    /// Adds the metrics to `text` with the labels `client` and `connection` (its index).
    pub fn render(&self, client: &str, text: &mut Exposition) {
        let lines = self.connections.iter().enumerate();
        let lines = lines.map(|(index, line)| (index.to_string(), line));
        render_connections(client, lines, text);
    }
}

/// Adds the metrics of connections, each with its label.
fn render_connections<'a>(
    client: &str,
    connections: impl Iterator<Item = (String, &'a ConnectionSnapshot)>,
    text: &mut Exposition,
) {
    let labelled = connections.map(|(label, connection)| {
        (
            [("client", client.to_owned()), ("connection", label)],
            connection,
        )
    });
    text.series(CONNECTION, labelled);
}

metrics! {
    /// Counters of a cluster client.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct ClusterSnapshot: CLUSTER {
        counter moved: u64 = "freeboard_redis_cluster_moved_total",
            "Commands or units redirected because their slot has moved (`MOVED`).";
        counter asked: u64 = "freeboard_redis_cluster_asked_total",
            "Commands or units redirected because their slot is moving (`ASK`).";
        counter retried: u64 = "freeboard_redis_cluster_retried_total", "Retries.";
        gauge waiting: u64 = "freeboard_redis_cluster_waiting",
            "Commands or units that wait for their retry.";
        counter refreshed: u64 = "freeboard_redis_cluster_refreshed_total",
            "Successful refreshes of the slot map.";
        counter refresh_failures: u64 = "freeboard_redis_cluster_refresh_failures_total",
            "Failed refreshes of the slot map.";
        counter replies_refused: u64 = "freeboard_redis_cluster_replies_refused_total",
            "Replies refused by the recipient's mailbox, besides those that connections count.";
    }
    with {
        /// The connected nodes.
        pub nodes: Vec<NodeSnapshot>,
    }
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeSnapshot {
    /// Host and port.
    pub address: String,
    /// Slots in the current slot map.
    pub slots: u64,
    /// Its connections.
    pub client: RedisSnapshot,
}

metrics! {
    const NODE: NodeSnapshot;
    gauge "freeboard_redis_cluster_slots" = |it| it.slots, "Slots of a node in the current slot map.";
}

impl ClusterSnapshot {
    /// Adds the metrics to `text` with the label `client`; those of connections also have the node's address and
    /// the connection's index as labels.
    pub fn render(&self, client: &str, text: &mut Exposition) {
        let lines = self.nodes.iter().flat_map(|node| {
            let lines = node.client.connections.iter().enumerate();
            lines.map(|(index, line)| (format!("{}/{index}", node.address), line))
        });
        render_connections(client, lines, text);
        text.metrics(CLUSTER, &[("client", client)], self);
        let nodes = self.nodes.iter();
        let labelled = nodes.map(|it| ([("client", client), ("node", it.address.as_str())], it));
        text.series(NODE, labelled);
    }
}
