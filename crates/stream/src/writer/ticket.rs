//! A handle on an accepted record, resolved when it is durable.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use freeboard_platform::{
    clock,
    thread::{self, Thread, ThreadId},
};

use super::{batch::Batch, error::TicketError};

/// Stands for a record that was accepted, until it is durable in the stream's mode: in mode none
/// when it was handed to the operating system, in mode interval after the next sync, in mode batch
/// when it is on the disk.
///
/// Resolves to the record's sequence. Waiting, by thread or by task, makes the writer hurry: it does
/// not wait for a buffer to fill. A ticket may be dropped; the record is written all the same.
#[derive(Debug)]
#[must_use = "a record is durable when its ticket says so"]
pub struct Ticket {
    batch: Arc<Batch>,
    index: u32,
    /// The waker that the batch has already: a task that is polled again is not listed twice.
    registered: Option<Waker>,
    /// The thread that the batch unparks already.
    waiting: Option<ThreadId>,
}

impl Ticket {
    pub(super) fn new(batch: Arc<Batch>, index: u32) -> Self {
        Self {
            batch,
            index,
            registered: None,
            waiting: None,
        }
    }

    /// A ticket that is resolved already; an `Ok` has the sequence.
    pub(super) fn settled(outcome: Result<u64, TicketError>) -> Self {
        Self::new(Arc::new(Batch::settled(outcome)), 0)
    }

    fn resolve(&self, outcome: Result<u64, TicketError>) -> Result<u64, TicketError> {
        outcome.map(|first| first + u64::from(self.index))
    }

    /// The record's sequence if it is durable, the error if it never will be, `None` if neither is
    /// known yet. Does not make the writer hurry.
    #[must_use]
    pub fn try_get(&self) -> Option<Result<u64, TicketError>> {
        self.batch.outcome().map(|outcome| self.resolve(outcome))
    }

    /// Blocks this thread until the record is durable; returns its sequence. While nothing is on its way
    /// to the disk this thread itself writes the waiting records, and wakes those that wait for them.
    pub fn wait(mut self) -> Result<u64, TicketError> {
        loop {
            if let Some(outcome) = self.wait_timeout(Duration::MAX) {
                return outcome;
            }
        }
    }

    /// As [`wait`](Self::wait), for about `timeout` at the most: a write that this thread has begun is
    /// finished. `None` if nothing is known then.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Option<Result<u64, TicketError>> {
        if let Some(outcome) = self.try_get() {
            return Some(outcome);
        }
        let begun = clock::now();
        self.batch.help();
        if let Some(outcome) = self.try_get() {
            return Some(outcome);
        }
        let this = thread::current();
        if self.waiting.replace(this.id()) != Some(this.id()) {
            let waker = Waker::from(Arc::new(Unpark(this)));
            if let Some(outcome) = self.batch.register(&waker) {
                return Some(self.resolve(outcome));
            }
        }
        loop {
            if let Some(outcome) = self.try_get() {
                return Some(outcome);
            }
            let left = timeout.saturating_sub(clock::now() - begun);
            if left.is_zero() {
                return None;
            }
            thread::park_timeout(left);
        }
    }
}

impl Future for Ticket {
    type Output = Result<u64, TicketError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(outcome) = self.try_get() {
            return Poll::Ready(outcome);
        }
        let waker = context.waker();
        if self
            .registered
            .as_ref()
            .is_some_and(|known| known.will_wake(waker))
        {
            return Poll::Pending;
        }
        match self.batch.register(waker) {
            Some(outcome) => Poll::Ready(self.resolve(outcome)),
            None => {
                self.registered = Some(waker.clone());
                Poll::Pending
            }
        }
    }
}

/// Wakes a thread that is parked.
pub(super) struct Unpark(pub(super) Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
