//! Parkers: a thread waits for a token, others give it.
//!
//! [`Parker`] is a mutex and a condition variable (a futex underneath). Unlike `std::thread::park`, the token can be
//! given before the thread exists, and libraries that a handler uses cannot consume it. The thread may also wait outside,
//! for the token and another event; then the giver also ends that wait.
//!
//! [`MonitorParker`] is the monitor's longer sleep while nothing runs; the first worker that wakes ends it.

use std::{
    sync::{Condvar as StdCondvar, Mutex as StdMutex, PoisonError},
    time::Duration,
};

use crate::sync::{AtomicBool, Condvar, Mutex, MutexGuard, Ordering};

#[derive(Default)]
pub(crate) struct Parker {
    state: Mutex<State>,
    given: Condvar,
}

#[derive(Default)]
struct State {
    has_token: bool,
    /// The thread waits for `given`. If it does not, a notification would only cost a system call.
    is_waiting: bool,
    /// The thread waits outside, and is woken there.
    is_outside: bool,
}

impl Parker {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Waits for the token and takes it.
    pub(crate) fn park(&self) {
        let mut state = self.lock();
        state.is_waiting = true;
        while !state.has_token {
            state = self
                .given
                .wait(state)
                .expect("nothing panics under this lock");
        }
        *state = State::default();
    }

    /// Whether the token is present, for a thread that waits outside.
    pub(crate) fn has_token(&self) -> bool {
        self.lock().has_token
    }

    /// Calls `wait`, unless the token is present. Afterwards takes the token if it is present, and returns whether it
    /// was.
    ///
    /// A thread that gives the token meanwhile ends the wait. That must also work before the wait has begun.
    pub(crate) fn park_outside(&self, wait: impl FnOnce()) -> bool {
        {
            let mut state = self.lock();
            if std::mem::take(&mut state.has_token) {
                return true;
            }
            state.is_outside = true;
        }
        wait();
        let mut state = self.lock();
        state.is_outside = false;
        std::mem::take(&mut state.has_token)
    }

    /// Gives the token to a thread that never waits outside.
    pub(crate) fn unpark(&self) {
        self.unpark_outside(|| ());
    }

    /// Gives the token; `end_wait` ends a wait outside.
    pub(crate) fn unpark_outside(&self, end_wait: impl FnOnce()) {
        let (is_outside, is_waiting) = {
            let mut state = self.lock();
            state.has_token = true;
            (state.is_outside, state.is_waiting)
        };
        if is_outside {
            end_wait();
        } else if is_waiting {
            self.given.notify_one();
        }
    }
}

#[derive(Default)]
pub(crate) struct MonitorParker {
    is_sleeping: AtomicBool,
    lock: StdMutex<()>,
    woken: StdCondvar,
}

impl MonitorParker {
    /// Sleeps until woken, at most for `time`.
    pub(crate) fn sleep(&self, time: Duration) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        // Ordering: Relaxed, the lock orders it against the waker's store. A worker that reads it too early leaves the
        // sleep at its full length, nothing else.
        self.is_sleeping.store(true, Ordering::Relaxed);
        let is_sleeping = |_: &mut ()| self.is_sleeping.load(Ordering::Relaxed);
        drop(self.woken.wait_timeout_while(guard, time, is_sleeping));
        // Ordering: Relaxed, as above.
        self.is_sleeping.store(false, Ordering::Relaxed);
    }

    /// Wakes the monitor if it sleeps here.
    #[inline]
    pub(crate) fn wake(&self) {
        // Ordering: Relaxed, as in `sleep`.
        if self.is_sleeping.load(Ordering::Relaxed) {
            self.wake_sleeping();
        }
    }

    #[cold]
    fn wake_sleeping(&self) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        // Ordering: Relaxed, as in `sleep`.
        self.is_sleeping.store(false, Ordering::Relaxed);
        drop(guard);
        self.woken.notify_one();
    }
}
