//! A driver makes tasks ready for reasons outside the scheduler, such as network events.
//!
//! One thread at a time has the driver's turn. An idle worker takes it and waits in the driver instead of in its parker.
//! Busy workers poll at the driver's [`PollInterval`], and the monitor polls when no worker has for too long.
//!
//! ```text
//!   idle worker ──▶ wait ──┐ leaves the list of sleepers, then makes tasks ready
//!   busy worker ──▶ poll ──┼──▶ tasks ──▶ queues
//!   monitor     ──▶ poll ──┘
//! ```

use std::cell::Cell;

use freeboard_meter::PollerSnapshot;

/// The thread that polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollOrigin {
    /// This worker, between two runs.
    Busy(usize),
    /// The monitor.
    Monitor,
}

/// The result of a poll or a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollOutcome {
    /// Another thread has the turn.
    Taken,
    /// There was no event, or [`Driver::wake`] ended the wait.
    Nothing,
    /// Tasks were made ready.
    Dispatched,
}

/// How often busy workers poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollInterval {
    /// Busy workers do not poll.
    Never,
    /// After a number of runs or a time, whichever comes first.
    Every {
        /// Runs between two polls.
        runs: u32,
        /// Nanoseconds between two polls, checked when a run reads the clock or lasts across a tick of the monitor.
        time_ns: u64,
        /// Whether tasks from the poll of a busy worker go before all others.
        is_first: bool,
    },
    /// After as many messages as this number of budgets allows, however long they take. A run without a message counts as
    /// one. Tasks from the poll go before all others. Long messages make the interval long, so this is only for measurements of starvation.
    Budgets(u32),
}

impl PollInterval {
    /// Whether tasks from the poll of a busy worker go before all others.
    #[must_use]
    pub const fn is_first(self) -> bool {
        matches!(self, Self::Every { is_first: true, .. } | Self::Budgets(_))
    }
}

thread_local! {
    static IS_DISPATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Calls `schedule`, which schedules the tasks of a driver's events. On a thread that is not a worker, this tells them
/// from other tasks.
pub fn dispatching<R>(schedule: impl FnOnce() -> R) -> R {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            IS_DISPATCHING.set(false);
        }
    }
    IS_DISPATCHING.set(true);
    let _reset = Reset;
    schedule()
}

/// Whether the thread is in [`dispatching`].
pub(crate) fn is_dispatching() -> bool {
    IS_DISPATCHING.get()
}

/// Makes tasks ready for reasons outside the scheduler. If a method panics, the scheduler continues as if there were
/// nothing to watch; in [`Driver::wait`], as if another thread had the turn.
pub trait Driver: Send + Sync {
    /// Whether there is anything to poll. Otherwise idle workers sleep in their parkers.
    fn is_watching(&self) -> bool;

    /// How often busy workers poll at present; called after each run.
    fn poll_interval(&self) -> PollInterval;

    /// Whether the monitor should poll at `now_ns`, and wake a sleeping worker to wait here, because no thread has polled
    /// for too long.
    fn is_unattended(&self, now_ns: u64) -> bool;

    /// Takes the turn if it is free, and handles the events so far without waiting. Makes tasks ready by
    /// [`Scheduler::schedule`](crate::Scheduler::schedule) within [`dispatching`].
    fn poll(&self, origin: PollOrigin) -> PollOutcome;

    /// Takes the turn if no other thread waits in it, and waits for an event or [`Driver::wake`]. Calls
    /// `before_dispatch` once before it makes the first task ready.
    ///
    /// After it has taken the turn and before it waits, it calls `is_woken`: an earlier wake may have ended the wait of
    /// the thread that had the turn before.
    fn wait(
        &self,
        worker: usize,
        is_woken: &dyn Fn() -> bool,
        before_dispatch: &mut dyn FnMut(),
    ) -> PollOutcome;

    /// Ends the present wait, or else the next one.
    fn wake(&self);

    /// The counters so far.
    fn snapshot(&self) -> PollerSnapshot;
}
