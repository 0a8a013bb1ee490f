//! Calls foreign code (handlers, wakers, observers, drops). Its panic, which the panic hook reports, must not terminate the
//! calling thread.

use std::{
    any::Any,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// The drop of a panic's payload may panic with another payload, and so on. This many are dropped; the next one is leaked.
const NESTED_MAX: usize = 8;

/// Calls a function; `None` if it panicked.
#[inline]
pub fn call<R>(function: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(function)) {
        Ok(result) => Some(result),
        Err(panic) => {
            drop_payload(panic);
            None
        }
    }
}

/// Drops a value; a panic of its drop is swallowed.
pub fn drop<T>(value: T) {
    call(|| mem::drop(value));
}

/// Drops a panic's payload, whose drop may panic in turn.
#[cold]
pub fn drop_payload(mut panic: Box<dyn Any + Send>) {
    for _ in 0..NESTED_MAX {
        match catch_unwind(AssertUnwindSafe(|| mem::drop(panic))) {
            Ok(()) => return,
            Err(again) => panic = again,
        }
    }
    mem::forget(panic);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    struct Payload(Arc<AtomicUsize>);

    impl Drop for Payload {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
            std::panic::resume_unwind(Box::new(()));
        }
    }

    #[test]
    fn the_payload_is_dropped_though_its_drop_panics() {
        let drops = Arc::new(AtomicUsize::new(0));
        let payload = Payload(drops.clone());
        assert_eq!(call(|| 5), Some(5));
        let called: Option<()> = call(|| std::panic::resume_unwind(Box::new(payload)));
        assert_eq!(called, None);
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    }
}
