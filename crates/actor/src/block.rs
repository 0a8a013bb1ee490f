//! Blocks a thread until a future is ready or a deadline has passed.
//!
//! When a system is dropped its threads stop, so nothing would answer a blocked handler. The system knows its
//! blocked handlers ([`BlockedHandlers`]) and makes them give up.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use freeboard_meter::clock;
use freeboard_platform::thread::{self, Thread};
use slab::Slab;

use crate::{
    current,
    reply::NO_DEADLINE_NS,
    sync::{AtomicBool, Ordering},
};

/// The waker of a blocked thread.
struct Unparker {
    thread: Thread,
    /// Whether it was woken; an unpark token from elsewhere does not count.
    is_woken: AtomicBool,
}

impl Wake for Unparker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Ordering: Release pairs with the Acquire in `until`: the waker's writes are visible to the next poll.
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// The threads that block in handlers of a system.
#[derive(Default)]
pub(crate) struct BlockedHandlers(Mutex<Blocked>);

#[derive(Default)]
struct Blocked {
    threads: Slab<Arc<Unparker>>,
    has_ended: bool,
}

impl BlockedHandlers {
    fn lock(&self) -> MutexGuard<'_, Blocked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The system's threads are about to stop: blocked handlers give up, and none blocks from here on.
    pub(crate) fn end(&self) {
        let threads = {
            let mut blocked = self.lock();
            blocked.has_ended = true;
            std::mem::take(&mut blocked.threads)
        };
        for (_, thread) in threads {
            thread.wake();
        }
    }

    fn has_ended(&self) -> bool {
        self.lock().has_ended
    }
}

/// This thread blocks in a handler, until it is dropped.
struct Blocking {
    handlers: Arc<BlockedHandlers>,
    slot: usize,
}

impl Blocking {
    /// `None` outside of handlers.
    fn enter(unparker: &Arc<Unparker>) -> Option<Self> {
        let handlers = current::with(|core| Some(core?.system.blocked_handlers.clone()))?;
        let slot = handlers.lock().threads.insert(unparker.clone());
        Some(Self { handlers, slot })
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        // Already removed if the system has ended.
        self.handlers.lock().threads.try_remove(self.slot);
    }
}

/// Why a wait gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GaveUp {
    DeadlinePassed,
    /// The thread is in a handler, and its system has ended.
    SystemEnded,
}

/// Blocks the thread until `poll` is ready.
pub(crate) fn until<T>(
    deadline_ns: u64,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Result<T, GaveUp> {
    let unparker = Arc::new(Unparker {
        thread: thread::current(),
        is_woken: AtomicBool::new(false),
    });
    let waker = Waker::from(unparker.clone());
    let mut context = Context::from_waker(&waker);
    let mut blocking = None;
    loop {
        if let Poll::Ready(ready) = poll(&mut context) {
            return Ok(ready);
        }
        if blocking.is_none() {
            blocking = Blocking::enter(&unparker);
        }
        if blocking.as_ref().is_some_and(|it| it.handlers.has_ended()) {
            return Err(GaveUp::SystemEnded);
        }
        // Ordering: Acquire, as in `wake_by_ref`.
        while !unparker.is_woken.swap(false, Ordering::Acquire) {
            if deadline_ns == NO_DEADLINE_NS {
                thread::park();
                continue;
            }
            let left_ns = deadline_ns.saturating_sub(clock::now_ns());
            if left_ns == 0 {
                return Err(GaveUp::DeadlinePassed);
            }
            thread::park_timeout(Duration::from_nanos(left_ns));
        }
    }
}

/// Waits for a short time, between two polls of a condition.
pub(crate) fn pause(time: Duration) {
    thread::sleep(time);
}
