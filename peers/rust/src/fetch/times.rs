//! What a service says of its own times.

use freeboard::meter::HistogramSummary;

use crate::outcome::Outcome;

/// In nanoseconds.
pub struct Times {
    /// From when a notification was due to when the service took it up.
    pub wait: HistogramSummary,
    /// From there to the confirm of its reply.
    pub lifetime: HistogramSummary,
}

impl Times {
    pub fn add_to(&self, outcome: Outcome) -> Outcome {
        outcome
            .with_field("wait_p50_ms", milliseconds(self.wait.p50))
            .with_field("wait_p99_ms", milliseconds(self.wait.p99))
            .with_field("lifetime_p50_ms", milliseconds(self.lifetime.p50))
            .with_field("lifetime_p99_ms", milliseconds(self.lifetime.p99))
    }
}

pub(super) fn milliseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}
