//! A deadline that moves often, and a timer that is set seldom.
//!
//! A connection's deadline moves with each request. Its one timer stays where it is: when it fires too
//! early, it is set again for what is left.

use std::time::Duration;

use freeboard_actor::{Actor, Context};
use freeboard_meter::now_ns;

/// When an actor must have come further.
#[derive(Debug, Default)]
pub(crate) struct Deadline {
    due_ns: u64,
    /// When the timer that is set fires; 0 for none.
    timer_ns: u64,
}

impl Deadline {
    /// So long from now. `fired` is called in time, and asks [`Deadline::has_passed`].
    pub(crate) fn set<A: Actor>(
        &mut self,
        time: Duration,
        cx: &Context<A>,
        fired: fn(&mut A, &mut Context<A>),
    ) {
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.due_ns = now_ns().saturating_add(time_ns);
        // One that was set for later stays behind, fires once more and finds nothing to do.
        if self.timer_ns == 0 || self.timer_ns > self.due_ns {
            self.start(time, cx, fired);
        }
    }

    /// No deadline, until the next is set.
    pub(crate) fn clear(&mut self) {
        self.due_ns = u64::MAX;
    }

    /// The timer has fired: whether the deadline has passed. If not, it is set again.
    pub(crate) fn has_passed<A: Actor>(
        &mut self,
        cx: &Context<A>,
        fired: fn(&mut A, &mut Context<A>),
    ) -> bool {
        let now_ns = now_ns();
        if self.timer_ns > now_ns {
            // The one behind an earlier one.
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
        // Without a timer thread nothing expires, and the next deadline tries again.
        if cx.wake_after(time, fired).is_ok() {
            self.timer_ns = self.due_ns;
        }
    }
}
