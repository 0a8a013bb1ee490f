//! An actor's timer whose due time changes often.
//!
//! A later due time leaves the timer as it is: it fires early, and its owner sets it again. Only an earlier
//! due time replaces it.

use std::time::Duration;

use freeboard_actor::{Actor, Context, TimerKey};

/// Minimum delay, so that many close deadlines do not need many timers.
const RESOLUTION_NS: u64 = 1_000_000;

#[derive(Debug, Default)]
pub(crate) struct Alarm {
    set: Option<(TimerKey, u64)>,
}

impl Alarm {
    /// Schedules `fired` at `due_ns` or earlier; `u64::MAX` means never.
    pub(crate) fn set<A: Actor>(
        &mut self,
        due_ns: u64,
        now_ns: u64,
        cx: &Context<A>,
        fired: fn(&mut A, &mut Context<A>),
    ) {
        let is_early_enough = self.set.is_some_and(|(_, at_ns)| at_ns <= due_ns);
        if due_ns == u64::MAX || is_early_enough {
            return;
        }
        if let Some((key, _)) = self.set.take() {
            cx.cancel(key);
        }
        let delay_ns = due_ns.saturating_sub(now_ns).max(RESOLUTION_NS);
        // Fails only without a timer thread; the next run tries again.
        if let Ok(key) = cx.wake_after(Duration::from_nanos(delay_ns), fired) {
            self.set = Some((key, now_ns + delay_ns));
        }
    }

    /// The timer has fired.
    pub(crate) fn fired(&mut self) {
        self.set = None;
    }
}
