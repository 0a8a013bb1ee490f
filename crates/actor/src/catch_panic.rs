//! Running what users wrote where a panic must not take a worker, or the timer thread, down.

use std::{
    any::Any,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Drops a value; a panic of its drop is swallowed.
pub(crate) fn drop<T>(value: T) {
    call(|| mem::drop(value));
}

/// Calls a function; `None` if it panicked.
pub(crate) fn call<R>(function: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(function)) {
        Ok(result) => Some(result),
        Err(panic) => {
            forget(panic);
            None
        }
    }
}

/// The drop of a panic's payload may panic with another payload, and so on without end. This many are dropped; the
/// next one is leaked.
const NESTED_MAX: usize = 8;

/// Lets go of a panic's payload, whose drop may panic in turn.
pub(crate) fn forget(mut panic: Box<dyn Any + Send>) {
    for _ in 0..NESTED_MAX {
        match catch_unwind(AssertUnwindSafe(|| mem::drop(panic))) {
            Ok(()) => return,
            Err(again) => panic = again,
        }
    }
    mem::forget(panic);
}
