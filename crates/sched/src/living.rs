//! The threads that have not ended yet, for a shutdown that does not wait for ever.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// Numbers of living threads; how many have each, for a new thread may have the number of one that is
/// just ending.
#[derive(Default)]
pub(crate) struct Living {
    numbers: Mutex<BTreeMap<usize, u32>>,
    all_left: Condvar,
}

impl Living {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, u32>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(&self, number: usize) {
        *self.lock().entry(number).or_default() += 1;
    }

    pub(crate) fn leave(&self, number: usize) {
        let mut numbers = self.lock();
        if let Entry::Occupied(mut threads) = numbers.entry(number) {
            *threads.get_mut() -= 1;
            if *threads.get() == 0 {
                threads.remove();
            }
        }
        let is_last = numbers.is_empty();
        drop(numbers);
        if is_last {
            self.all_left.notify_all();
        }
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
                .all_left
                .wait_timeout(numbers, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        numbers.keys().copied().collect()
    }
}
