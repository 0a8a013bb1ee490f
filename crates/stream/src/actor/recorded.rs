//! A record as a message.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::Record;
use freeboard_flow::Credit;

/// A record of a stream, for an actor. When it is dropped, handled or not, the feed may send another
/// one: keep it for as long as the record is being worked on.
#[derive(Debug)]
pub struct Recorded {
    /// The record.
    pub record: Record,
    pub(super) _credit: Taken,
}

/// The window of a feed.
#[derive(Debug)]
pub(super) struct Window {
    credit: Mutex<Credit>,
    changed: Condvar,
}

impl Window {
    pub(super) fn new(records: u64) -> Arc<Self> {
        Arc::new(Self {
            credit: Mutex::new(Credit::new(records)),
            changed: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Credit> {
        self.credit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for credit, and takes it; `None` once `is_over` says so.
    pub(super) fn take(self: &Arc<Self>, is_over: impl Fn() -> bool) -> Option<Taken> {
        let mut credit = self.lock();
        loop {
            if is_over() {
                return None;
            }
            if credit.try_take(1) {
                return Some(Taken(self.clone()));
            }
            credit = self
                .changed
                .wait(credit)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Has who waits look again.
    pub(super) fn notify(&self) {
        // With the lock, so that it does not come between the look and the wait.
        let _credit = self.lock();
        self.changed.notify_all();
    }

    pub(super) fn outstanding(&self) -> u64 {
        self.lock().outstanding()
    }
}

/// Credit that goes back when it is dropped.
#[derive(Debug)]
pub(super) struct Taken(Arc<Window>);

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.lock().give_back(1);
        self.0.changed.notify_one();
    }
}
