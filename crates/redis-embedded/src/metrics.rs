//! Counters of a server, and its metrics.

use freeboard_meter::{Exposition, metrics};

metrics! {
    /// Counters of a server.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct EmbeddedSnapshot: EMBEDDED {
        gauge connections: usize = "freeboard_redis_embedded_connections", "Open connections.";
        counter connections_refused: u64 = "freeboard_redis_embedded_connections_refused_total",
            "Connections refused by the limit.";
        counter connections_overflowed: u64 = "freeboard_redis_embedded_connections_overflowed_total",
            "Connections closed because of too many unread replies or messages.";
        counter connections_malformed: u64 = "freeboard_redis_embedded_connections_malformed_total",
            "Connections closed because of a malformed request, or HTTP.";
        counter connections_unfinished: u64 = "freeboard_redis_embedded_connections_unfinished_total",
            "Connections closed by the limit of unfinished requests.";
        gauge unfinished_bytes: usize = "freeboard_redis_embedded_unfinished_bytes",
            "Bytes of unfinished requests, without the first 64 KiB of each connection.";
        counter commands: u64 = "freeboard_redis_embedded_commands_total",
            "Requests executed or refused.";
        gauge keys: usize = "freeboard_redis_embedded_keys",
            "Keys, including expired keys that were not removed yet.";
        gauge bytes: usize = "freeboard_redis_embedded_stored_bytes",
            "Memory of keys and values, in bytes.";
        counter hits: u64 = "freeboard_redis_embedded_hits_total", "Reads that found a key.";
        counter misses: u64 = "freeboard_redis_embedded_misses_total", "Reads that found no key.";
        counter expired: u64 = "freeboard_redis_embedded_expired_total", "Expired keys.";
        counter evicted: u64 = "freeboard_redis_embedded_evicted_total", "Evicted keys.";
    }
}

impl EmbeddedSnapshot {
    /// Adds the metrics to `text`, with the label `server`.
    pub fn render(&self, server: &str, text: &mut Exposition) {
        text.metrics(EMBEDDED, &[("server", server)], self);
    }
}
