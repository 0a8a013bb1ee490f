//! Credit that returns by itself: each message carries a receipt, whose drop gives one credit back once the
//! message was handled or shed.
//!
//! A sender without credit waits for half a window, so that each wake-up pays off. The giver adds credit, then
//! reads `is_waiting`; the waiter sets `is_waiting`, then reads the credit. Both are SeqCst, so at least one sees
//! the other; the exchange of `is_waiting` lets only one act.

use std::sync::{Arc, OnceLock};

use freeboard_flow::ShedReason;

use crate::{
    current,
    deferred::Deferred,
    reply::{ReplyPort, has_passed},
    sync::{AtomicBool, AtomicU64, Ordering},
};

pub(crate) struct CreditLine {
    available: AtomicU64,
    is_waiting: AtomicBool,
    refill_at: u64,
    refill: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl CreditLine {
    pub(crate) fn new(window: u64) -> Self {
        Self {
            available: AtomicU64::new(window),
            is_waiting: AtomicBool::new(false),
            refill_at: (window / 2).max(1),
            refill: OnceLock::new(),
        }
    }

    /// Takes all available credit.
    pub(crate) fn take_all(&self) -> u64 {
        // Ordering: SeqCst, one order with `give_back`.
        self.available.swap(0, Ordering::SeqCst)
    }

    fn give_back(&self) {
        // Ordering: SeqCst, see the module's text.
        let available = self.available.fetch_add(1, Ordering::SeqCst) + 1;
        if available >= self.refill_at
            && self.is_waiting.load(Ordering::SeqCst)
            && self.is_waiting.swap(false, Ordering::SeqCst)
            && let Some(refill) = self.refill.get()
        {
            refill();
        }
    }

    /// Calls `refill` (created once) when half a window is available. `false` if it is available already.
    pub(crate) fn wait_for_refill<F: Fn() + Send + Sync + 'static>(
        &self,
        refill: impl FnOnce() -> F,
    ) -> bool {
        self.refill.get_or_init(|| Box::new(refill()));
        // Ordering: SeqCst, see the module's text.
        self.is_waiting.store(true, Ordering::SeqCst);
        let is_there = self.available.load(Ordering::SeqCst) >= self.refill_at;
        !(is_there && self.is_waiting.swap(false, Ordering::SeqCst))
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
            deadline_ns: current::deadline_ns(),
        }
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        self.line.give_back();
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
