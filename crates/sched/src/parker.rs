//! A parker: one thread waits for a token, others give it.
//!
//! A mutex and a condition variable (futex underneath): the token can be given before its owner's
//! thread exists, and is not mixed up with the thread's own `std::thread::park` token, which a
//! handler's libraries may use.

#[cfg(loom)]
use loom::sync::{Condvar, Mutex};
#[cfg(not(loom))]
use std::sync::{Condvar, Mutex};

pub(crate) struct Parker {
    token: Mutex<bool>,
    given: Condvar,
}

impl Parker {
    pub(crate) fn new() -> Self {
        Self {
            token: Mutex::new(false),
            given: Condvar::new(),
        }
    }

    /// Waits for the token and takes it.
    pub(crate) fn park(&self) {
        let mut token = self.token.lock().expect("nothing panics under this lock");
        while !*token {
            token = self
                .given
                .wait(token)
                .expect("nothing panics under this lock");
        }
        *token = false;
    }

    /// Gives the token.
    pub(crate) fn unpark(&self) {
        *self.token.lock().expect("nothing panics under this lock") = true;
        self.given.notify_one();
    }
}
