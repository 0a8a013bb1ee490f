//! A parker: one thread waits for a token, others give it.
//!
//! A mutex and a condition variable (futex underneath): the token can be given before its owner's
//! thread exists, and is not mixed up with the thread's own `std::thread::park` token, which a
//! handler's libraries may use. The owner may wait elsewhere instead, for the token and for something
//! more; then whoever gives the token also ends that wait.

#[cfg(loom)]
use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::{Condvar, Mutex, MutexGuard};

pub(crate) struct Parker {
    state: Mutex<State>,
    given: Condvar,
}

#[derive(Default)]
struct State {
    has_token: bool,
    /// Whether its owner waits for `given`. If it does not, a notification would only cost a system call.
    is_waiting: bool,
    /// Whether its owner waits elsewhere, and is woken there.
    is_outside: bool,
}

impl Parker {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State::default()),
            given: Condvar::new(),
        }
    }

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

    /// Whether the token is there, for its owner while he waits outside.
    pub(crate) fn has_token(&self) -> bool {
        self.lock().has_token
    }

    /// Calls `wait`, unless the token is there; takes the token if it is there then. `true` if it was.
    ///
    /// Who gives it meanwhile ends the wait, which may not have begun: it must end all the same.
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

    /// Gives the token, to an owner who never waits outside.
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
