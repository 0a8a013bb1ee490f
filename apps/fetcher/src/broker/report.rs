//! How the outcome of a publish is told.

use super::error::Unconfirmed;

/// Called once with the outcome of a publish, on any thread. It must not block.
pub type OnOutcome = Box<dyn FnOnce(Result<(), Unconfirmed>) + Send>;

/// Tells the outcome exactly once: as unknown if it is dropped before.
pub(super) struct Report {
    on_outcome: Option<OnOutcome>,
}

impl Report {
    pub(super) fn new(on_outcome: OnOutcome) -> Self {
        Self {
            on_outcome: Some(on_outcome),
        }
    }

    pub(super) fn tell(mut self, outcome: Result<(), Unconfirmed>) {
        self.call(outcome);
    }

    fn call(&mut self, outcome: Result<(), Unconfirmed>) {
        if let Some(on_outcome) = self.on_outcome.take() {
            on_outcome(outcome);
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        self.call(Err(Unconfirmed::Unknown));
    }
}
