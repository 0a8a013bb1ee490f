//! Timers: one thread that calls what is due.
//!
//! A binary tree of deadlines under a mutex, and a thread that waits for the first. It starts with
//! the first timer, so a system without timers has no such thread. A timer calls on the timer
//! thread, so what it calls must be short: the actor floor only tells a message there.

use std::{
    collections::BTreeMap,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use freeboard_meter::clock;

/// What a timer calls, with its key; it returns the time until it wants to be called again, if it
/// does.
type Call = Box<dyn FnMut(TimerKey) -> Option<Duration> + Send>;

/// Names one timer. Keys are never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerKey {
    due_ns: u64,
    number: u64,
}

#[derive(Default)]
struct State {
    calls: BTreeMap<TimerKey, Call>,
    /// Where timers that repeat are now; their callers know the key they were made with.
    moved: BTreeMap<u64, TimerKey>,
    next_number: u64,
    /// Number of the timer that is being called, unless it was cancelled meanwhile.
    serving: Option<u64>,
    is_running: bool,
    is_shut_down: bool,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A set of timers and the thread that serves them. Cheap to clone.
#[derive(Clone, Default)]
pub struct Timers {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Timers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Timers({})", self.len())
    }
}

impl Timers {
    /// No timers, and no thread yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls `call` after `delay`, and again after whatever it returns, measured from when it was
    /// due, so that a repeating timer does not drift.
    ///
    /// # Errors
    /// When the timer thread cannot be started, or after [`Timers::shutdown`].
    pub fn after(
        &self,
        delay: Duration,
        call: impl FnMut(TimerKey) -> Option<Duration> + Send + 'static,
    ) -> io::Result<TimerKey> {
        let mut state = self.inner.lock();
        if state.is_shut_down {
            return Err(io::Error::other("the timers are shut down"));
        }
        if !state.is_running {
            let inner = self.inner.clone();
            thread::Builder::new()
                .name("freeboard-timers".into())
                .spawn(move || serve(&inner))?;
            state.is_running = true;
        }
        let key = TimerKey {
            due_ns: due_after(clock::now_ns(), delay),
            number: state.next_number,
        };
        state.next_number += 1;
        let is_first = state.calls.keys().next().is_none_or(|first| key < *first);
        state.calls.insert(key, Box::new(call));
        drop(state);
        if is_first {
            self.inner.changed.notify_one();
        }
        Ok(key)
    }

    /// Drops a timer. `false` if it had been called for the last time. A timer that is being called
    /// at this moment is not called again.
    pub fn cancel(&self, key: TimerKey) -> bool {
        let mut state = self.inner.lock();
        if state.serving == Some(key.number) {
            state.serving = None;
            return true;
        }
        let place = state.moved.remove(&key.number).unwrap_or(key);
        let call = state.calls.remove(&place);
        drop(state);
        call.is_some()
    }

    /// Timers that wait.
    pub fn len(&self) -> usize {
        self.inner.lock().calls.len()
    }

    /// Whether no timer waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls what waits one last time, early, so that nobody waits for it for ever, and ends the
    /// thread. No timer is set any more.
    pub fn shutdown(&self) {
        let mut state = self.inner.lock();
        state.is_shut_down = true;
        let calls = std::mem::take(&mut state.calls);
        drop(state);
        self.inner.changed.notify_one();
        for (key, mut call) in calls {
            let called = catch_unwind(AssertUnwindSafe(move || call(key)));
            if let Err(panic) = called {
                std::mem::forget(panic);
            }
        }
    }
}

fn due_after(now_ns: u64, delay: Duration) -> u64 {
    now_ns.saturating_add(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX))
}

fn serve(inner: &Inner) {
    let mut state = inner.lock();
    while !state.is_shut_down {
        let Some(first) = state.calls.first_entry() else {
            state = inner
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        let now_ns = clock::now_ns();
        let key = *first.key();
        if key.due_ns > now_ns {
            let left = Duration::from_nanos(key.due_ns - now_ns);
            state = inner
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            continue;
        }
        let mut call = first.remove();
        state.serving = Some(key.number);
        // Called without the lock, so that it may set and cancel timers.
        drop(state);
        let again = catch_unwind(AssertUnwindSafe(|| call(key))).unwrap_or_else(|panic| {
            // What a caller's timer panics with is nobody's to handle here; its own drop may panic.
            std::mem::forget(panic);
            None
        });
        state = inner.lock();
        let is_wanted = state.serving.take() == Some(key.number) && !state.is_shut_down;
        if let Some(period) = again
            && is_wanted
        {
            // A timer that cannot keep its pace skips what it missed, or others would never come.
            let next = TimerKey {
                due_ns: due_after(key.due_ns, period).max(now_ns + 1),
                number: key.number,
            };
            state.moved.insert(key.number, next);
            state.calls.insert(next, call);
            continue;
        }
        state.moved.remove(&key.number);
        // Without the lock: what the call owns may cancel timers when it goes.
        drop(state);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(move || drop(call))) {
            std::mem::forget(panic);
        }
        state = inner.lock();
    }
}
