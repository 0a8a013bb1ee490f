//! The reply port of a told message whose latency is measured, for dams and groups that adapt to it.

use freeboard_flow::ShedReason;

use crate::{
    deferred::Deferred,
    reply::{ReplyPort, has_passed},
};

/// A message in flight, until it is dropped.
pub(crate) trait InFlight: Send + 'static {
    /// On the clock: tells inherit it.
    fn deadline_ns(&self) -> u64;

    /// It was handled: its latency counts. A message that was shed has none.
    fn measure(&self);
}

pub(crate) struct Metered<T>(pub(crate) T);

impl<R: 'static, T: InFlight> ReplyPort<R> for Metered<T> {
    const IS_TELL: bool = true;

    fn deadline_ns(&self) -> u64 {
        self.0.deadline_ns()
    }

    fn unwanted(&self) -> Option<ShedReason> {
        has_passed(self.0.deadline_ns()).then_some(ShedReason::Expired)
    }

    fn reply(self, result: R) {
        self.0.measure();
        drop(result);
    }

    fn into_deferred(self) -> Deferred<R>
    where
        R: Send,
    {
        Deferred::metered(Box::new(self.0))
    }
}
