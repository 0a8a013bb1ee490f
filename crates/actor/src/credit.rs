//! Credit that returns by itself: each message carries a receipt, whose drop gives one credit back once the
//! message was handled or shed.
//!
//! A sender without credit waits for half a window, so that each wake-up pays off. The giver adds credit, then
//! reads `is_waiting`; the waiter sets `is_waiting`, then reads the credit. Both are SeqCst, so at least one sees
//! the other; the exchange of `is_waiting` lets only one act.
//!
//! An adaptive line changes its window by the latencies from forwarding to the receipt's return. A smaller window may
//! leave a debt: credit below 0. The window is stored before the credit changes, and the changer reads `is_waiting`
//! after it, as a giver. So the last of all changes to the credit sees the last window, and wakes the waiter by it.

use std::sync::{Arc, OnceLock};

use freeboard_flow::{AdaptiveLimit, ShedReason};
use freeboard_meter::clock;

use crate::{
    actor::Actor,
    current,
    deferred::Deferred,
    metered::{InFlight, SharedLimit},
    reply::{NO_DEADLINE_NS, ReplyPort, has_passed},
    sync::{AtomicBool, AtomicI64, AtomicU64, Ordering},
};

pub(crate) struct CreditLine {
    available: AtomicI64,
    is_waiting: AtomicBool,
    window: AtomicU64,
    law: Option<SharedLimit>,
    refill: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl CreditLine {
    pub(crate) fn new(window: u64) -> Self {
        Self {
            available: AtomicI64::new(i64::try_from(window).unwrap_or(i64::MAX)),
            is_waiting: AtomicBool::new(false),
            window: AtomicU64::new(window),
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
        // Ordering: SeqCst, see the module's text.
        self.window.load(Ordering::SeqCst)
    }

    /// Takes all available credit; of an adaptive line one at a time, so that a smaller window takes effect at once. One
    /// thread at a time calls it.
    pub(crate) fn take(&self) -> u64 {
        // Ordering: SeqCst, one order with `give_back`.
        let available = self.available.load(Ordering::SeqCst).max(0);
        let taken = if self.is_adaptive() {
            available.min(1)
        } else {
            available
        };
        if taken > 0 {
            self.available.fetch_sub(taken, Ordering::SeqCst);
        }
        taken as u64
    }

    /// Adds credit, or takes it away, and wakes the waiter if there is enough.
    fn change(&self, credit: i64) {
        // Ordering: SeqCst, see the module's text.
        let available = self.available.fetch_add(credit, Ordering::SeqCst) + credit;
        if self.is_refilled(available)
            && self.is_waiting.load(Ordering::SeqCst)
            && self.is_waiting.swap(false, Ordering::SeqCst)
            && let Some(refill) = self.refill.get()
        {
            refill();
        }
    }

    fn is_refilled(&self, available: i64) -> bool {
        available >= (self.window() / 2).max(1) as i64
    }

    /// Calls `refill` (created once) when half a window is available. `false` if it is available already.
    pub(crate) fn wait_for_refill<F: Fn() + Send + Sync + 'static>(
        &self,
        refill: impl FnOnce() -> F,
    ) -> bool {
        self.refill.get_or_init(|| Box::new(refill()));
        // Ordering: SeqCst, see the module's text.
        self.is_waiting.store(true, Ordering::SeqCst);
        let is_there = self.is_refilled(self.available.load(Ordering::SeqCst));
        !(is_there && self.is_waiting.swap(false, Ordering::SeqCst))
    }

    pub(crate) fn is_adaptive(&self) -> bool {
        self.law.is_some()
    }

    /// A message that was forwarded at `since_ns` was handled.
    fn sample(&self, since_ns: u64) {
        let Some(law) = &self.law else { return };
        let is_used = || {
            // Ordering: Relaxed: an estimate.
            self.is_waiting.load(Ordering::Relaxed)
                || self.available.load(Ordering::Relaxed) <= (self.window() / 2) as i64
        };
        // Ordering: SeqCst, see the module's text.
        let publish = |next| (next, self.window.swap(next, Ordering::SeqCst));
        // The waiter is not woken under the lock.
        if let Some((next, previous)) = law.sample(since_ns, is_used, publish)
            && next != previous
        {
            // Both are at most `LIMIT_MAX`.
            self.change(next as i64 - previous as i64);
        }
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
        self.line.change(1);
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
