//! How much of the machine watching may cost.
//!
//! What a look costs is known only afterwards: it grows with actors, viewers and filters. So what was
//! spent is paid back by waiting, and the share holds however much there is to see; what grows is the time
//! between two looks.

use std::time::{Duration, Instant};

/// So much may be spent at once after a rest.
const SAVED_MAX: Duration = Duration::from_millis(20);

/// An account of processor time: it earns a share of the time that passes.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Processor time for each unit of time.
    share: f64,
    /// The longest wait: what cannot be paid back in it is forgiven.
    wait_max: Duration,
    /// Seconds; less than nothing if more was spent than earned.
    balance: f64,
    at: Instant,
}

impl Budget {
    pub(crate) fn new(share: f64, wait_max: Duration, now: Instant) -> Self {
        Self {
            share,
            wait_max,
            balance: SAVED_MAX.as_secs_f64(),
            at: now,
        }
    }

    /// Takes from the account.
    pub(crate) fn spend(&mut self, cost: Duration, now: Instant) {
        self.earn(now);
        self.balance -= cost.as_secs_f64();
    }

    /// How long until nothing is owed.
    pub(crate) fn wait(&mut self, now: Instant) -> Duration {
        self.earn(now);
        let seconds = (-self.balance).max(0.0) / self.share;
        Duration::try_from_secs_f64(seconds).map_or(self.wait_max, |wait| wait.min(self.wait_max))
    }

    fn earn(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        let owed_max = self.wait_max.as_secs_f64() * self.share;
        let balance = self.balance.max(-owed_max) + passed * self.share;
        self.balance = balance.min(SAVED_MAX.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT_MAX: Duration = Duration::from_secs(10);

    #[test]
    fn what_was_spent_is_paid_back_by_waiting() {
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        let mut budget = Budget::new(0.01, WAIT_MAX, begin);
        budget.spend(Duration::from_millis(15), begin);
        assert_eq!(budget.wait(begin), Duration::ZERO);
        budget.spend(Duration::from_millis(10), begin);
        let wait = budget.wait(begin);
        assert!(
            wait.abs_diff(Duration::from_millis(500)) < Duration::from_millis(2),
            "{wait:?}"
        );
        assert!(
            budget.wait(at(400)).abs_diff(Duration::from_millis(100)) < Duration::from_millis(2)
        );
        assert_eq!(budget.wait(at(600)), Duration::ZERO);
    }

    #[test]
    fn rest_saves_little_and_a_great_debt_is_forgiven() {
        let begin = Instant::now();
        let mut budget = Budget::new(0.01, WAIT_MAX, begin);
        budget.spend(Duration::from_secs(100), begin);
        assert_eq!(budget.wait(begin), WAIT_MAX);
        let later = begin + Duration::from_secs(3_600);
        assert_eq!(budget.wait(later), Duration::ZERO);
        budget.spend(SAVED_MAX * 2, later);
        assert!(budget.wait(later) > Duration::from_secs(1));
    }
}
