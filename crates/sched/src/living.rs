//! The threads that have not ended yet, for a shutdown that does not wait for ever.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// Numbers of living threads.
#[derive(Default)]
pub(crate) struct Living {
    numbers: Mutex<Vec<usize>>,
    changed: Condvar,
}

impl Living {
    fn lock(&self) -> MutexGuard<'_, Vec<usize>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(&self, number: usize) {
        self.lock().push(number);
    }

    pub(crate) fn leave(&self, number: usize) {
        let mut numbers = self.lock();
        // One of them: a new thread may have the number already.
        if let Some(place) = numbers.iter().position(|&living| living == number) {
            numbers.swap_remove(place);
        }
        drop(numbers);
        self.changed.notify_all();
    }

    /// Waits until all have left; who has not by `deadline`.
    pub(crate) fn wait_until(&self, deadline: Instant) -> Vec<usize> {
        let mut numbers = self.lock();
        while !numbers.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            numbers = self
                .changed
                .wait_timeout(numbers, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        numbers.clone()
    }
}
