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
    /// Requests executed or refused.
    pub commands: u64,
    /// Keys, including expired keys that were not removed yet.
    pub keys: usize,
    /// Memory of keys and values, in bytes.
    pub bytes: usize,
    /// Reads that found a key.
    pub hits: u64,
    /// Reads that found no key.
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

/// Declares the table of metrics, one row each.
macro_rules! families {
    ($($kind:ident $name:literal = |$it:ident| $value:expr, $help:literal;)+) => {
        const FAMILIES: &[Family] = &[$(($name, FamilyKind::$kind, $help, |$it| $value),)+];
    };
}

families! {
    Gauge "freeboard_redis_embedded_connections" = |it| it.connections as u64,
        "Open connections.";
    Counter "freeboard_redis_embedded_connections_refused_total" = |it| it.connections_refused,
        "Connections refused by the limit.";
    Counter "freeboard_redis_embedded_connections_overflowed_total" = |it| it.connections_overflowed,
        "Connections closed because of too many unread replies or messages.";
    Counter "freeboard_redis_embedded_connections_malformed_total" = |it| it.connections_malformed,
        "Connections closed because of a malformed request, or HTTP.";
    Counter "freeboard_redis_embedded_connections_unfinished_total" = |it| it.connections_unfinished,
        "Connections closed by the limit of unfinished requests.";
    Gauge "freeboard_redis_embedded_unfinished_bytes" = |it| it.unfinished_bytes as u64,
        "Bytes of unfinished requests, without the first 64 KiB of each connection.";
    Counter "freeboard_redis_embedded_commands_total" = |it| it.commands,
        "Requests executed or refused.";
    Gauge "freeboard_redis_embedded_keys" = |it| it.keys as u64,
        "Keys, including expired keys that were not removed yet.";
    Gauge "freeboard_redis_embedded_stored_bytes" = |it| it.bytes as u64,
        "Memory of keys and values, in bytes.";
    Counter "freeboard_redis_embedded_hits_total" = |it| it.hits,
        "Reads that found a key.";
    Counter "freeboard_redis_embedded_misses_total" = |it| it.misses,
        "Reads that found no key.";
    Counter "freeboard_redis_embedded_expired_total" = |it| it.expired,
        "Expired keys.";
    Counter "freeboard_redis_embedded_evicted_total" = |it| it.evicted,
        "Evicted keys.";
}
