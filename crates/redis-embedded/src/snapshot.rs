//! What a server has counted.

/// The figures of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmbeddedSnapshot {
    /// Connections that are open.
    pub connections: usize,
    /// Connections refused because there were too many.
    pub connections_refused: u64,
    /// Connections closed because their client had left too much unread.
    pub connections_overflowed: u64,
    /// Connections closed because what came was no request, or was HTTP.
    pub connections_malformed: u64,
    /// Connections closed because the unfinished requests of all clients took too many bytes.
    pub connections_unfinished: u64,
    /// What unfinished requests and transactions take, in bytes; the first 64 KiB of each connection do not count.
    pub unfinished_bytes: usize,
    /// Requests.
    pub commands: u64,
    /// Keys, with those that are over and were not looked at since.
    pub keys: usize,
    /// What keys and values take, in bytes.
    pub bytes: usize,
    /// Reads that found a key.
    pub hits: u64,
    /// Reads that found none.
    pub misses: u64,
    /// Keys whose time was over.
    pub expired: u64,
    /// Keys that made way for others.
    pub evicted: u64,
}
