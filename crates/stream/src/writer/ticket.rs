//! A promise that is kept when a record is durable.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
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
}

impl Ticket {
    pub(super) fn new(batch: Arc<Batch>, index: u32) -> Self {
        Self {
            batch,
            index,
            registered: None,
        }
    }

    /// A ticket that is resolved already; `sequence` is what an `Ok` resolves to.
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

    /// Blocks this thread until the record is durable; returns its sequence.
    ///
    /// # Errors
    ///
    /// See [`TicketError`].
    pub fn wait(self) -> Result<u64, TicketError> {
        if let Some(outcome) = self.try_get() {
            return outcome;
        }
        self.batch.help();
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        if let Some(outcome) = self.batch.register(&waker) {
            return self.resolve(outcome);
        }
        loop {
            if let Some(outcome) = self.try_get() {
                return outcome;
            }
            thread::park();
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
