//! The monitor's longer nap while nothing goes on, from which the first worker to wake rouses it.

use std::{
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

use crate::sync::{AtomicBool, Ordering};

pub(crate) struct Doze {
    is_dozing: AtomicBool,
    lock: Mutex<()>,
    roused: Condvar,
}

impl Doze {
    pub(crate) fn new() -> Self {
        Self {
            is_dozing: AtomicBool::new(false),
            lock: Mutex::new(()),
            roused: Condvar::new(),
        }
    }

    /// Sleeps until roused, for `nap` at the longest.
    pub(crate) fn doze(&self, nap: Duration) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        // Ordering: Relaxed, the lock orders it against the rouser's store. A worker that looks too
        // early leaves the nap at its full length, and no more.
        self.is_dozing.store(true, Ordering::Relaxed);
        let is_dozing = |_: &mut ()| self.is_dozing.load(Ordering::Relaxed);
        drop(self.roused.wait_timeout_while(guard, nap, is_dozing));
        // Ordering: Relaxed, as above.
        self.is_dozing.store(false, Ordering::Relaxed);
    }

    /// Wakes the monitor if it dozes.
    #[inline]
    pub(crate) fn rouse(&self) {
        // Ordering: Relaxed, as in `doze`.
        if self.is_dozing.load(Ordering::Relaxed) {
            self.rouse_dozing();
        }
    }

    #[cold]
    fn rouse_dozing(&self) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        // Ordering: Relaxed, as in `doze`.
        self.is_dozing.store(false, Ordering::Relaxed);
        drop(guard);
        self.roused.notify_one();
    }
}
