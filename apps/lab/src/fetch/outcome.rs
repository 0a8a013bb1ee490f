//! What a run came to.

use freeboard::meter::HistogramSummary;

use super::{
    cost::Cost,
    owners::{Owners, Reading},
};

/// What a run came to.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) sent: u64,
    /// Replied to, each counted once.
    pub(super) completed: u64,
    pub(super) dead: u64,
    /// Still in their queues when the fetcher ended.
    pub(super) left: u64,
    /// Still under way when the fetcher was ended: of the original, which had acknowledged them.
    pub(super) unfinished: u64,
    /// Seen nowhere again, and not under way any more.
    pub(super) lost: u64,
    /// Of the original: notifications that were lost as too much was in flight to Redis. Of ours: look-ups that were
    /// refused for that, and tried again.
    pub(super) shed: u64,
    /// Of the original: lost for another reason.
    pub(super) failed: u64,
    /// Replies that came more than once.
    pub(super) repeated: u64,
    /// While it was sent, in seconds.
    pub(super) seconds: f64,
    /// Replies until all was sent.
    pub(super) completed_in_time: u64,
    /// From when it was due to the reply.
    pub(super) latency: HistogramSummary,
    /// The same of notifications that were delivered once.
    pub(super) latency_at_once: HistogramSummary,
    /// How often notifications of ours were put off because they had waited too long.
    pub(super) put_off: u64,
    pub(super) wait: HistogramSummary,
    pub(super) lifetime: HistogramSummary,
    pub(super) in_queue: HistogramSummary,
    /// Of the slowest connection.
    pub(super) from_send: HistogramSummary,
    pub(super) from_tell: HistogramSummary,
    /// What each redis actor was told, or each connection sent.
    pub(super) per_actor: Vec<u64>,
    /// Commands in flight, the most that was seen.
    pub(super) in_flight_peak: u64,
    /// Notifications in the main actors' mailboxes, the most that was seen.
    pub(super) mailbox_peak: u64,
    pub(super) misses: u64,
    pub(super) rss_peak_bytes: Option<u64>,
    pub(super) rss_growth_bytes: Option<u64>,
    pub(super) cpu_us_per_message: Option<f64>,
    pub(super) idle_cpu_percent: Option<f64>,
    pub(super) cost: Cost,
    pub(super) load_cpu_percent: Option<f64>,
    pub(super) memory_at_peak: Option<Owners>,
    pub(super) readings: Vec<Reading>,
    /// As the original named them.
    pub(super) counters: Vec<(String, f64)>,
}

impl Outcome {
    /// Replies a second while it was sent.
    pub(super) fn rate(&self) -> f64 {
        self.completed_in_time as f64 / self.seconds.max(1e-9)
    }

    /// How much more than the mean of the others the busiest connection does.
    pub(super) fn skew(&self) -> Option<f64> {
        let most = *self.per_actor.iter().max()?;
        let others = self.per_actor.len().checked_sub(1).filter(|it| *it > 0)? as f64;
        let rest = self.per_actor.iter().sum::<u64>() - most;
        (rest > 0).then(|| most as f64 / (rest as f64 / others))
    }
}
