//! Limits the overhead of the board to a share of one processor.
//!
//! The cost of a reading grows with actors, viewers and filters, and is known only afterwards. So the sampler
//! waits until it has earned what it spent: the share holds, and the time between two readings grows.

use std::time::{Duration, Instant};

/// The most that can be saved up, and so be spent at once.
const SAVED_MAX: Duration = Duration::from_millis(20);

/// An account of processor time: it earns a share of the time that passes.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Processor time for each unit of time.
    share: f64,
    /// The longest wait; a debt that takes longer is reduced to it.
    wait_max: Duration,
    /// Seconds; negative if more was spent than earned.
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

    /// The time until the balance is not negative.
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

/// A stopwatch of this thread's processor time, or of wall time where the system does not tell.
pub(crate) struct ProcessorTime(Mark);

#[cfg(unix)]
type Mark = Duration;

#[cfg(not(unix))]
type Mark = std::time::Instant;

impl ProcessorTime {
    pub(crate) fn now() -> Self {
        Self(mark())
    }

    #[cfg(unix)]
    pub(crate) fn elapsed(&self) -> Duration {
        mark().saturating_sub(self.0)
    }

    #[cfg(not(unix))]
    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(unix)]
fn mark() -> Mark {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(not(unix))]
fn mark() -> Mark {
    std::time::Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT_MAX: Duration = Duration::from_secs(10);

    #[test]
    fn spending_is_paid_back_by_waiting() {
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
    fn savings_and_debts_are_bounded() {
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
