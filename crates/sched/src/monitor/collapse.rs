//! The collapse detector: workers asleep while there is work.
//!
//! Under the sleep protocol, while a task is queued and workers sleep, some worker is on its way to the task. A reading
//! without one can be a moment between a push and its wake. So it counts only when no worker went to sleep or was woken
//! since the reading before: every producer that completed its push in between would have woken one.

use crate::{settings::Collapse, sleep::SleepReading};

/// Readings in a row that make a collapse.
const READINGS: u32 = 3;

pub(super) struct CollapseWatch {
    well_ns: u64,
    checked_ns: u64,
    generation: u64,
    readings: u32,
    /// The present collapse was reported.
    is_counted: bool,
}

/// The contribution of a reading to a suspected or present collapse.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// The sleepers' time since the reading before, for which there was work.
    pub(super) wasted_ns: u64,
    /// The monitor must wake a worker now.
    pub(super) is_due: bool,
    /// The collapse, at its first detection.
    pub(super) is_new: Option<Collapse>,
}

impl CollapseWatch {
    pub(super) fn new(now_ns: u64) -> Self {
        Self {
            well_ns: now_ns,
            checked_ns: now_ns,
            generation: 0,
            readings: 0,
            is_counted: false,
        }
    }

    pub(super) fn all_is_well(&mut self, now_ns: u64) {
        self.well_ns = now_ns;
        self.checked_ns = now_ns;
        self.readings = 0;
        self.is_counted = false;
    }

    pub(super) fn check(
        &mut self,
        reading: SleepReading,
        queued: u64,
        now_ns: u64,
    ) -> Option<Finding> {
        let is_bad = queued > 0 && reading.sleeping > 0 && reading.searching == 0;
        if !is_bad {
            self.all_is_well(now_ns);
            return None;
        }
        if self.readings == 0 || reading.generation != self.generation {
            // The first such reading, or a worker was woken since: start to count again.
            self.readings = 1;
            self.generation = reading.generation;
            self.checked_ns = now_ns;
            return None;
        }
        self.readings += 1;
        let wasted_ns = (now_ns - self.checked_ns) * reading.sleeping.min(queued);
        self.checked_ns = now_ns;
        let is_due = self.readings >= READINGS;
        let is_new = is_due && !self.is_counted;
        self.is_counted |= is_due;
        Some(Finding {
            wasted_ns,
            is_due,
            is_new: is_new.then(|| Collapse {
                sleeping: reading.sleeping,
                queued,
                detect_ns: now_ns - self.well_ns,
            }),
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn reading(sleeping: u64, searching: u64, generation: u64) -> SleepReading {
        SleepReading {
            sleeping,
            searching,
            generation,
        }
    }

    #[test]
    fn three_like_readings_make_a_collapse() {
        let mut watch = CollapseWatch::new(0);
        assert_eq!(watch.check(reading(1, 0, 7), 5, 1_000), None);
        let second = watch.check(reading(1, 0, 7), 5, 2_000).unwrap();
        assert_eq!((second.wasted_ns, second.is_due), (1_000, false));
        let third = watch.check(reading(1, 0, 7), 5, 3_000).unwrap();
        assert!(third.is_due);
        assert_eq!(third.is_new.unwrap().detect_ns, 3_000);
        let fourth = watch.check(reading(1, 0, 7), 5, 4_000).unwrap();
        assert!(
            fourth.is_due && fourth.is_new.is_none(),
            "one collapse, counted once"
        );
    }

    #[test]
    fn a_worker_that_is_woken_or_searches_prevents_a_collapse() {
        let mut watch = CollapseWatch::new(0);
        for time_ns in 1..100 {
            assert_eq!(watch.check(reading(1, 0, time_ns), 5, time_ns), None);
        }
        for time_ns in 100..200 {
            assert_eq!(watch.check(reading(1, 1, 100), 5, time_ns), None);
            assert_eq!(watch.check(reading(0, 0, 100), 5, time_ns), None);
            assert_eq!(watch.check(reading(2, 0, 100), 0, time_ns), None);
        }
    }
}
