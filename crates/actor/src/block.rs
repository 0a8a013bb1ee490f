//! Blocking a thread until something is ready or a deadline has come.

use std::{
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use freeboard_meter::clock;

use crate::sync::{AtomicBool, Ordering};

/// No deadline, on the [`clock`].
pub(crate) const NO_DEADLINE_NS: u64 = u64::MAX;

/// The waker of a blocked thread.
struct Unparker {
    thread: Thread,
    /// Whether it was woken; a token left in the thread by somebody else does not count.
    is_woken: AtomicBool,
}

impl Wake for Unparker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Ordering: Release pairs with the Acquire in `until`: what the waker did is seen by the next poll.
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Polls until it is ready, and blocks the thread meanwhile. `None` if `deadline_ns` comes first.
pub(crate) fn until<T>(
    deadline_ns: u64,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Option<T> {
    let unparker = Arc::new(Unparker {
        thread: thread::current(),
        is_woken: AtomicBool::new(false),
    });
    let waker = Waker::from(unparker.clone());
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(ready) = poll(&mut context) {
            return Some(ready);
        }
        // Ordering: Acquire, as in `wake_by_ref`.
        while !unparker.is_woken.swap(false, Ordering::Acquire) {
            if deadline_ns == NO_DEADLINE_NS {
                thread::park();
                continue;
            }
            let left_ns = deadline_ns.saturating_sub(clock::now_ns());
            if left_ns == 0 {
                return None;
            }
            thread::park_timeout(Duration::from_nanos(left_ns));
        }
    }
}

/// The time on the [`clock`] at which `timeout` is over.
pub(crate) fn deadline_after(timeout: Option<Duration>) -> u64 {
    timeout.map_or(NO_DEADLINE_NS, |timeout| {
        clock::now_ns().saturating_add(crate::supervision::saturating_ns(timeout))
    })
}
