//! Counters of connections and clusters, their snapshots, and the Prometheus text.
//!
//! Callers count refused commands. All other counters have the connection's actor as their only writer.

use freeboard_meter::{Counter, Exposition, FamilyKind, Histogram, HistogramSummary, OwnedCounter};
use serde::{Deserialize, Serialize};

use crate::{
    error::RedisError,
    sync::{AtomicUsize, Ordering},
};

/// Counters of one connection.
#[derive(Debug, Default)]
pub(crate) struct ConnectionGauges {
    queue_full: Counter,
    too_large: Counter,
    down: Counter,
    expired: Counter,
    pub(crate) replies_refused: Counter,
    pub(crate) sent: OwnedCounter,
    pub(crate) sent_bytes: OwnedCounter,
    pub(crate) batches: OwnedCounter,
    pub(crate) replies: OwnedCounter,
    pub(crate) received_bytes: OwnedCounter,
    pub(crate) timed_out: OwnedCounter,
    pub(crate) lost: OwnedCounter,
    pub(crate) connects: OwnedCounter,
    pub(crate) connect_failures: OwnedCounter,
    pub(crate) stuck: OwnedCounter,
    pub(crate) pushes: OwnedCounter,
    pub(crate) pushes_shed: OwnedCounter,
    pub(crate) from_tell: Histogram,
    pub(crate) from_send: Histogram,
    /// Sent commands without a reply, and those of them whose deadline has passed.
    in_flight: AtomicUsize,
    tombstones: AtomicUsize,
}

impl ConnectionGauges {
    /// Counts an outcome that is not a reply.
    pub(crate) fn failed(&self, error: &RedisError) {
        match error {
            RedisError::QueueFull => self.queue_full.add(1),
            RedisError::TooLarge => self.too_large.add(1),
            RedisError::Expired => self.expired.add(1),
            RedisError::Down(_) | RedisError::Closed => self.down.add(1),
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

    /// `under_way` is the number of commands without an outcome, `None` while the connection is down.
    pub(crate) fn snapshot(
        &self,
        under_way: Option<usize>,
        bytes_under_way: usize,
    ) -> ConnectionSnapshot {
        // Ordering: Relaxed, as in `set_in_flight`.
        let in_flight = self.in_flight.load(Ordering::Relaxed);
        ConnectionSnapshot {
            is_up: under_way.is_some(),
            sent: self.sent.get(),
            sent_bytes: self.sent_bytes.get(),
            batches: self.batches.get(),
            replies: self.replies.get(),
            received_bytes: self.received_bytes.get(),
            in_flight: in_flight as u64,
            waiting: under_way.unwrap_or(0).saturating_sub(in_flight) as u64,
            bytes_under_way: bytes_under_way as u64,
            tombstones: self.tombstones.load(Ordering::Relaxed) as u64,
            shed: ShedSnapshot {
                queue_full: self.queue_full.get(),
                too_large: self.too_large.get(),
                down: self.down.get(),
                expired: self.expired.get(),
            },
            timed_out: self.timed_out.get(),
            lost: self.lost.get(),
            replies_refused: self.replies_refused.get(),
            connects: self.connects.get(),
            connect_failures: self.connect_failures.get(),
            stuck: self.stuck.get(),
            pushes: self.pushes.get(),
            pushes_shed: self.pushes_shed.get(),
            from_tell: self.from_tell.summary(),
            from_send: self.from_send.summary(),
        }
    }
}

/// Counters of a client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RedisSnapshot {
    /// One entry per connection, by index.
    pub connections: Vec<ConnectionSnapshot>,
}

/// Counters of one connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectionSnapshot {
    /// Whether it takes commands.
    pub is_up: bool,
    /// Commands handed to the socket.
    pub sent: u64,
    /// Bytes of these commands.
    pub sent_bytes: u64,
    /// Batches handed to the socket.
    pub batches: u64,
    /// Commands with a complete reply.
    pub replies: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Sent commands without a reply.
    pub in_flight: u64,
    /// Commands not sent yet.
    pub waiting: u64,
    /// Bytes of commands in flight and waiting.
    pub bytes_under_way: u64,
    /// Units in flight whose deadline has passed; their replies are dropped.
    pub tombstones: u64,
    /// Commands refused before they were sent, by reason.
    pub shed: ShedSnapshot,
    /// Commands whose deadline passed after they were sent.
    pub timed_out: u64,
    /// Commands in flight when the connection was lost.
    pub lost: u64,
    /// Replies refused by the recipient's mailbox.
    pub replies_refused: u64,
    /// Successful connects.
    pub connects: u64,
    /// Failed connects.
    pub connect_failures: u64,
    /// Replacements because of an overdue reply.
    pub stuck: u64,
    /// Messages for subscribers.
    pub pushes: u64,
    /// Messages refused by a subscriber's mailbox.
    pub pushes_shed: u64,
    /// From the caller's call to the reply, in nanoseconds.
    pub from_tell: HistogramSummary,
    /// From the write to the reply, in nanoseconds.
    pub from_send: HistogramSummary,
}

