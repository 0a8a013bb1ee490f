//! Where a handler's result goes: nowhere for a tell, into a one-shot slot for an ask.
//!
//! A reply never travels through the asker's mailbox. It has a slot of its own, so that waiting for
//! it costs the same behind none and behind ten million queued messages.

use freeboard_flow::ShedReason;
use freeboard_meter::clock;
use freeboard_queue::oneshot;

use crate::{block::NO_DEADLINE_NS, catch_panic};

/// Takes a handler's result.
pub trait ReplyPort<R>: Send + 'static {
    /// Whether nobody waits for the result from the start.
    #[doc(hidden)]
    const IS_TELL: bool;

    /// Whether anybody still waits for the result; why not, if nobody does.
    #[doc(hidden)]
    fn unwanted(&self) -> Option<ShedReason>;

    #[doc(hidden)]
    fn reply(self, result: R);
}

/// A tell's: the result is dropped.
#[derive(Debug)]
pub struct NoReply;

impl<R> ReplyPort<R> for NoReply {
    const IS_TELL: bool = true;

    #[inline(always)]
    fn unwanted(&self) -> Option<ShedReason> {
        None
    }

    #[inline(always)]
    fn reply(self, result: R) {
        drop(result);
    }
}

/// An ask's: a one-shot slot, and the time after which the asker does not wait any more.
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

    fn unwanted(&self) -> Option<ShedReason> {
        if self.sender.is_closed() {
            Some(ShedReason::AskerGone)
        } else if self.deadline_ns != NO_DEADLINE_NS && clock::now_ns() >= self.deadline_ns {
            Some(ShedReason::Expired)
        } else {
            None
        }
    }

    fn reply(self, result: R) {
        // A waker that panics is the asker's fault. The result of one that has gone is dropped outside: its drop is
        // the handler's.
        drop(catch_panic::call(|| self.sender.send(result)));
    }
}
