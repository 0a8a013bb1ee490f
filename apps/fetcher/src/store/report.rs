//! How outcomes are told.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;

use super::error::StoreError;

/// Called once with an outcome.
type OnOutcome<T> = Box<dyn FnOnce(Result<T, StoreError>) + Send>;

/// Called once with the value of a key, on any thread. It must not block.
pub type OnFetched = OnOutcome<Option<Bytes>>;

/// Called once with the devices of the users in their order, on any thread. It must not block.
pub type OnDevices = OnOutcome<Vec<Option<String>>>;

/// Tells the outcome exactly once: as unavailable if it is dropped before.
pub(super) struct Report<T> {
    on_outcome: Option<OnOutcome<T>>,
}

impl<T> Report<T> {
    pub(super) fn new(on_outcome: OnOutcome<T>) -> Self {
        Self {
            on_outcome: Some(on_outcome),
        }
    }

    pub(super) fn tell(mut self, outcome: Result<T, StoreError>) {
        self.call(outcome);
    }

    fn call(&mut self, outcome: Result<T, StoreError>) {
        if let Some(on_outcome) = self.on_outcome.take() {
            // A panic is the asker's, and the panic hook has shown it. The thread it is on has others to
            // tell.
            let _ = catch_unwind(AssertUnwindSafe(|| on_outcome(outcome)));
        }
    }
}

impl<T> Drop for Report<T> {
    fn drop(&mut self) {
        if self.on_outcome.is_some() {
            let lost = "it ended before it answered".to_owned();
            self.call(Err(StoreError::Unavailable(lost)));
        }
    }
}
