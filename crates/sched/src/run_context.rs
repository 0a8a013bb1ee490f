//! The interface of a running task to its thread, a worker or a pinned thread.

use std::fmt;

use freeboard_meter::clock;

use crate::{
    budget::{Budget, BudgetLimits, Tick},
    label::RunLabel,
};

/// The thread that runs a task.
pub(crate) trait Host: fmt::Debug {
    fn is_wanted_elsewhere(&self) -> bool;

    /// Waits until `is_ready`, as long as the thread has nothing else to do.
    fn wait(&self, is_ready: &mut dyn FnMut() -> bool) -> bool;

    /// The task is over.
    fn end(&self);

    /// Counts a renewed budget as a new run.
    fn count_run(&self);
}

/// The interface of a running task to its thread.
#[derive(Debug)]
pub struct RunContext<'a> {
    host: &'a dyn Host,
    limits: BudgetLimits,
    label: &'a RunLabel,
    tick: &'a Tick,
    /// When the run began, if the clock was read for another reason; else 0.
    began_ns: u64,
    /// A recent run of this thread used up its time.
    has_long_runs: bool,
    clock_read_ns: u64,
    messages: u32,
    is_time_up: bool,
}

impl<'a> RunContext<'a> {
    pub(crate) fn new(
        host: &'a dyn Host,
        limits: BudgetLimits,
        label: &'a RunLabel,
        tick: &'a Tick,
        began_ns: u64,
        has_long_runs: bool,
    ) -> Self {
        Self {
            host,
            limits,
            label,
            tick,
            began_ns,
            has_long_runs,
            clock_read_ns: 0,
            messages: 0,
            is_time_up: false,
        }
    }

    /// A full budget under the scheduler's limits.
    #[inline]
    pub fn budget(&self) -> Budget<'a> {
        let budget = Budget::new(self.limits, self.label, self.tick);
        if self.has_long_runs {
            budget.reading_clock_at_once(clock::now_ns())
        } else if self.began_ns > 0 {
            budget.reading_clock_at_once(self.began_ns)
        } else {
            budget
        }
    }

    /// A further budget, for a task that need not yield its thread. The monitor and the counters see a new run.
    pub fn renew(&mut self) -> Budget<'a> {
        self.began_ns = 0;
        self.host.count_run();
        self.budget()
    }

    /// The label that tells what runs here.
    #[inline]
    pub fn label(&self) -> &'a RunLabel {
        self.label
    }

    /// Whether a task whose budget is spent should yield: other tasks wait for this worker, or it polls a driver.
    #[inline]
    pub fn is_wanted_elsewhere(&self) -> bool {
        self.host.is_wanted_elsewhere()
    }

    /// On a pinned thread: waits as its wait strategy says, until `is_ready`. Returns `false` if the task is to rest; on
    /// a worker at once.
    #[inline]
    pub fn wait(&self, mut is_ready: impl FnMut() -> bool) -> bool {
        self.host.wait(&mut is_ready)
    }

    /// The task is over. A pinned thread terminates with it.
    pub fn end(&self) {
        self.host.end();
    }

    /// Reports to the worker how the budget was used and when the clock was last read.
    #[inline]
    pub fn account(&mut self, budget: &Budget<'_>) {
        self.clock_read_ns = self.clock_read_ns.max(budget.clock_read_ns());
        self.messages = self.messages.saturating_add(budget.spent());
        self.is_time_up |= budget.is_time_up();
    }

    /// Whether the run used up the time of a budget.
    pub(crate) fn is_time_up(&self) -> bool {
        self.is_time_up
    }

    /// Messages that the run handled.
    pub(crate) fn messages(&self) -> u32 {
        self.messages
    }

    pub(crate) fn clock_read_ns(&self) -> u64 {
        self.clock_read_ns
    }
}
