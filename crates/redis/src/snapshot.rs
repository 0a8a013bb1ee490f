//! What a client has counted, as plain data and as Prometheus text.

use freeboard_meter::{Exposition, FamilyKind, HistogramSummary};
use serde::{Deserialize, Serialize};

/// A client: its connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RedisSnapshot {
    /// By index.
    pub connections: Vec<ConnectionSnapshot>,
}

/// One connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectionSnapshot {
    /// Whether it takes commands.
    pub is_up: bool,
    /// Commands that were handed to the socket.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Batches in which they were handed over.
    pub batches: u64,
    /// Replies that came; a pipeline or transaction counts as one.
    pub replies: u64,
    /// Bytes that came.
    pub received_bytes: u64,
    /// Commands that were sent and have no reply yet.
    pub in_flight: u64,
    /// Commands that were not sent yet.
    pub waiting: u64,
    /// Bytes of both.
    pub bytes_under_way: u64,
    /// Those in flight for whose reply nobody waits any more.
    pub tombstones: u64,
    /// Commands that were not sent, by reason.
    pub shed: ShedSnapshot,
    /// Commands whose deadline passed after they were sent.
    pub timed_out: u64,
    /// Commands that were sent when the connection was lost.
    pub lost: u64,
    /// Replies that the mailbox they were for refused.
    pub replies_refused: u64,
    /// Times that the connection came up.
    pub connects: u64,
    /// Attempts that failed.
    pub connect_failures: u64,
    /// Times that it was replaced because a reply was overdue.
    pub stuck: u64,
    /// Messages for subscribers.
    pub pushes: u64,
    /// Those of them that a mailbox refused.
    pub pushes_shed: u64,
    /// From the caller's call to the reply, in nanoseconds.
    pub from_tell: HistogramSummary,
    /// From the write to the reply, in nanoseconds.
    pub from_send: HistogramSummary,
}

/// Commands that were not sent, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShedSnapshot {
    /// The connection's credit was used up.
    pub queue_full: u64,
    /// Larger than all of the credit.
    pub too_large: u64,
    /// The connection was down.
    pub down: u64,
    /// The deadline passed first.
    pub expired: u64,
}

impl RedisSnapshot {
    /// Adds the families to `text`, labelled with `client` and the connection's index.
    pub fn render(&self, client: &str, text: &mut Exposition) {
        let lines = self.connections.iter().enumerate();
        let lines: Vec<_> = lines
            .map(|(index, line)| (index.to_string(), line))
            .collect();
        render_connections(client, &lines, text);
    }
}

/// Adds the families of connections, each with its label.
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
