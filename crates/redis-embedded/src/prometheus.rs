//! What a server has counted, as Prometheus families.

use freeboard_meter::{Exposition, FamilyKind};

use crate::snapshot::EmbeddedSnapshot;

impl EmbeddedSnapshot {
    /// Adds the families to `text`, labelled with `server`.
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
