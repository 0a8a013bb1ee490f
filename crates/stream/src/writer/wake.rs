//! Waking, which runs code of the user's.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    task::Waker,
};

/// Wakes all of them; one that panics keeps none of the others from it. No lock is held, and no place
/// among the writes on their way: a waker may drop the stream's last handle.
pub(super) fn wake_all(wakers: Vec<Waker>) {
    for waker in wakers {
        // Its panic is its owner's: here it would end a thread that others depend on.
        let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }
}
