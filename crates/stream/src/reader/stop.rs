//! Ends a reader that waits.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::Duration,
};

/// Ends a reader that follows a stream, from another thread: its iteration ends.
#[derive(Clone, Debug, Default)]
pub struct ReaderStop(Arc<(Mutex<bool>, Condvar)>);

impl ReaderStop {
    /// Ends it.
    pub fn stop(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }

    /// Whether it was ended.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for this long, or until it is ended; whether it was.
    pub(super) fn pause(&self, time: Duration) -> bool {
        let is_stopped = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .0
            .1
            .wait_timeout_while(is_stopped, time, |stopped| !*stopped);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
