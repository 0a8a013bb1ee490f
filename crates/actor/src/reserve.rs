//! Capacity of one lane, reserved before there is a message: for `tower::Service`, `Sink` and attached streams, which
//! say that they are ready before they get one.
//!
//! A reservation is a grant of [`crate::waiters`]. It counts against the capacity that waiting senders and other
//! reservations get, and it is returned when it is dropped. The message of a plain `tell` that finds the lane below its
//! bound may take the slot; the holder's message then waits before all messages that began to wait later.

use std::task::{Context, Poll};

use crate::{
    core,
    core_ref::CoreRef,
    waiters::{Wait, WaitKey, Waiter},
};

/// Reserves capacity for one message at a time.
pub(crate) struct Reservation {
    core: CoreRef,
    lane: usize,
    key: Option<WaitKey>,
}

impl Clone for Reservation {
    /// A clone reserves nothing yet.
    fn clone(&self) -> Self {
        Self::new(self.core.clone(), self.lane)
    }
}

impl Reservation {
    pub(crate) const fn new(core: CoreRef, lane: usize) -> Self {
        Self {
            core,
            lane,
            key: None,
        }
    }

    /// Ready with `true` once capacity is reserved; with `false` if the actor takes no further messages or has no such
    /// lane, so that sending fails with the reason.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        let core = self.core.clone();
        if let Some(key) = self.key {
            match core.waiters.poll(key, Some(context.waker())) {
                Wait::Waiting => return Poll::Pending,
                // It has lapsed, or the actor has terminated.
                Wait::Granted(0) => self.give_back(),
                Wait::Granted(_) => return Poll::Ready(true),
            }
        }
        if self.try_reserve() {
            return Poll::Ready(true);
        }
        if self.is_hopeless() {
            return Poll::Ready(false);
        }
        let waiter = Waiter::Future(context.waker().clone());
        match core.waiters.register(&core, self.lane, waiter, 1) {
            // It has just terminated.
            None => Poll::Ready(false),
            key => {
                self.key = key;
                // The signal makes the actor run and grant capacity to its waiters.
                core.signal(core::WAITERS);
                Poll::Pending
            }
        }
    }

    /// Reserves without waiting. `true` if capacity is reserved.
    pub(crate) fn try_reserve(&mut self) -> bool {
        if self.key.is_none() && !self.is_hopeless() {
            self.key = self.core.waiters.try_grant(&self.core, self.lane, false);
        }
        self.key.is_some()
    }

    fn is_hopeless(&self) -> bool {
        self.lane >= self.core.mailbox.lane_count() || self.core.mailbox.is_closed()
    }

    /// The grant, whose new owner gives it back.
    pub(crate) fn take(&mut self) -> Option<WaitKey> {
        self.key.take()
    }

    pub(crate) fn give_back(&mut self) {
        if let Some(key) = self.key.take()
            && self.core.waiters.finish(&self.core, key)
        {
            self.core.signal(core::WAITERS);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.give_back();
    }
}
