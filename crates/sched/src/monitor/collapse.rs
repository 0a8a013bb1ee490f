//! The collapse detector: workers asleep while there is work for them.
//!
//! Under the sleep protocol a task in a queue never meets sleepers without somebody being under way
//! to it. A reading of that kind can be a moment between a push and its wake, so it counts only when
//! nobody went to sleep or was woken since the reading before: any push that was announced in
//! between would have woken one.

use crate::{settings::Collapse, sleep::SleepReading};

/// Readings in a row that make a collapse.
const READINGS: u32 = 3;

pub(super) struct CollapseWatch {
    well_ns: u64,
    looked_ns: u64,
    generation: u64,
    readings: u32,
    /// The present collapse was counted.
    is_counted: bool,
}

/// What a reading adds to a collapse that is suspected or under way.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Sleepers' time since the reading before, as far as there was work for them.
    pub(super) wasted_ns: u64,
    /// A worker is to be woken now.
    pub(super) is_due: bool,
    /// It is seen for the first time.
    pub(super) is_new: Option<Collapse>,
}

impl CollapseWatch {
    pub(super) fn new(now_ns: u64) -> Self {
        Self {
            well_ns: now_ns,
            looked_ns: now_ns,
            generation: 0,
            readings: 0,
            is_counted: false,
        }
    }

    pub(super) fn all_is_well(&mut self, now_ns: u64) {
        self.well_ns = now_ns;
        self.looked_ns = now_ns;
        self.readings = 0;
        self.is_counted = false;
    }

    pub(super) fn look(
        &mut self,
        reading: SleepReading,
        queued: u64,
        now_ns: u64,
    ) -> Option<Found> {
        let is_bad = queued > 0 && reading.sleeping > 0 && reading.searching == 0;
        if !is_bad {
            self.all_is_well(now_ns);
            return None;
        }
        if self.readings == 0 || reading.generation != self.generation {
            // The first of its kind, or somebody was woken since: begin to count anew.
            self.readings = 1;
            self.generation = reading.generation;
            self.looked_ns = now_ns;
            return None;
        }
        self.readings += 1;
        let wasted_ns = (now_ns - self.looked_ns) * reading.sleeping.min(queued);
        self.looked_ns = now_ns;
        let is_due = self.readings >= READINGS;
        let is_new = is_due && !self.is_counted;
        self.is_counted |= is_due;
        Some(Found {
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
        assert_eq!(watch.look(reading(1, 0, 7), 5, 1_000), None);
        let second = watch.look(reading(1, 0, 7), 5, 2_000).unwrap();
        assert_eq!((second.wasted_ns, second.is_due), (1_000, false));
        let third = watch.look(reading(1, 0, 7), 5, 3_000).unwrap();
        assert!(third.is_due);
        assert_eq!(third.is_new.unwrap().detect_ns, 3_000);
        let fourth = watch.look(reading(1, 0, 7), 5, 4_000).unwrap();
        assert!(
            fourth.is_due && fourth.is_new.is_none(),
            "one collapse, counted once"
        );
    }

    #[test]
    fn whoever_is_woken_or_searches_makes_it_none() {
        let mut watch = CollapseWatch::new(0);
        for time_ns in 1..100 {
            assert_eq!(watch.look(reading(1, 0, time_ns), 5, time_ns), None);
        }
        for time_ns in 100..200 {
            assert_eq!(watch.look(reading(1, 1, 100), 5, time_ns), None);
            assert_eq!(watch.look(reading(0, 0, 100), 5, time_ns), None);
            assert_eq!(watch.look(reading(2, 0, 100), 0, time_ns), None);
        }
    }
}
