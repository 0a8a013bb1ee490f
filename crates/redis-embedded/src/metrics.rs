//! Counters of a server, and the Prometheus text.

use freeboard_meter::{Exposition, FamilyKind};

/// Counters of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmbeddedSnapshot {
    /// Open connections.
    pub connections: usize,
    /// Connections refused by the limit.
    pub connections_refused: u64,
    /// Connections closed because of too many unread replies or messages.
    pub connections_overflowed: u64,
    /// Connections closed because of a malformed request, or HTTP.
    pub connections_malformed: u64,
    /// Connections closed by the limit of unfinished requests.
    pub connections_unfinished: u64,
    /// Bytes of unfinished requests, without the first 64 KiB of each connection.
    pub unfinished_bytes: usize,
    /// Requests.
    pub commands: u64,
    /// Keys, including expired keys that were not removed yet.
    pub keys: usize,
    /// What keys and values take, in bytes.
    pub bytes: usize,
    /// Reads that found a key.
    pub hits: u64,
    /// Reads that found none.
    pub misses: u64,
    /// Expired keys.
    pub expired: u64,
    /// Evicted keys.
    pub evicted: u64,
}

impl EmbeddedSnapshot {
    /// Adds the metric families to `text`, with the label `server`.
    pub fn render(&self, server: &str, text: &mut Exposition) {
        for (name, kind, help, field) in FAMILIES {
            text.family(name, *kind, help);
            text.sample(name, &[("server", server)], field(self) as f64);
        }
    }
}

type Family = (
    &'static str,
    FamilyKind,
    &'static str,
    fn(&EmbeddedSnapshot) -> u64,
);

const FAMILIES: &[Family] = &[
    (
        "freeboard_redis_embedded_connections",
        FamilyKind::Gauge,
        "Connections that are open.",
        |it| it.connections as u64,
    ),
    (
        "freeboard_redis_embedded_connections_refused_total",
        FamilyKind::Counter,
        "Connections refused because there were too many.",
        |it| it.connections_refused,
    ),
    (
        "freeboard_redis_embedded_connections_overflowed_total",
        FamilyKind::Counter,
        "Connections closed because their client had left too much unread.",
        |it| it.connections_overflowed,
    ),
    (
        "freeboard_redis_embedded_connections_malformed_total",
        FamilyKind::Counter,
        "Connections closed because what came was no request, or was HTTP.",
        |it| it.connections_malformed,
    ),
    (
        "freeboard_redis_embedded_connections_unfinished_total",
        FamilyKind::Counter,
        "Connections closed because the unfinished requests of all clients took too many bytes.",
        |it| it.connections_unfinished,
    ),
    (
        "freeboard_redis_embedded_unfinished_bytes",
        FamilyKind::Gauge,
        "What unfinished requests and transactions take; the first 64 KiB of each connection do not count.",
        |it| it.unfinished_bytes as u64,
    ),
    (
        "freeboard_redis_embedded_commands_total",
        FamilyKind::Counter,
        "Requests.",
        |it| it.commands,
    ),
    (
        "freeboard_redis_embedded_keys",
        FamilyKind::Gauge,
        "Keys, with those that are over and were not looked at since.",
        |it| it.keys as u64,
    ),
    (
        "freeboard_redis_embedded_stored_bytes",
        FamilyKind::Gauge,
        "What keys and values take.",
        |it| it.bytes as u64,
    ),
    (
        "freeboard_redis_embedded_hits_total",
        FamilyKind::Counter,
        "Reads that found a key.",
        |it| it.hits,
    ),
    (
        "freeboard_redis_embedded_misses_total",
        FamilyKind::Counter,
        "Reads that found no key.",
        |it| it.misses,
    ),
    (
        "freeboard_redis_embedded_expired_total",
        FamilyKind::Counter,
        "Keys whose time was over.",
        |it| it.expired,
    ),
    (
        "freeboard_redis_embedded_evicted_total",
        FamilyKind::Counter,
        "Keys that made way for others.",
        |it| it.evicted,
    ),
];
