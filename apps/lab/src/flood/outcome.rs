//! What a run came to.

use std::time::Duration;

use super::{monitor::Point, plan::Plan, record::RunRecord, verify::Verdict};

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// Everything was drained.
    Drained,
    /// It was stopped after this time, as planned.
    Limit(Duration),
    /// Ctrl-C.
    Interrupted,
    /// The sink failed.
    Failed(String),
}

/// A run and its result.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) plan: Plan,
    pub(super) record: RunRecord,
    pub(super) ending: Ending,
    /// Lines that were offered and not accepted.
    pub(super) refused: u64,
    pub(super) verdict: Verdict,
    pub(super) points: Vec<Point>,
}
