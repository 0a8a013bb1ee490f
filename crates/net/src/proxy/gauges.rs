//! What a proxy counts.

use freeboard_meter::Counter;

/// Counters of one proxy.
#[derive(Debug, Default)]
pub(super) struct Gauges {
    pub(super) to_backend_bytes: Counter,
    pub(super) to_client_bytes: Counter,
    pub(super) backend_failures: Counter,
    pub(super) idle_timeouts: Counter,
    pub(super) broken: Counter,
}

/// What a proxy has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxySnapshot {
    /// Bytes carried from clients to the backend.
    pub to_backend_bytes: u64,
    /// Bytes carried from the backend to clients.
    pub to_client_bytes: u64,
    /// Connections closed because the backend could not be reached.
    pub backend_failures: u64,
    /// Connections closed because nothing came or went for too long.
    pub idle_timeouts: u64,
    /// Connections that broke: the other side was reset.
    pub broken: u64,
}

impl Gauges {
    pub(super) fn snapshot(&self) -> ProxySnapshot {
        ProxySnapshot {
            to_backend_bytes: self.to_backend_bytes.get(),
            to_client_bytes: self.to_client_bytes.get(),
            backend_failures: self.backend_failures.get(),
            idle_timeouts: self.idle_timeouts.get(),
            broken: self.broken.get(),
        }
    }
}