/// Commands refused before they were sent, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShedSnapshot {
    /// The connection's credit was used up.
    pub queue_full: u64,
    /// The command alone exceeded the credit.
    pub too_large: u64,
    /// The connection was down.
    pub down: u64,
    /// The deadline passed before the command was sent.
    pub expired: u64,
}

impl RedisSnapshot {
    /// Adds the metric families to `text` with the labels `client` and `connection` (its index).
    pub fn render(&self, client: &str, text: &mut Exposition) {
        let lines = self.connections.iter().enumerate();
        let lines: Vec<_> = lines
            .map(|(index, line)| (index.to_string(), line))
            .collect();
        render_connections(client, &lines, text);
    }
}

/// Adds the metric families of connections, each with its label.
pub(crate) fn render_connections(
    client: &str,
    connections: &[(String, &ConnectionSnapshot)],
    text: &mut Exposition,
) {
    let labelled = || {
        let connections = connections.iter();
        connections.map(|(label, connection)| {
            (
                [("client", client), ("connection", label.as_str())],
                connection,
            )
        })
    };
    for (name, kind, help, field) in FAMILIES {
        text.family(name, *kind, help);
        for (labels, connection) in labelled() {
            text.sample(name, &labels, field(connection) as f64);
        }
    }
    let name = "freeboard_redis_shed_total";
    let help = "Commands that were not sent, by reason.";
    text.family(name, FamilyKind::Counter, help);
    for ([client, label], connection) in labelled() {
        let shed = &connection.shed;
        for (reason, count) in [
            ("queue_full", shed.queue_full),
            ("too_large", shed.too_large),
            ("down", shed.down),
            ("expired", shed.expired),
        ] {
            text.sample(name, &[client, label, ("reason", reason)], count as f64);
        }
    }
    for (name, help, field) in SUMMARIES {
        text.family(name, FamilyKind::Summary, help);
        for (labels, connection) in labelled() {
            text.summary(name, &labels, field(connection));
        }
    }
}

type Family = (
    &'static str,
    FamilyKind,
    &'static str,
    fn(&ConnectionSnapshot) -> u64,
);

const FAMILIES: &[Family] = &[
    (
        "freeboard_redis_up",
        FamilyKind::Gauge,
        "Whether the connection takes commands.",
        |it| u64::from(it.is_up),
    ),
    (
        "freeboard_redis_sent_total",
        FamilyKind::Counter,
        "Commands that were sent.",
        |it| it.sent,
    ),
    (
        "freeboard_redis_sent_bytes_total",
        FamilyKind::Counter,
        "Bytes that were sent.",
        |it| it.sent_bytes,
    ),
    (
        "freeboard_redis_batches_total",
        FamilyKind::Counter,
        "Batches in which commands were sent.",
        |it| it.batches,
    ),
    (
        "freeboard_redis_replies_total",
        FamilyKind::Counter,
        "Replies that came.",
        |it| it.replies,
    ),
    (
        "freeboard_redis_received_bytes_total",
        FamilyKind::Counter,
        "Bytes that came.",
        |it| it.received_bytes,
    ),
    (
        "freeboard_redis_in_flight",
        FamilyKind::Gauge,
        "Commands that were sent and have no reply yet.",
        |it| it.in_flight,
    ),
    (
        "freeboard_redis_waiting",
        FamilyKind::Gauge,
        "Commands that were not sent yet.",
        |it| it.waiting,
    ),
    (
        "freeboard_redis_under_way_bytes",
        FamilyKind::Gauge,
        "Bytes of commands without a reply.",
        |it| it.bytes_under_way,
    ),
    (
        "freeboard_redis_tombstones",
        FamilyKind::Gauge,
        "Commands in flight for whose reply nobody waits.",
        |it| it.tombstones,
    ),
    (
        "freeboard_redis_timed_out_total",
        FamilyKind::Counter,
        "Commands whose deadline passed after they were sent.",
        |it| it.timed_out,
    ),
    (
        "freeboard_redis_lost_total",
        FamilyKind::Counter,
        "Commands that were sent when the connection was lost.",
        |it| it.lost,
    ),
    (
        "freeboard_redis_replies_refused_total",
        FamilyKind::Counter,
        "Replies that the mailbox they were for refused.",
        |it| it.replies_refused,
    ),
    (
        "freeboard_redis_connects_total",
        FamilyKind::Counter,
        "Times that the connection came up.",
        |it| it.connects,
    ),
    (
        "freeboard_redis_connect_failures_total",
        FamilyKind::Counter,
        "Attempts to connect that failed.",
        |it| it.connect_failures,
    ),
    (
        "freeboard_redis_stuck_total",
        FamilyKind::Counter,
        "Times that a connection was replaced because a reply was overdue.",
        |it| it.stuck,
    ),
    (
        "freeboard_redis_pushes_total",
        FamilyKind::Counter,
        "Messages for subscribers.",
        |it| it.pushes,
    ),
    (
        "freeboard_redis_pushes_shed_total",
        FamilyKind::Counter,
        "Messages for subscribers that a mailbox refused.",
        |it| it.pushes_shed,
    ),
];

