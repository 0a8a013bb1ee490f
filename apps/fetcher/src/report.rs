//! How an outcome is told exactly once.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Called once with an outcome, on any thread. It must not block.
pub(crate) type OnOutcome<T, E> = Box<dyn FnOnce(Result<T, E>) + Send>;

/// What an outcome is that never came.
pub(crate) trait Lost {
    fn lost() -> Self;
}

/// Tells the outcome exactly once: as lost if it is dropped before.
pub(crate) struct Report<T, E: Lost> {
    on_outcome: Option<OnOutcome<T, E>>,
}

impl<T, E: Lost> Report<T, E> {
    pub(crate) fn new(on_outcome: OnOutcome<T, E>) -> Self {
        Self {
            on_outcome: Some(on_outcome),
        }
    }

    pub(crate) fn tell(mut self, outcome: Result<T, E>) {
        self.call(outcome);
    }

    fn call(&mut self, outcome: Result<T, E>) {
        if let Some(on_outcome) = self.on_outcome.take() {
            // A panic is the asker's, and the panic hook has shown it. The thread it is on has others to
            // tell.
            let _ = catch_unwind(AssertUnwindSafe(|| on_outcome(outcome)));
        }
    }
}

impl<T, E: Lost> Drop for Report<T, E> {
    fn drop(&mut self) {
        if self.on_outcome.is_some() {
            self.call(Err(E::lost()));
        }
    }
}
