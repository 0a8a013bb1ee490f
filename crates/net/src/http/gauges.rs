//! What a server counts.

use freeboard_meter::Counter;

/// Counters of one server.
#[derive(Debug, Default)]
pub(super) struct Gauges {
    pub(super) requests: Counter,
    pub(super) answers: Counter,
    pub(super) refused: Counter,
    pub(super) timed_out: Counter,
    pub(super) broken: Counter,
    pub(super) panics: Counter,
    pub(super) bytes_read: Counter,
    pub(super) bytes_queued: Counter,
}

/// What a server has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HttpSnapshot {
    /// Requests that came whole.
    pub requests: u64,
    /// Answers that were begun.
    pub answers: u64,
    /// Requests that were refused: malformed, too large, too late.
    pub refused: u64,
    /// Connections that were closed because the peer took too long.
    pub timed_out: u64,
    /// Connections that broke, or that the peer left in the middle of a request.
    pub broken: u64,
    /// Handlers that panicked; their requests were answered with 500.
    pub panics: u64,
    /// Bytes that came.
    pub bytes_read: u64,
    /// Bytes that were handed to connections to be written.
    pub bytes_queued: u64,
}

impl Gauges {
    pub(super) fn snapshot(&self) -> HttpSnapshot {
        HttpSnapshot {
            requests: self.requests.get(),
            answers: self.answers.get(),
            refused: self.refused.get(),
            timed_out: self.timed_out.get(),
            broken: self.broken.get(),
            panics: self.panics.get(),
            bytes_read: self.bytes_read.get(),
            bytes_queued: self.bytes_queued.get(),
        }
    }
}
