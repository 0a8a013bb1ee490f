//! What a run measured; serialized, it is the JSON.

use serde::Serialize;

use super::knobs::{DamRule, Receive, RouteKind, SinkKind};

/// One run.
#[derive(Debug, Serialize)]
pub(crate) struct RunRecord {
    pub(crate) route: RouteKind,
    pub(crate) receive: Receive,
    pub(crate) sink: SinkKind,
    pub(crate) dam: Option<DamRule>,
    pub(crate) senders: u32,
    /// Of each sender.
    pub(crate) messages: u64,
    /// `accepted = written + shed`.
    pub(crate) accepted: u64,
    pub(crate) written: u64,
    pub(crate) shed: u64,
    /// From the first send until the last line was flushed.
    pub(crate) seconds: f64,
    /// Lines a second while more than 90 % of the flood was queued.
    pub(crate) drain_rate_deep: Option<f64>,
    /// Lines a second while less than 1 % of the flood was queued.
    pub(crate) drain_rate_shallow: Option<f64>,
    /// Processor time of the whole process.
    pub(crate) cpu_s: Option<f64>,
    pub(crate) peak_queue: PeakQueue,
    pub(crate) verified: bool,
    pub(crate) rss_peak_bytes: Option<u64>,
    pub(crate) watch: Vec<WatchSample>,
    /// Whether all lines were queued before the server began.
    #[serde(skip)]
    pub(crate) is_held: bool,
    #[serde(skip)]
    pub(crate) remarks: Vec<String>,
}

impl RunRecord {
    /// Lines a second from the first send to the last write.
    pub(crate) fn rate(&self) -> f64 {
        self.written as f64 / self.seconds.max(1e-9)
    }
}

/// The longest that each queue was.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct PeakQueue {
    pub(crate) dam: u64,
    pub(crate) server: u64,
}

/// Both queues at one time.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct WatchSample {
    /// ISO 8601, UTC, with milliseconds.
    pub(crate) time: String,
    pub(crate) dam: u64,
    pub(crate) server: u64,
}
