//! A timer of an actor whose due time changes often.
//!
//! A later due time leaves the timer as it is: it fires early, and its owner sets it again. Only an earlier due
//! time replaces it.

use std::{io, time::Duration};

use freeboard_actor::{Actor, Context, TimerKey};
use freeboard_meter::now_ns;

/// Minimum delay, so that many close due times do not need many timers.
const RESOLUTION_NS: u64 = 1_000_000;

/// One timer of an actor, set for the earliest of changing due times.
#[derive(Debug, Default)]
pub struct Alarm {
    /// The timer, and when it fires.
    timer: Option<(TimerKey, u64)>,
}

impl Alarm {
    /// Calls `fired` at `due_ns` of the process clock, or earlier; never if that is `u64::MAX`. `fired` calls
    /// [`Alarm::fired`].
    ///
    /// # Errors
    /// There is no timer thread.
    pub fn set<A: Actor>(
        &mut self,
        due_ns: u64,
        cx: &Context<A>,
        fired: fn(&mut A, &mut Context<A>),
    ) -> io::Result<()> {
        let is_early_enough = self.timer.is_some_and(|(_, at_ns)| at_ns <= due_ns);
        if due_ns == u64::MAX || is_early_enough {
            return Ok(());
        }
        if let Some((key, _)) = self.timer.take() {
            cx.cancel(key);
        }
        let now_ns = now_ns();
        let delay_ns = due_ns.saturating_sub(now_ns).max(RESOLUTION_NS);
        let key = cx.wake_after(Duration::from_nanos(delay_ns), fired)?;
        self.timer = Some((key, now_ns.saturating_add(delay_ns)));
        Ok(())
    }

    /// The timer has fired.
    pub fn fired(&mut self) {
        self.timer = None;
    }
}

/// The time by which an actor must have made progress.
#[derive(Debug, Default)]
pub(crate) struct Deadline {
    due_ns: u64,
    alarm: Alarm,
}

impl Deadline {
    /// Sets the deadline to `time` from now. `fired` is called by then and asks [`Deadline::has_passed`].
    pub(crate) fn set<A: Actor>(
        &mut self,
        time: Duration,
        cx: &Context<A>,
        fired: fn(&mut A, &mut Context<A>),
    ) {
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.due_ns = now_ns().saturating_add(time_ns);
        // If no timer can be set, nothing expires now; the next deadline tries again.
        let _ = self.alarm.set(self.due_ns, cx, fired);
    }

    /// Removes the deadline until the next [`Deadline::set`].
    pub(crate) fn clear(&mut self) {
        self.due_ns = u64::MAX;
    }

    /// Whether the deadline has passed, called when the timer fires. If it has not, the timer is set again.
    pub(crate) fn has_passed<A: Actor>(
        &mut self,
        cx: &Context<A>,
        fired: fn(&mut A, &mut Context<A>),
    ) -> bool {
        self.alarm.fired();
        let has_passed = self.due_ns <= now_ns();
        if !has_passed {
            // As in `set`.
            let _ = self.alarm.set(self.due_ns, cx, fired);
        }
        has_passed
    }
}
