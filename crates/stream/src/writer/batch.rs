//! The shared outcome of the records of one page.
//!
//! A page becomes durable as a whole, so the tickets of its records share one outcome: an `Arc` and an index each.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock, PoisonError, Weak},
    task::Waker,
};

use freeboard_platform::sync::Mutex;

use super::error::TicketError;

/// The sequence of a batch's first record, once durable in the stream's mode; or why it is not.
pub(super) type Outcome = Result<u64, TicketError>;

/// The writer, as a caller that waits for a record sees it.
pub(super) trait Hurry: Send + Sync {
    /// This thread is about to block for a record: it may write itself.
    fn help(&self);

    /// A task waits for a record.
    fn demand(&self);
}

/// The records that were appended to one page.
pub(super) struct Batch {
    outcome: OnceLock<Outcome>,
    waiting: Mutex<Vec<Waker>>,
    /// Weak: a kept ticket keeps no stream open. `None` if the outcome was known at once.
    writer: Option<Weak<dyn Hurry>>,
}

impl Batch {
    pub(super) fn new(writer: Weak<dyn Hurry>) -> Self {
        Self {
            outcome: OnceLock::new(),
            waiting: Mutex::default(),
            writer: Some(writer),
        }
    }

    /// A batch whose outcome is known.
    pub(super) fn settled(outcome: Outcome) -> Self {
        Self {
            outcome: OnceLock::from(outcome),
            waiting: Mutex::default(),
            writer: None,
        }
    }

    pub(super) fn outcome(&self) -> Option<Outcome> {
        self.outcome.get().copied()
    }

    /// Sets the outcome, if it is not set, and wakes those who wait for it.
    pub(super) fn settle(&self, outcome: Outcome) {
        if self.outcome.set(outcome).is_err() {
            return;
        }
        // The outcome is set before the lock is taken, so a later registration sees it.
        let waiting = self.waiting.lock();
        let wakers = std::mem::take(&mut *waiting.unwrap_or_else(PoisonError::into_inner));
        wake_all(wakers);
    }

    /// Helps to bring the outcome about, before this thread blocks for it.
    pub(super) fn help(&self) {
        if let Some(writer) = self.writer() {
            writer.help();
        }
    }

    /// Registers `waker` to be woken when the outcome is set, and hurries the writer. Returns the outcome if it is set
    /// already; then nothing is registered.
    pub(super) fn register(&self, waker: &Waker) -> Option<Outcome> {
        {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(outcome) = self.outcome() {
                return Some(outcome);
            }
            waiting.push(waker.clone());
        }
        if let Some(writer) = self.writer() {
            writer.demand();
        }
        None
    }

    fn writer(&self) -> Option<Arc<dyn Hurry>> {
        self.writer.as_ref()?.upgrade()
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}

/// A whole batch in a chunk.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) batch: Arc<Batch>,
    /// How many records it has.
    pub(super) count: u32,
    /// When its first record was appended, on the process's clock.
    pub(super) begun_ns: u64,
}

impl Drop for Part {
    /// Nobody waits for ever for a lost batch, as after a panic. A settled outcome stays.
    fn drop(&mut self) {
        self.batch.settle(Err(TicketError::Unknown));
    }
}

/// Wakes all of them. No lock and no write slot is held: a waker is the user's code, and may drop the stream's last
/// handle.
pub(super) fn wake_all(wakers: Vec<Waker>) {
    for waker in wakers {
        // A panic of a waker must not stop a thread that others depend on, nor keep the other wakers from running.
        let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }
}
