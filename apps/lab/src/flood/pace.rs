//! How fast the server drained, and behind how long a queue.
//!
//! The server marks the time as its count of handled lines crosses each thousandth of the flood.
//! From the marks come two rates: *deep*, while more than 90 % of the flood was queued, and
//! *shallow*, while less than 1 % was.

/// Marks of one flood.
const MARKS: u64 = 1_000;

#[derive(Debug, Clone, Copy)]
struct Mark {
    at_ns: u64,
    accepted: u64,
    handled: u64,
}

/// The marks of one run.
#[derive(Debug)]
pub(crate) struct Pace {
    total: u64,
    step: u64,
    next: u64,
    marks: Vec<Mark>,
}

impl Pace {
    /// For a flood of `total` lines.
    pub(crate) fn new(total: u64) -> Self {
        Self {
            total,
            step: (total / MARKS).max(1),
            next: 0,
            marks: Vec::with_capacity(MARKS as usize + 2),
        }
    }

    /// Whether a mark is to be made when `handled` lines are.
    #[inline]
    pub(crate) fn is_due(&self, handled: u64) -> bool {
        handled == self.next
    }

    /// Makes a mark.
    pub(crate) fn mark(&mut self, at_ns: u64, accepted: u64, handled: u64) {
        self.next = handled - handled % self.step + self.step;
        self.marks.push(Mark {
            at_ns,
            accepted,
            handled,
        });
    }

    /// Lines a second while more than 90 % of the flood was queued, if that was seen.
    pub(crate) fn rate_deep(&self) -> Option<f64> {
        self.rate(|queued| queued * 10 > self.total * 9)
    }

    /// Lines a second while less than 1 % of the flood was queued, if that was seen.
    pub(crate) fn rate_shallow(&self) -> Option<f64> {
        self.rate(|queued| queued * 100 < self.total)
    }

    fn rate(&self, is_within: impl Fn(u64) -> bool) -> Option<f64> {
        let is_mark_within = |mark: &Mark| is_within(mark.accepted.saturating_sub(mark.handled));
        let (mut lines, mut time_ns) = (0, 0);
        for pair in self.marks.windows(2) {
            if is_mark_within(&pair[0]) && is_mark_within(&pair[1]) {
                lines += pair[1].handled - pair[0].handled;
                time_ns += pair[1].at_ns - pair[0].at_ns;
            }
        }
        (lines > 0 && time_ns > 0).then(|| lines as f64 * 1e9 / time_ns as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All is queued first, then drained at `ns_per_line` of the number handled.
    fn drained(total: u64, until: u64, ns_per_line: impl Fn(u64) -> u64) -> Pace {
        let mut pace = Pace::new(total);
        let mut now_ns = 1;
        for handled in 0..=until {
            if pace.is_due(handled) || handled == until {
                pace.mark(now_ns, total, handled);
            }
            now_ns += ns_per_line(handled);
        }
        pace
    }

    #[test]
    fn rates_are_those_of_their_regions() {
        let pace = drained(100_000, 100_000, |handled| match handled {
            ..10_000 => 1_000,
            10_000..99_001 => 1,
            _ => 500,
        });
        assert_eq!(pace.rate_deep().map(f64::round), Some(1e6));
        assert_eq!(pace.rate_shallow().map(f64::round), Some(2e6));
    }

    #[test]
    fn a_run_that_was_cut_has_no_shallow_rate() {
        let pace = drained(1_000_000, 350, |_| 1_000_000);
        assert_eq!(pace.rate_deep().map(f64::round), Some(1e3));
        assert_eq!(pace.rate_shallow(), None);
    }

    #[test]
    fn nothing_handled_gives_no_rate() {
        assert_eq!(drained(10, 0, |_| 1).rate_deep(), None);
        assert_eq!(Pace::new(10).rate_shallow(), None);
    }

    #[test]
    fn marks_stay_few() {
        let pace = drained(123_456, 123_456, |_| 1);
        assert!(pace.marks.len() as u64 <= MARKS + 10);
    }
}
