//! Two frames of one board and the time between them: what rates are made of.

use crate::Frame;

/// From an earlier frame to a later one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span<'a> {
    pub(crate) earlier: &'a Frame,
    seconds: f64,
}

impl<'a> Span<'a> {
    /// None if no time lies between them.
    pub(crate) fn new(earlier: &'a Frame, later: &Frame) -> Option<Self> {
        let ns = later.at_ns.checked_sub(earlier.at_ns)?;
        (ns > 0).then(|| Self {
            earlier,
            seconds: ns as f64 / 1e9,
        })
    }

    /// Growth a second of a counter; none if it has begun anew meanwhile.
    pub(crate) fn rate(&self, earlier: u64, later: u64) -> Option<f64> {
        let growth = later.checked_sub(earlier)?;
        Some(growth as f64 / self.seconds)
    }

    /// The same of a counter of a source.
    pub(crate) fn rate_of(&self, earlier: f64, later: f64) -> Option<f64> {
        (later >= earlier).then(|| (later - earlier) / self.seconds)
    }
}
