//! The scene's results as they are written to JSON. The shape is fixed: others read it.

use serde::Serialize;

use super::knobs::{DamRule, Receive, RouteKind, SinkKind};

/// All runs of one call.
#[derive(Debug, Serialize)]
pub(crate) struct Record<'a> {
    pub(crate) scene: &'static str,
    pub(crate) runs: Vec<&'a RunRecord>,
}

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
    pub(crate) peak_queue: PeakQueue,
    pub(crate) verified: bool,
    pub(crate) rss_peak_bytes: Option<u64>,
    pub(crate) watch: Vec<WatchSample>,
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
