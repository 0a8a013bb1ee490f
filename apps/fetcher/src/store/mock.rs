//! A slow store in memory.
//!
//! ```text
//!   fetch ──▶ line, in order ──concurrent at once──▶ running, until each is due ──▶ outcome
//! ```
//!
//! One thread completes all fetches. Each takes the same time, so they complete in order.

use std::{
    collections::VecDeque,
    io,
    num::NonZeroUsize,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::{
    OnFetched, Report, SlowStore, StoreError,
    bulkhead::{Admission, AdmissionQueue, Occupancy},
};

/// Keys whose last part, after a colon, begins with this have no value.
const NOBODY: &[u8] = b"nobody";

/// How slow a [`MockStore`] is.
#[derive(Clone, Copy, Debug)]
pub struct MockOptions {
    /// The time of a fetch; 100 ms unless set.
    pub delay: Duration,
    /// Concurrent fetches; 64 unless set.
    pub concurrent: NonZeroUsize,
    /// Queued fetches before more are refused with [`StoreError::Full`]; 1,000,000 unless set.
    pub waiting_max: usize,
}

impl Default for MockOptions {
    fn default() -> Self {
        Self {
            delay: Duration::from_millis(100),
            concurrent: const { NonZeroUsize::new(64).unwrap() },
            waiting_max: 1_000_000,
        }
    }
}

/// A store that delays each fetch. The value of a key is `value-of-` and the key. Dropping it ends fetches in
/// flight with [`StoreError::Unavailable`].
pub struct MockStore {
    fetches: Arc<Fetches>,
}

impl MockStore {
    /// Starts the store.
    ///
    /// # Errors
    /// If no thread can be created.
    pub fn new(options: MockOptions) -> io::Result<Self> {
        let fetches = Arc::new(Fetches::new(options));
        let waker = fetches.clone();
        thread::Builder::new()
            .name("mock store".to_owned())
            .spawn(move || waker.run())?;
        Ok(Self { fetches })
    }

    /// The current occupancy.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        self.fetches.occupancy()
    }
}

impl SlowStore for MockStore {
    fn fetch(&self, key: &[u8], on_outcome: OnFetched) {
        let fetch = Fetch {
            key: key.into(),
            report: Report::new(on_outcome),
        };
        if let Err(refused) = self.fetches.enter(fetch) {
            refused.report.tell(Err(StoreError::Full));
        }
    }
}

impl Drop for MockStore {
    fn drop(&mut self) {
        self.fetches.close();
    }
}

impl std::fmt::Debug for MockStore {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("MockStore")
            .field("occupancy", &self.occupancy())
            .finish_non_exhaustive()
    }
}

/// A fetch in flight.
struct Fetch {
    key: Box<[u8]>,
    report: Report<Option<Bytes>>,
}

/// The fetches in flight.
struct Fetches {
    delay: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    admission: AdmissionQueue<Fetch>,
    /// Ordered by due time.
    running: VecDeque<(Instant, Fetch)>,
    is_closed: bool,
}

impl Fetches {
    fn new(options: MockOptions) -> Self {
        let state = State {
            admission: AdmissionQueue::new(options.concurrent.get(), options.waiting_max),
            running: VecDeque::new(),
            is_closed: false,
        };
        Self {
            delay: options.delay,
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    fn enter(&self, fetch: Fetch) -> Result<(), Fetch> {
        let mut state = self.state.lock();
        match state.admission.enter(fetch) {
            Admission::Runs(fetch) => {
                self.start_fetch(&mut state, fetch);
                if state.running.len() == 1 {
                    self.changed.notify_one();
                }
                Ok(())
            }
            Admission::Waits => Ok(()),
            Admission::Refused(fetch) => Err(fetch),
        }
    }

    fn occupancy(&self) -> Occupancy {
        self.state.lock().admission.occupancy()
    }

    fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Completes the fetches when they are due, until it is closed.
    fn run(&self) {
        let mut state = self.state.lock();
        while !state.is_closed {
            let now = Instant::now();
            match state.running.front() {
                None => self.changed.wait(&mut state),
                Some((due, _)) if *due > now => {
                    let due = *due;
                    self.changed.wait_until(&mut state, due);
                }
                Some(_) => self.complete_first(&mut state),
            }
        }
        let running = std::mem::take(&mut state.running);
        let queued = state.admission.take_queued();
        drop(state);
        // Dropped outside the lock, because this calls the callbacks.
        drop((running, queued));
    }

    fn complete_first(&self, state: &mut MutexGuard<'_, State>) {
        let Some((_, fetch)) = state.running.pop_front() else {
            return;
        };
        state.admission.leave();
        if let Some(next) = state.admission.next() {
            self.start_fetch(state, next);
        }
        let outcome = Ok(value_of(&fetch.key));
        MutexGuard::unlocked(state, || fetch.report.tell(outcome));
    }

    fn start_fetch(&self, state: &mut State, fetch: Fetch) {
        state
            .running
            .push_back((Instant::now() + self.delay, fetch));
    }
}

fn value_of(key: &[u8]) -> Option<Bytes> {
    let name = key.rsplit(|byte| *byte == b':').next().unwrap_or(key);
    if name.starts_with(NOBODY) {
        return None;
    }
    Some([b"value-of-", key].concat().into())
}
