//! Who runs and who waits: without a lock, a clock or a thread.

use std::collections::VecDeque;

use super::occupancy::Occupancy;

/// A bounded number of places to run in, and a bounded line before them.
#[derive(Debug)]
pub(super) struct Places<T> {
    running_max: usize,
    waiting_max: usize,
    line: VecDeque<T>,
    occupancy: Occupancy,
}

/// What becomes of one who comes.
#[must_use]
pub(super) enum Entry<T> {
    /// It runs, and must [`Places::leave`].
    Runs(T),
    /// It is in line, for [`Places::next`].
    Waits,
    /// There is no place, not even in line.
    Refused(T),
}

impl<T> Places<T> {
    pub(super) fn new(running_max: usize, waiting_max: usize) -> Self {
        Self {
            running_max,
            waiting_max,
            line: VecDeque::new(),
            occupancy: Occupancy::default(),
        }
    }

    pub(super) fn enter(&mut self, visitor: T) -> Entry<T> {
        let occupancy = &mut self.occupancy;
        // A free place is for the first in line.
        if occupancy.running < self.running_max && self.line.is_empty() {
            self.begin();
            return Entry::Runs(visitor);
        }
        if self.line.len() == self.waiting_max {
            occupancy.refused += 1;
            return Entry::Refused(visitor);
        }
        self.line.push_back(visitor);
        occupancy.waiting_high_water = occupancy.waiting_high_water.max(self.line.len());
        Entry::Waits
    }

    pub(super) fn leave(&mut self) {
        self.occupancy.running -= 1;
        self.occupancy.served += 1;
    }

    /// The first in line, if there is a place: it runs, and must [`Places::leave`].
    #[must_use]
    pub(super) fn next(&mut self) -> Option<T> {
        if self.occupancy.running == self.running_max {
            return None;
        }
        let next = self.line.pop_front()?;
        self.begin();
        Some(next)
    }

    pub(super) fn occupancy(&self) -> Occupancy {
        Occupancy {
            waiting: self.line.len(),
            ..self.occupancy
        }
    }

    pub(super) fn take_line(&mut self) -> VecDeque<T> {
        std::mem::take(&mut self.line)
    }

    fn begin(&mut self) {
        let occupancy = &mut self.occupancy;
        occupancy.running += 1;
        occupancy.running_high_water = occupancy.running_high_water.max(occupancy.running);
    }
}
