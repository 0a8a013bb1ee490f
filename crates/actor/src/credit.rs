//! Credit that returns by itself: each message carries a receipt, whose drop gives one credit back once the
//! message was handled or shed.
//!
//! [`Credit`] has the protocol and its proof. An adaptive line changes its window by the latencies from forwarding to the
//! receipt's return.

use std::sync::{Arc, OnceLock};

use freeboard_flow::{AdaptiveLimit, ShedReason};
use freeboard_meter::clock;
use freeboard_platform::planted;
use freeboard_queue::Credit;

use crate::{
    actor::Actor,
    current,
    deferred::Deferred,
    metered::{InFlight, SharedLimit},
    reply::{NO_DEADLINE_NS, ReplyPort, has_passed},
};

pub(crate) struct CreditLine {
    credit: Credit,
    law: Option<SharedLimit>,
    refill: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl CreditLine {
    pub(crate) fn new(window: u64) -> Self {
        Self {
            credit: Credit::new(window),
            law: None,
            refill: OnceLock::new(),
        }
    }

    pub(crate) fn adaptive(limit: AdaptiveLimit) -> Self {
        let (law, initial) = SharedLimit::new(limit);
        Self {
            law: Some(law),
            ..Self::new(initial)
        }
    }

    /// The most messages that may be outstanding.
    pub(crate) fn window(&self) -> u64 {
        self.credit.window()
    }

    /// Takes all available credit; of an adaptive line one at a time, so that a smaller window takes effect at once. One
    /// thread at a time calls it.
    pub(crate) fn take(&self) -> u64 {
        let max = if self.is_adaptive() { 1 } else { u64::MAX };
        self.credit.take(max)
    }

    fn wake_if(&self, is_refilled: bool) {
        if is_refilled && let Some(refill) = self.refill.get() {
            refill();
        }
    }

    /// Calls `refill` (created once) when half a window is available. `false` if it is available already.
    pub(crate) fn wait_for_refill<F: Fn() + Send + Sync + 'static>(
        &self,
        refill: impl FnOnce() -> F,
    ) -> bool {
        self.refill.get_or_init(|| Box::new(refill()));
        self.credit.wait()
    }

    pub(crate) fn is_adaptive(&self) -> bool {
        self.law.is_some()
    }

    /// A message that was forwarded at `since_ns` was handled.
    fn sample(&self, since_ns: u64) {
        let Some(law) = &self.law else { return };
        let is_used = || self.credit.is_used();
        let publish = |window| self.credit.set_window(window);
        // The waiter is not woken under the lock.
        self.wake_if(law.sample(since_ns, is_used, publish) == Some(true));
    }
}

/// Credit of one sender for messages to one lane: at most so many of them are queued at the receiver. Each message that
/// [`crate::ActorRef::tell_credited`] sends carries one credit, which returns when the message was handled or shed.
///
/// For actors that stand in front of others, such as the receiving end of a network. [`crate::Dam::credit`] is a whole such
/// actor. Cheap to clone; one thread at a time takes.
#[derive(Clone)]
pub struct CreditWindow(Arc<CreditLine>);

impl CreditWindow {
    /// A window of so many messages, all of them available.
    #[must_use]
    pub fn new(messages: u64) -> Self {
        Self(Arc::new(CreditLine::new(messages)))
    }

    /// The most messages that may be queued.
    #[must_use]
    pub fn window(&self) -> u64 {
        self.0.window()
    }

    /// Takes all credit that is available now.
    #[must_use]
    pub fn take(&self) -> u64 {
        self.0.take()
    }

    /// Gives back one credit that was taken and not sent.
    pub fn give_back(&self) {
        drop(Receipt::of(&self.0));
    }

    /// Calls `wake`, once, when half of the window is available. `false` if it is available already. The first call's
    /// `wake` serves all calls.
    #[must_use]
    pub fn wait<F: Fn() + Send + Sync + 'static>(&self, wake: impl FnOnce() -> F) -> bool {
        self.0.wait_for_refill(wake)
    }

    pub(crate) fn receipt(&self, deadline_ns: u64) -> Receipt {
        Receipt {
            line: self.0.clone(),
            deadline_ns,
        }
    }
}

impl std::fmt::Debug for CreditWindow {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "CreditWindow({})", self.window())
    }
}

/// Gives one credit back when it is dropped. The reply port of a dam's messages, which inherit deadlines as all tells.
pub(crate) struct Receipt {
    line: Arc<CreditLine>,
    /// On the clock.
    deadline_ns: u64,
}

impl Receipt {
    pub(crate) fn of(line: &Arc<CreditLine>) -> Self {
        Self {
            line: line.clone(),
            deadline_ns: NO_DEADLINE_NS,
        }
    }

    /// For a message to an `A`.
    pub(crate) fn with_deadline_of<A: Actor>(mut self) -> Self {
        self.deadline_ns = current::inherited_deadline_ns::<A>();
        self
    }

    pub(crate) fn is_timed(&self) -> bool {
        self.line.is_adaptive()
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        self.line.wake_if(self.line.credit.give_back());
        if planted!("credit-given-twice") {
            let _ = self.line.credit.give_back();
        }
    }
}

impl<R: 'static> ReplyPort<R> for Receipt {
    const IS_TELL: bool = true;

    fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }

    fn unwanted(&self) -> Option<ShedReason> {
        has_passed(self.deadline_ns).then_some(ShedReason::Expired)
    }

    fn reply(self, result: R) {
        drop(result);
    }

    fn into_deferred(self) -> Deferred<R>
    where
        R: Send,
    {
        Deferred::dam(self)
    }
}

/// A [`Receipt`] that measures the latency of a handled message. A message that was shed has none.
pub(crate) struct TimedReceipt {
    receipt: Receipt,
    since_ns: u64,
}

impl TimedReceipt {
    pub(crate) fn now(receipt: Receipt) -> Self {
        let since_ns = clock::now_ns();
        Self { receipt, since_ns }
    }
}

impl InFlight for TimedReceipt {
    fn deadline_ns(&self) -> u64 {
        self.receipt.deadline_ns
    }

    fn measure(&self) {
        self.receipt.line.sample(self.since_ns);
    }
}
