//! Inherited deadlines: what a handler does for a message ends with that message's deadline.
//!
//! ```text
//!   ask, timeout 50 ms ──> handler of A ──ask──> handler of B ──tell──> C
//!                          50 ms                 what is left           not handled after it
//! ```
//!
//! Without this, an overloaded actor at the end of a chain works for callers that gave up long ago. gRPC passes
//! deadlines on for the same reason; OTP and Akka do not. The deadline lies in a thread-local while a handler runs
//! (`current`), so sending needs no context, and a tell without a deadline costs nothing more: its flag shares a byte
//! with the outbox's.

use std::time::{Duration, Instant};

use freeboard_meter::clock;

use crate::{
    actor::Actor,
    context::Context,
    current::{self, DeadlineScope},
    reply::NO_DEADLINE_NS,
};

impl<A: Actor> Context<A> {
    /// The deadline of the current message: that of its ask, or of the handler that told it. `None` without one, and
    /// outside of the handler's own thread.
    ///
    /// Asks and tells that the handler starts inherit it: an ask ends at the earlier one of its own deadline and this
    /// one, and a tell that is still queued at the deadline is not handled and counts as expired. So do asks that are
    /// passed to [`Context::pipe`], messages to a [`crate::Recipient`] or a [`crate::Group`], and the replies of
    /// [`Context::ask`]. Not so: [`Context::send_all`], timers, notices, children, and what tasks and threads send
    /// that the handler starts.
    pub fn deadline(&self) -> Option<Instant> {
        match current::deadline_ns() {
            NO_DEADLINE_NS => None,
            deadline_ns => Some(clock::to_instant(deadline_ns)),
        }
    }

    /// The time until [`Context::deadline`]; zero once it has passed.
    pub fn time_left(&self) -> Option<Duration> {
        match current::deadline_ns() {
            NO_DEADLINE_NS => None,
            deadline_ns => Some(Duration::from_nanos(
                deadline_ns.saturating_sub(clock::now_ns()),
            )),
        }
    }

    /// From here on the current handler has no deadline: for work that must be done even if nobody waits for it any
    /// longer, such as a record of what was done. For a part of a handler see [`without_deadline`].
    pub fn clear_deadline(&mut self) {
        current::set_deadline(NO_DEADLINE_NS);
    }
}

/// Calls `function`; asks and tells in it do not inherit the deadline of the current handler. For libraries that send
/// on behalf of a handler, such as the notice that a connection has closed.
pub fn without_deadline<R>(function: impl FnOnce() -> R) -> R {
    let _scope = DeadlineScope::enter(NO_DEADLINE_NS);
    function()
}
