//! The shared fate of the records of one buffer.
//!
//! A buffer becomes durable as a whole, so its records' tickets share one outcome: an `Arc` and an
//! index each.

use std::{
    sync::{Mutex, OnceLock, PoisonError, Weak},
    task::Waker,
};

use super::{error::TicketError, shared::Shared, wake::wake_all};

/// What becomes of the records that were appended to one buffer.
pub(crate) struct Batch {
    /// The sequence of its first record, once durable in the stream's mode; or why it is not.
    outcome: OnceLock<Result<u64, TicketError>>,
    waiting: Mutex<Vec<Waker>>,
    /// The writer, to be told that somebody waits. Weak: a kept ticket keeps no stream open.
    writer: Weak<Shared>,
}

impl Batch {
    pub(super) fn new(writer: Weak<Shared>) -> Self {
        Self {
            outcome: OnceLock::new(),
            waiting: Mutex::new(Vec::new()),
            writer,
        }
    }

    /// A batch whose outcome is known already.
    pub(super) fn settled(outcome: Result<u64, TicketError>) -> Self {
        Self {
            outcome: OnceLock::from(outcome),
            waiting: Mutex::new(Vec::new()),
            writer: Weak::new(),
        }
    }

    pub(super) fn outcome(&self) -> Option<Result<u64, TicketError>> {
        self.outcome.get().copied()
    }

    /// Sets the outcome, if it is not set, and wakes who waits for it.
    pub(crate) fn settle(&self, outcome: Result<u64, TicketError>) {
        if self.outcome.set(outcome).is_err() {
            return;
        }
        // The outcome is set before the lock is taken: who registers later sees it.
        let waiting =
            std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        wake_all(waiting);
    }

    /// Helps to bring the outcome about, before this thread blocks for it.
    pub(super) fn help(&self) {
        if let Some(writer) = self.writer.upgrade() {
            writer.help();
        }
    }

    /// Has `waker` woken when the outcome is set, and the writer hurry. Returns the outcome if it is
    /// set already; then nobody is woken.
    pub(super) fn register(&self, waker: &Waker) -> Option<Result<u64, TicketError>> {
        {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(outcome) = self.outcome() {
                return Some(outcome);
            }
            waiting.push(waker.clone());
        }
        if let Some(writer) = self.writer.upgrade() {
            writer.demand();
        }
        None
    }
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch")
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}
