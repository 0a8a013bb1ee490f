//! The budget of one run: so many messages or so much time, whichever is spent first.
//!
//! Reading the clock costs as much as handling a small message, so it is read after the second
//! message of a run and then at distances that the pace so far allows, at most doubling. A run that
//! lasts across a tick of the monitor ends there, unless the clock was read in it and says otherwise.
//! After a run that took its time, the next ones read the clock from the beginning, as does a worker's
//! first run after a search: so actors of long messages handle one a run each.

use freeboard_meter::clock;

use crate::{label::RunLabel, tick::Tick};

/// What a task may use in one run.
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

/// What is left of a run's budget.
#[derive(Debug)]
pub struct Budget<'a> {
    limits: BudgetLimits,
    label: &'a RunLabel,
    tick: &'a Tick,
    began_at_tick: u64,
    spent: u32,
    look_at: u32,
    started_ns: u64,
    /// Messages accounted for when the clock was first read.
    started_at: u32,
    looked_ns: u64,
    is_time_up: bool,
}

impl<'a> Budget<'a> {
    /// A whole budget of a run with this label.
    pub(crate) fn new(limits: BudgetLimits, label: &'a RunLabel, tick: &'a Tick) -> Self {
        Self {
            limits,
            label,
            tick,
            began_at_tick: tick.now(),
            spent: 0,
            look_at: 2,
            started_ns: 0,
            started_at: 0,
            looked_ns: 0,
            is_time_up: false,
        }
    }

    /// Accounts for one message. `false` when the budget is spent.
    #[inline]
    pub fn spend(&mut self) -> bool {
        self.spent += 1;
        if self.spent >= self.limits.messages {
            return false;
        }
        let tick = self.tick.now();
        if tick != self.began_at_tick {
            if self.started_ns > 0 {
                // A short run may just have met it.
                self.began_at_tick = tick;
                return self.look(clock::now_ns());
            }
            self.is_time_up = true;
            return false;
        }
        self.spent < self.look_at || self.look(clock::now_ns())
    }

    /// The run began at `now_ns`, and the clock is read after its first message: for a run that may
    /// be one long message.
    #[must_use]
    pub(crate) fn watchful(mut self, now_ns: u64) -> Self {
        self.started_ns = now_ns;
        self.looked_ns = now_ns;
        self.look_at = 1;
        self
    }

    fn look(&mut self, now_ns: u64) -> bool {
        if self.started_ns == 0 {
            self.started_ns = now_ns;
            self.started_at = self.spent;
        }
        self.looked_ns = now_ns;
        let elapsed_ns = now_ns.saturating_sub(self.started_ns);
        if elapsed_ns >= self.limits.time_ns {
            self.is_time_up = true;
            return false;
        }
        // Half of what fits at the pace so far, and at most as many as were handled already.
        let handled = u64::from(self.spent - self.started_at).max(1);
        let fitting = (self.limits.time_ns - elapsed_ns) / (elapsed_ns / handled).max(1) / 2;
        let distance = fitting.clamp(1, u64::from(self.spent));
        self.look_at = self.spent + distance as u32;
        true
    }

    /// The run's label, to be told which message is handled.
    #[inline]
    pub fn label(&self) -> &'a RunLabel {
        self.label
    }

    /// Whether the messages or the time of the budget are used up.
    pub fn is_spent(&self) -> bool {
        self.is_time_up || self.spent >= self.limits.messages
    }

    /// Whether the time of the budget is used up.
    pub(crate) fn is_time_up(&self) -> bool {
        self.is_time_up
    }

    /// Messages accounted for.
    pub fn spent_messages(&self) -> u32 {
        self.spent
    }

    /// The last time the clock was read in this run, 0 if it was not.
    pub fn looked_ns(&self) -> u64 {
        self.looked_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: BudgetLimits = BudgetLimits {
        messages: 64,
        time_ns: 500_000,
    };

    /// Messages that a run handles when each takes `message_ns`, and clock reads it makes.
    fn run(message_ns: u64) -> (u32, u32) {
        let label = RunLabel::new();
        let tick = Tick::new();
        let mut budget = Budget::new(LIMITS, &label, &tick);
        let (mut now_ns, mut looks) = (1, 0);
        loop {
            now_ns += message_ns;
            budget.spent += 1;
            if budget.spent >= LIMITS.messages {
                return (budget.spent, looks);
            }
            if budget.spent >= budget.look_at {
                looks += 1;
                if !budget.look(now_ns) {
                    return (budget.spent, looks);
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
        let (label, tick) = (RunLabel::new(), Tick::new());
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
