//! Reply ports and deadlines: a tell drops the handler's result, an ask stores it in a one-shot slot.
//!
//! A reply never goes through the asker's mailbox, so the cost of waiting for it does not depend on the number of
//! queued messages.

use std::time::Duration;

use freeboard_flow::ShedReason;
use freeboard_meter::clock;
use freeboard_platform::planted;
use freeboard_queue::oneshot;

use crate::{catch_panic, deferred::Deferred, error::AskError};

/// No deadline, on the [`clock`].
pub(crate) const NO_DEADLINE_NS: u64 = u64::MAX;

/// The time on the [`clock`] at which `timeout` is over; a long one may be up to 1 % longer ([`clock::after`]).
#[inline]
pub(crate) fn deadline_after(timeout: Option<Duration>) -> u64 {
    timeout.map_or(NO_DEADLINE_NS, clock::after)
}

/// Whether a deadline on the [`clock`] has passed. Without a deadline it does not read the clock.
#[inline]
pub(crate) fn has_passed(deadline_ns: u64) -> bool {
    !planted!("deadline-ignored") && deadline_ns != NO_DEADLINE_NS && clock::has_passed(deadline_ns)
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

    /// The message will not be handled: an asker learns that it was shed. A port that is dropped says instead that the
    /// handler gives no reply.
    #[doc(hidden)]
    #[inline]
    fn shed(self)
    where
        Self: Sized,
    {
    }

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

/// Why an accepted ask gets no reply. The slot transports it as a reason, because the asker may learn it much later.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(crate) enum NoAnswer {
    /// The handler has begun, or its [`Deferred`] was dropped.
    NoReply,
    /// It was not handled.
    Shed,
    Expired,
}

impl NoAnswer {
    pub(crate) fn of_reason(reason: u8) -> Self {
        match reason {
            1 => Self::Shed,
            2 => Self::Expired,
            _ => Self::NoReply,
        }
    }

    pub(crate) fn into_error<M>(self) -> AskError<M> {
        match self {
            Self::NoReply => AskError::NoReply,
            Self::Shed => AskError::Shed,
            Self::Expired => AskError::Expired,
        }
    }
}

/// The reply port of an ask: a one-shot slot and the deadline.
pub struct ReplySlot<R> {
    /// `None` once it is used up.
    sender: Option<oneshot::Sender<R>>,
    /// On the [`clock`], or [`NO_DEADLINE_NS`].
    deadline_ns: u64,
}

impl<R> ReplySlot<R> {
    #[inline]
    pub(crate) fn new(sender: oneshot::Sender<R>, deadline_ns: u64) -> Self {
        let sender = Some(sender);
        Self {
            sender,
            deadline_ns,
        }
    }

    /// Ends it without a reply: for this reason, unless the deadline has passed before.
    #[cold]
    fn close(&mut self, why: NoAnswer) {
        if let Some(sender) = self.sender.take() {
            let is_late = has_passed(self.deadline_ns);
            sender.close(if is_late { NoAnswer::Expired } else { why } as u8);
        }
    }
}

impl<R> Drop for ReplySlot<R> {
    #[inline]
    fn drop(&mut self) {
        if self.sender.is_some() {
            self.close(NoAnswer::NoReply);
        }
    }
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
        } else if self.sender.as_ref().is_none_or(oneshot::Sender::is_closed) {
            Some(ShedReason::AskerGone)
        } else {
            None
        }
    }

    fn reply(mut self, result: R) {
        // A panicking waker is the asker's fault. If the asker is gone, the result is dropped outside of the catch: a
        // panic of its drop is the handler's fault.
        if let Some(sender) = self.sender.take() {
            drop(catch_panic::call(|| sender.send(result)));
        }
    }

    fn shed(mut self) {
        self.close(NoAnswer::Shed);
    }

    fn into_deferred(self) -> Deferred<R> {
        // Whoever holds the port may reply: the asker no longer waits for this actor.
        if let Some(sender) = &self.sender {
            sender.defer();
        }
        Deferred::ask(self)
    }
}
