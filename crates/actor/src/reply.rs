//! Reply ports and deadlines: a tell drops the handler's result, an ask stores it in a one-shot slot.
//!
//! A reply never goes through the asker's mailbox, so the cost of waiting for it does not depend on the number of
//! queued messages.

use std::time::Duration;

use freeboard_flow::ShedReason;
use freeboard_meter::clock;
use freeboard_queue::oneshot;

use crate::{catch_panic, deferred::Deferred, supervision::saturating_ns};

/// No deadline, on the [`clock`].
pub(crate) const NO_DEADLINE_NS: u64 = u64::MAX;

/// The time on the [`clock`] at which `timeout` is over.
pub(crate) fn deadline_after(timeout: Option<Duration>) -> u64 {
    timeout.map_or(NO_DEADLINE_NS, |timeout| {
        clock::now_ns().saturating_add(saturating_ns(timeout))
    })
}

/// Whether a deadline on the [`clock`] has passed. Without a deadline it does not read the clock.
#[inline]
pub(crate) fn has_passed(deadline_ns: u64) -> bool {
    deadline_ns != NO_DEADLINE_NS && clock::now_ns() >= deadline_ns
}

/// Receives a handler's result.
pub trait ReplyPort<R: 'static>: Send + 'static {
    /// Whether the message is a tell: no result is expected.
    #[doc(hidden)]
    const IS_TELL: bool;

    /// Whether it is a tell that gets a deadline where the handler that sends it has one.
    #[doc(hidden)]
    const INHERITS_DEADLINE: bool = false;

    /// The deadline on the clock, which the handler's own asks and tells inherit.
    #[doc(hidden)]
    #[inline(always)]
    fn deadline_ns(&self) -> u64 {
        NO_DEADLINE_NS
    }

    /// The reason why the result is no longer wanted, if it is not.
    #[doc(hidden)]
    fn unwanted(&self) -> Option<ShedReason>;

    #[doc(hidden)]
    fn reply(self, result: R);

    /// The same port, for a handler that replies later.
    #[doc(hidden)]
    fn into_deferred(self) -> Deferred<R>
    where
        R: Send;
}

/// The reply port of a tell: drops the result.
#[derive(Debug)]
pub struct NoReply;

impl<R: 'static> ReplyPort<R> for NoReply {
    const IS_TELL: bool = true;
    const INHERITS_DEADLINE: bool = true;

    #[inline(always)]
    fn unwanted(&self) -> Option<ShedReason> {
        None
    }

    #[inline(always)]
    fn reply(self, result: R) {
        drop(result);
    }

    fn into_deferred(self) -> Deferred<R>
    where
        R: Send,
    {
        Deferred::tell(NoReplyUntil {
            deadline_ns: NO_DEADLINE_NS,
        })
    }
}

/// The reply port of a tell with a deadline: drops the result.
#[derive(Debug)]
pub struct NoReplyUntil {
    /// On the [`clock`].
    pub(crate) deadline_ns: u64,
}

impl<R: 'static> ReplyPort<R> for NoReplyUntil {
    const IS_TELL: bool = true;

    #[inline]
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
        Deferred::tell(self)
    }
}

/// The reply port of an ask: a one-shot slot and the deadline.
pub struct ReplySlot<R> {
    pub(crate) sender: oneshot::Sender<R>,
    /// On the [`clock`], or [`NO_DEADLINE_NS`].
    pub(crate) deadline_ns: u64,
}

impl<R> std::fmt::Debug for ReplySlot<R> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ReplySlot")
    }
}

impl<R: Send + 'static> ReplyPort<R> for ReplySlot<R> {
    const IS_TELL: bool = false;

    #[inline]
    fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }

    fn unwanted(&self) -> Option<ShedReason> {
        // The deadline first: a caller that got `Expired` has dropped its end by now.
        if has_passed(self.deadline_ns) {
            Some(ShedReason::Expired)
        } else if self.sender.is_closed() {
            Some(ShedReason::AskerGone)
        } else {
            None
        }
    }

    fn reply(self, result: R) {
        // A panicking waker is the asker's fault. If the asker is gone, the result is dropped outside of the catch: a
        // panic of its drop is the handler's fault.
        drop(catch_panic::call(|| self.sender.send(result)));
    }

    fn into_deferred(self) -> Deferred<R> {
        // Whoever holds the port may reply: the asker no longer waits for this actor.
        self.sender.defer();
        Deferred::ask(self)
    }
}
