//! A callback that gets its outcome exactly once.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// A callback for an outcome, called once, on any thread. It must not block.
pub(crate) type OnOutcome<T, E> = Box<dyn FnOnce(Result<T, E>) + Send>;

/// An error that stands for an outcome that never arrived.
pub(crate) trait Lost {
    fn lost() -> Self;
}

/// Calls the callback exactly once; if dropped unused, with [`Lost::lost`].
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
            // The panic is the caller's, and the panic hook reported it. The thread has other outcomes to report.
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
