//! What a receiver does with each message: count it, add it up, and notice the last.

use crate::finish::Finish;

/// The receiver's sums.
pub struct Tally {
    expected: u64,
    count: u64,
    sum: u64,
    finish: Finish,
}

impl Tally {
    pub fn new(expected: u64, finish: Finish) -> Self {
        Self {
            expected,
            count: 0,
            sum: 0,
            finish,
        }
    }

    /// Handles one message. True when it was the last one.
    #[inline]
    pub fn add(&mut self, value: u64) -> bool {
        self.count += 1;
        self.sum = self.sum.wrapping_add(value);
        let is_last = self.count == self.expected;
        if is_last {
            self.finish.report(self.count, self.sum);
        }
        is_last
    }
}

/// The sum of what `senders` senders send when each sends 0, 1, 2, ... `units - 1`.
pub fn sum_of(senders: u64, units: u64) -> u64 {
    senders * (units * (units - 1) / 2)
}
