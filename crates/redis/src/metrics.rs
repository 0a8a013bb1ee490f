//! Counters of connections and clusters, their snapshots, and the Prometheus text.
//!
//! Callers count refused commands. All other counters have the connection's actor as their only writer.

use freeboard_meter::{Counter, Exposition, FamilyKind, Histogram, HistogramSummary, OwnedCounter};
use serde::{Deserialize, Serialize};

use crate::{
    error::RedisError,
    sync::{AtomicUsize, Ordering},
};

/// Declares each counter of a connection once: the counter itself, its field in the snapshot, and its Prometheus
/// family.
macro_rules! counters {
    ($($field:ident: $counter:ident $name:literal $help:literal;)+) => {
        /// Counters of one connection.
        #[derive(Debug, Default)]
        pub(crate) struct ConnectionGauges {
            $(pub(crate) $field: $counter,)+
            queue_full: Counter,
            too_large: Counter,
            down: Counter,
            expired: Counter,
            pub(crate) from_tell: Histogram,
            pub(crate) from_send: Histogram,
            /// Sent commands without a reply, and those of them whose deadline has passed.
            in_flight: AtomicUsize,
            tombstones: AtomicUsize,
        }

        /// Counters of one connection.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct ConnectionSnapshot {
            $(#[doc = $help] pub $field: u64,)+
            /// Whether it accepts commands.
            pub is_up: bool,
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
            /// From the caller's call to the reply, in nanoseconds.
            pub from_tell: HistogramSummary,
            /// From the write to the reply, in nanoseconds.
            pub from_send: HistogramSummary,
        }

        impl ConnectionGauges {
            /// `under_way` is the number of commands without an outcome, `None` while the connection is down.
            pub(crate) fn snapshot(
                &self,
                under_way: Option<usize>,
                bytes_under_way: usize,
            ) -> ConnectionSnapshot {
                // Ordering: Relaxed, as in `set_in_flight`.
                let in_flight = self.in_flight.load(Ordering::Relaxed);
                ConnectionSnapshot {
                    $($field: self.$field.get(),)+
                    is_up: under_way.is_some(),
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
                    from_tell: self.from_tell.summary(),
                    from_send: self.from_send.summary(),
                }
            }
        }

        const CONNECTION_FAMILIES: &[Family<ConnectionSnapshot>] = &[
            $(($name, FamilyKind::Counter, $help, |it| it.$field),)+
        ];
    };
}

counters! {
    sent: OwnedCounter "freeboard_redis_sent_total"
        "Commands handed to the socket.";
    sent_bytes: OwnedCounter "freeboard_redis_sent_bytes_total"
        "Bytes of commands handed to the socket.";
    batches: OwnedCounter "freeboard_redis_batches_total"
        "Batches handed to the socket.";
    replies: OwnedCounter "freeboard_redis_replies_total"
        "Commands with a complete reply.";
    received_bytes: OwnedCounter "freeboard_redis_received_bytes_total"
        "Bytes received.";
    timed_out: OwnedCounter "freeboard_redis_timed_out_total"
        "Commands whose deadline passed after they were sent.";
    lost: OwnedCounter "freeboard_redis_lost_total"
        "Commands in flight when the connection was lost.";
    replies_refused: Counter "freeboard_redis_replies_refused_total"
        "Replies refused by the recipient's mailbox.";
    connects: OwnedCounter "freeboard_redis_connects_total"
        "Successful connects.";
    connect_failures: OwnedCounter "freeboard_redis_connect_failures_total"
        "Failed connects.";
    stuck: OwnedCounter "freeboard_redis_stuck_total"
        "Replacements because of an overdue reply.";
    pushes: OwnedCounter "freeboard_redis_pushes_total"
        "Messages for subscribers.";
    pushes_shed: OwnedCounter "freeboard_redis_pushes_shed_total"
        "Messages refused by a subscriber's mailbox.";
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
}

/// Counters of a client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RedisSnapshot {
    /// One entry per connection, by index.
    pub connections: Vec<ConnectionSnapshot>,
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
    for (name, kind, help, field) in CONNECTION_GAUGES.iter().chain(CONNECTION_FAMILIES) {
        text.family(name, *kind, help);
        for (labels, connection) in labelled() {
            text.sample(name, &labels, field(connection) as f64);
        }
    }
    let name = "freeboard_redis_shed_total";
    let help = "Commands refused before they were sent, by reason.";
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
    let mut summary = |name, help, field: fn(&ConnectionSnapshot) -> &HistogramSummary| {
        text.family(name, FamilyKind::Summary, help);
        for (labels, connection) in labelled() {
            text.summary(name, &labels, field(connection));
        }
    };
    let name = "freeboard_redis_from_tell_seconds";
    let help = "From the caller's call to the reply.";
    summary(name, help, |it| &it.from_tell);
    let name = "freeboard_redis_from_send_seconds";
    let help = "From the write to the reply.";
    summary(name, help, |it| &it.from_send);
}

type Family<S> = (&'static str, FamilyKind, &'static str, fn(&S) -> u64);

/// Declares a table of metrics, one row each.
macro_rules! families {
    ($table:ident: $snapshot:ty; $($kind:ident $name:literal = |$it:ident| $value:expr, $help:literal;)+) => {
        const $table: &[Family<$snapshot>] = &[$(($name, FamilyKind::$kind, $help, |$it| $value),)+];
    };
}

families! {
    CONNECTION_GAUGES: ConnectionSnapshot;
    Gauge "freeboard_redis_up" = |it| u64::from(it.is_up),
        "Whether the connection accepts commands.";
    Gauge "freeboard_redis_in_flight" = |it| it.in_flight,
        "Sent commands without a reply.";
    Gauge "freeboard_redis_waiting" = |it| it.waiting,
        "Commands not sent yet.";
    Gauge "freeboard_redis_under_way_bytes" = |it| it.bytes_under_way,
        "Bytes of commands in flight and waiting.";
    Gauge "freeboard_redis_tombstones" = |it| it.tombstones,
        "Units in flight whose deadline has passed; their replies are dropped.";
}

families! {
    CLUSTER_FAMILIES: ClusterSnapshot;
    Counter "freeboard_redis_cluster_moved_total" = |it| it.moved,
        "Commands or units redirected because their slot has moved (`MOVED`).";
    Counter "freeboard_redis_cluster_asked_total" = |it| it.asked,
        "Commands or units redirected because their slot is moving (`ASK`).";
    Counter "freeboard_redis_cluster_retried_total" = |it| it.retried,
        "Retries.";
    Gauge "freeboard_redis_cluster_waiting" = |it| it.waiting,
        "Commands or units that wait for their retry.";
    Counter "freeboard_redis_cluster_refreshed_total" = |it| it.refreshed,
        "Successful refreshes of the slot map.";
    Counter "freeboard_redis_cluster_refresh_failures_total" = |it| it.refresh_failures,
        "Failed refreshes of the slot map.";
    Counter "freeboard_redis_cluster_replies_refused_total" = |it| it.replies_refused,
        "Replies refused by the recipient's mailbox, besides those that connections count.";
}

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
        for (name, kind, help, field) in CLUSTER_FAMILIES {
            text.family(name, *kind, help);
            text.sample(name, &[("client", client)], field(self) as f64);
        }
        let name = "freeboard_redis_cluster_slots";
        text.family(
            name,
            FamilyKind::Gauge,
            "Slots of a node in the current slot map.",
        );
        for node in &self.nodes {
            let labels = [("client", client), ("node", node.address.as_str())];
            text.sample(name, &labels, node.slots as f64);
        }
    }
}