type Summary = (
    &'static str,
    &'static str,
    fn(&ConnectionSnapshot) -> &HistogramSummary,
);

const SUMMARIES: &[Summary] = &[
    (
        "freeboard_redis_from_tell_seconds",
        "From the caller's call to the reply.",
        |it| &it.from_tell,
    ),
    (
        "freeboard_redis_from_send_seconds",
        "From the write to the reply.",
        |it| &it.from_send,
    ),
];

/// Counters of a cluster client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterSnapshot {
    /// The connected nodes.
    pub nodes: Vec<NodeSnapshot>,
    /// Commands or units redirected because their slot has moved (`MOVED`).
    pub moved: u64,
    /// Commands or units redirected because their slot is moving (`ASK`).
    pub asked: u64,
    /// Retries.
    pub retried: u64,
    /// Commands or units that wait for their retry.
    pub waiting: u64,
    /// Successful refreshes of the slot map.
    pub refreshed: u64,
    /// Failed refreshes of the slot map.
    pub refresh_failures: u64,
    /// Replies refused by the recipient's mailbox, besides those that connections count.
    pub replies_refused: u64,
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

impl ClusterSnapshot {
    /// Adds the metric families to `text` with the label `client`; those of connections also have the node's
    /// address and the connection's index as labels.
    pub fn render(&self, client: &str, text: &mut Exposition) {
        let lines = self.nodes.iter().flat_map(|node| {
            let lines = node.client.connections.iter().enumerate();
            lines.map(|(index, line)| (format!("{}/{index}", node.address), line))
        });
        render_connections(client, &lines.collect::<Vec<_>>(), text);
        for (name, kind, help, value) in [
            (
                "freeboard_redis_cluster_moved_total",
                FamilyKind::Counter,
                "Commands that were sent on because their slot has moved.",
                self.moved,
            ),
            (
                "freeboard_redis_cluster_asked_total",
                FamilyKind::Counter,
                "Commands that were sent on because their slot is moving.",
                self.asked,
            ),
            (
                "freeboard_redis_cluster_retried_total",
                FamilyKind::Counter,
                "Times that a command was kept to be tried again.",
                self.retried,
            ),
            (
                "freeboard_redis_cluster_waiting",
                FamilyKind::Gauge,
                "Commands that are kept to be tried again.",
                self.waiting,
            ),
            (
                "freeboard_redis_cluster_refreshed_total",
                FamilyKind::Counter,
                "Times that the slots were learned.",
                self.refreshed,
            ),
            (
                "freeboard_redis_cluster_refresh_failures_total",
                FamilyKind::Counter,
                "Times that the slots could not be learned.",
                self.refresh_failures,
            ),
            (
                "freeboard_redis_cluster_replies_refused_total",
                FamilyKind::Counter,
                "Replies that the mailbox they were for refused, besides those of connections.",
                self.replies_refused,
            ),
        ] {
            text.family(name, kind, help);
            text.sample(name, &[("client", client)], value as f64);
        }
        let name = "freeboard_redis_cluster_slots";
        text.family(
            name,
            FamilyKind::Gauge,
            "Slots of a node, as far as is known.",
        );
        for node in &self.nodes {
            let labels = [("client", client), ("node", node.address.as_str())];
            text.sample(name, &labels, node.slots as f64);
        }
    }
}
