//! What the original counts.

use freeboard::meter::Counter;

use super::sample::Sample;

/// Of all its actors together.
#[derive(Debug, Default)]
pub(super) struct Gauges {
    pub(super) received: Counter,
    pub(super) malformed: Counter,
    pub(super) completed: Counter,
    /// Lost, as too much was in flight to Redis.
    pub(super) shed: Counter,
    /// Lost for another reason.
    pub(super) failed: Counter,
    pub(super) misses: Counter,
    pub(super) wait: Sample,
    pub(super) lifetime: Sample,
    pub(super) in_queue: Sample,
    pub(super) from_tell: Sample,
}
