//! A deadline that moves often, on a timer that is set rarely.
//!
//! A connection's deadline moves with each request; its one timer stays. A timer that fires too early is set again
//! for the remaining time.

use std::time::Duration;

use freeboard_actor::{Actor, Context};
use freeboard_meter::now_ns;

/// The time by which an actor must have made progress.
#[derive(Debug, Default)]
pub(crate) struct Deadline {
    due_ns: u64,
    /// When the current timer fires; 0 for none.
    timer_ns: u64,
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
        // A later timer is not cancelled: it fires once more and does nothing.
        if self.timer_ns == 0 || self.timer_ns > self.due_ns {
            self.start(time, cx, fired);
        }
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
        let now_ns = now_ns();
        if self.timer_ns > now_ns {
            // A superseded timer.
            return false;
        }
        self.timer_ns = 0;
        if self.due_ns == u64::MAX {
            return false;
        }
        let left_ns = self.due_ns.saturating_sub(now_ns);
        if left_ns == 0 {
            return true;
        }
        self.start(Duration::from_nanos(left_ns), cx, fired);
        false
    }

    fn start<A: Actor>(
        &mut self,
        time: Duration,
        cx: &Context<A>,
        fired: fn(&mut A, &mut Context<A>),
    ) {
        // If no timer can be set, nothing expires now; the next deadline tries again.
        if cx.wake_after(time, fired).is_ok() {
            self.timer_ns = self.due_ns;
        }
    }
}
