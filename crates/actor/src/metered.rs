//! What dams and groups share that adapt to the latency of their messages: the limit, and the reply port of a told
//! message whose latency is measured.

use std::sync::Mutex;

use freeboard_flow::{AdaptiveLimit, GradientLimit, ShedReason};
use freeboard_meter::clock;

use crate::{
    deferred::Deferred,
    reply::{ReplyPort, has_passed},
};

/// A limit that threads adapt together.
pub(crate) struct SharedLimit(Mutex<GradientLimit>);

impl SharedLimit {
    /// The limit, and where it begins.
    pub(crate) fn new(limit: AdaptiveLimit) -> (Self, u64) {
        let law = GradientLimit::new(limit);
        let initial = law.get();
        (Self(Mutex::new(law)), initial)
    }

    /// A message that began at `since_ns` was handled. `is_used` tells whether the limit may be why not more messages
    /// were in flight. `publish` gets the next limit. A sample that meets another one is left out: nobody waits.
    ///
    /// Both are called under the lock, so that the limit published last is the last one. They run no user code.
    pub(crate) fn sample<T>(
        &self,
        since_ns: u64,
        is_used: impl FnOnce() -> bool,
        publish: impl FnOnce(u64) -> T,
    ) -> Option<T> {
        let mut law = self.0.try_lock().ok()?;
        let now_ns = clock::now_ns();
        law.sample(now_ns, now_ns.saturating_sub(since_ns), is_used());
        Some(publish(law.get()))
    }
}

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
