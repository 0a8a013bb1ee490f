//! The door for what is no task: something outside, such as the network, that makes tasks ready.
//!
//! A driver has one turn at a time. An idle worker takes it and waits in it instead of on its own
//! token; busy ones look now and then, as its [`Cadence`] says; the monitor looks when nobody has.
//!
//! ```text
//!   idle worker ──▶ wait ──┐ found: leaves the sleepers' list, then makes tasks ready
//!   busy worker ──▶ look ──┼──▶ tasks ──▶ queues
//!   monitor     ──▶ look ──┘
//! ```

use std::cell::Cell;

use freeboard_meter::PollerSnapshot;

/// Who looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looker {
    /// This worker, between two runs.
    Busy(usize),
    /// The monitor.
    Monitor,
}

/// What came of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Somebody else has the turn.
    Taken,
    /// Nothing had happened, or the wait was ended by [`Driver::wake`].
    Nothing,
    /// Tasks were made ready.
    Found,
}

/// How often busy workers look: after so many runs or so much time, whichever comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cadence {
    /// Runs between two looks; `u32::MAX` for never.
    pub runs: u32,
    /// Nanoseconds between two looks, seen when a run reads the clock or lasts across a tick of the
    /// monitor.
    pub time_ns: u64,
    /// Whether the tasks that a busy look makes ready go before all others.
    pub is_first: bool,
}

impl Cadence {
    /// Busy workers do not look.
    pub const NEVER: Self = Self {
        runs: u32::MAX,
        time_ns: u64::MAX,
        is_first: false,
    };
}

thread_local! {
    static IS_FINDING: Cell<bool> = const { Cell::new(false) };
}

/// Calls `schedule`, which makes ready what a driver has found. On a thread that is no worker's this tells
/// it from what others schedule.
pub fn finding<R>(schedule: impl FnOnce() -> R) -> R {
    struct Finding;
    impl Drop for Finding {
        fn drop(&mut self) {
            IS_FINDING.set(false);
        }
    }
    IS_FINDING.set(true);
    let _finding = Finding;
    schedule()
}

/// Whether the thread is in [`finding`].
pub(crate) fn is_finding() -> bool {
    IS_FINDING.get()
}

/// Makes tasks ready for reasons of its own. Should one of its methods panic, the caller goes on as if
/// there were nothing to watch; in [`Driver::wait`], as if another one had the turn.
pub trait Driver: Send + Sync {
    /// Whether there is anything to look at. While there is not, idle workers sleep on their tokens.
    fn is_watching(&self) -> bool;

    /// How often busy workers look at present; asked after each run.
    fn cadence(&self) -> Cadence;

    /// Whether the monitor should look at `now_ns`, because nobody has for too long.
    fn is_unattended(&self, now_ns: u64) -> bool;

    /// Takes the turn if it is free and sees what has happened, without waiting. Makes tasks ready by
    /// [`Scheduler::schedule`](crate::Scheduler::schedule) within [`finding`].
    fn look(&self, looker: Looker) -> Look;

    /// Takes the turn if nobody else waits in it, and waits until something happens or
    /// [`Driver::wake`] is called. Calls `found` once before the first task is made ready.
    ///
    /// Once it has the turn, and before it waits, it asks `is_called`: a wake that came earlier may have
    /// ended the wait of whoever had the turn before.
    fn wait(&self, worker: usize, is_called: &dyn Fn() -> bool, found: &mut dyn FnMut()) -> Look;

    /// Ends the wait that is going on, or else the next one.
    fn wake(&self);

    /// What was counted so far.
    fn snapshot(&self) -> PollerSnapshot;
}
