//! The budget of one run: a number of messages or a time, whichever is used up first.
//!
//! A clock read costs as much as a small message. So a run reads the clock after its second message, and then at
//! distances that follow from the pace so far and at most double. A run that lasts across a tick of the monitor ends
//! there, unless a clock read in it shows time left. After a run that used up its time, the next runs read the clock
//! from the start, and so does a worker's first run after a search: actors with long messages handle one per run.

use freeboard_meter::clock;

use crate::{
    label::RunLabel,
    sync::{AtomicU64, Ordering},
};

/// The limits of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetLimits {
    /// Messages per run; default 64.
    pub messages: u32,
    /// Time per run in nanoseconds; default 500,000.
    pub time_ns: u64,
}

impl Default for BudgetLimits {
    fn default() -> Self {
        Self {
            messages: 64,
            time_ns: 500_000,
        }
    }
}

/// The remaining budget of a run.
#[derive(Debug)]
pub struct Budget<'a> {
    limits: BudgetLimits,
    label: &'a RunLabel,
    tick: &'a Tick,
    began_at_tick: u64,
    spent: u32,
    /// The clock is read after this message.
    read_clock_at: u32,
    started_ns: u64,
    /// Messages spent when the clock was first read.
    started_at: u32,
    clock_read_ns: u64,
    is_time_up: bool,
}

impl<'a> Budget<'a> {
    /// A full budget of a run with this label.
    pub(crate) fn new(limits: BudgetLimits, label: &'a RunLabel, tick: &'a Tick) -> Self {
        Self {
            limits,
            label,
            tick,
            began_at_tick: tick.now(),
            spent: 0,
            read_clock_at: 2,
            started_ns: 0,
            started_at: 0,
            clock_read_ns: 0,
            is_time_up: false,
        }
    }

    /// Spends one message. `false` when the budget is used up.
    #[inline]
    pub fn spend(&mut self) -> bool {
        self.spent += 1;
        if self.spent >= self.limits.messages {
            return false;
        }
        let tick = self.tick.now();
        if tick != self.began_at_tick {
            if self.started_ns > 0 {
                // A short run may just have met the tick.
                self.began_at_tick = tick;
                return self.check_time(clock::now_ns());
            }
            self.is_time_up = true;
            return false;
        }
        self.spent < self.read_clock_at || self.check_time(clock::now_ns())
    }

    /// The run began at `now_ns` and reads the clock after its first message, because that may be a long one.
    #[must_use]
    pub(crate) fn reading_clock_at_once(mut self, now_ns: u64) -> Self {
        self.started_ns = now_ns;
        self.clock_read_ns = now_ns;
        self.read_clock_at = 1;
        self
    }

    fn check_time(&mut self, now_ns: u64) -> bool {
        if self.started_ns == 0 {
            self.started_ns = now_ns;
            self.started_at = self.spent;
        }
        self.clock_read_ns = now_ns;
        let elapsed_ns = now_ns.saturating_sub(self.started_ns);
        if elapsed_ns >= self.limits.time_ns {
            self.is_time_up = true;
            return false;
        }
        // Half of the messages that fit at the pace so far, at most as many as were handled already.
        let handled = u64::from(self.spent - self.started_at).max(1);
        let fitting = (self.limits.time_ns - elapsed_ns) / (elapsed_ns / handled).max(1) / 2;
        let distance = fitting.clamp(1, u64::from(self.spent));
        self.read_clock_at = self.spent + distance as u32;
        true
    }

    /// The run's label.
    #[inline]
    pub fn label(&self) -> &'a RunLabel {
        self.label
    }

    /// Whether the messages or the time of the budget are used up.
    pub fn is_spent(&self) -> bool {
        self.is_time_up || self.spent >= self.limits.messages
    }

    /// Messages spent so far.
    pub(crate) fn spent(&self) -> u32 {
        self.spent
    }

    /// Whether the time of the budget is used up.
    pub(crate) fn is_time_up(&self) -> bool {
        self.is_time_up
    }

    /// The last clock read in this run, 0 if there was none.
    pub(crate) fn clock_read_ns(&self) -> u64 {
        self.clock_read_ns
    }
}

/// A coarse clock: a number that the monitor increments about each millisecond. Reading it costs next to nothing. Most runs
/// see no change, and a run of a millisecond always sees one.
///
/// On its own cache lines: read with each message, written once a millisecond.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Tick(AtomicU64);

impl Tick {
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        // Ordering: Relaxed, only a hint of time.
        self.0.load(Ordering::Relaxed)
    }

    /// Called by the monitor only.
    pub(crate) fn advance(&self) {
        // Ordering: Relaxed, as in `now`.
        self.0.store(self.now() + 1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: BudgetLimits = BudgetLimits {
        messages: 64,
        time_ns: 500_000,
    };

    /// Messages of a run when each takes `message_ns`, and its clock reads.
    fn run(message_ns: u64) -> (u32, u32) {
        let label = RunLabel::default();
        let tick = Tick::default();
        let mut budget = Budget::new(LIMITS, &label, &tick);
        let (mut now_ns, mut reads) = (1, 0);
        loop {
            now_ns += message_ns;
            budget.spent += 1;
            if budget.spent >= LIMITS.messages {
                return (budget.spent, reads);
            }
            if budget.spent >= budget.read_clock_at {
                reads += 1;
                if !budget.check_time(now_ns) {
                    return (budget.spent, reads);
                }
            }
        }
    }

    #[test]
    fn quick_messages_cost_few_clock_reads() {
        assert_eq!(run(20), (64, 5));
    }

    #[test]
    fn a_tick_ends_the_run() {
        let (label, tick) = (RunLabel::default(), Tick::default());
        let mut budget = Budget::new(LIMITS, &label, &tick);
        tick.advance();
        assert!(!budget.spend());
        assert!(budget.is_spent() && budget.is_time_up());
        assert!(Budget::new(LIMITS, &label, &tick).spend());
    }

    #[test]
    fn slow_messages_end_the_run_in_time() {
        // The clock is first read after the second message; then 500 us are left.
        assert_eq!(run(400_000).0, 4);
        assert_eq!(run(50_000).0, 12);
        assert_eq!(run(10_000).0, 52);
    }
}
