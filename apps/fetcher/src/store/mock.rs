//! A slow store that needs nothing installed.
//!
//! ```text
//!   fetch ──▶ line, in order ──concurrent at once──▶ asleep, until each is due ──▶ outcome
//! ```
//!
//! One thread wakes them all: each sleeps for the same time, so who fell asleep first wakes first.

use std::{
    collections::VecDeque,
    io,
    num::{NonZeroU64, NonZeroUsize},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use fastrand::Rng;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::{
    OnFetched, Report, SlowStore, StoreError,
    bulkhead::{Admission, AdmissionQueue, Occupancy},
};

/// Keys whose last part, behind a colon, begins with it have no value.
pub const NOBODY: &[u8] = b"nobody";

/// How slow a [`MockStore`] is.
#[derive(Clone, Copy, Debug)]
pub struct MockOptions {
    /// How long a fetch takes: 100 ms unless set.
    pub delay: Duration,
    /// Fetches at once: 64 unless set.
    pub concurrent: NonZeroUsize,
    /// Fetches in line, before more are refused with [`StoreError::Full`]: 1,000,000 unless set.
    pub waiting_max: usize,
    /// Which fetches fail: none unless set.
    pub failures: Failures,
}

impl Default for MockOptions {
    fn default() -> Self {
        Self {
            delay: Duration::from_millis(100),
            concurrent: const { NonZeroUsize::new(64).unwrap() },
            waiting_max: 1_000_000,
            failures: Failures::None,
        }
    }
}

/// A store that sleeps for each fetch, so many at once. The value of a key is `value-of-` and the key.
/// Dropping it ends what is under way with [`StoreError::Unavailable`].
pub struct MockStore {
    sleepers: Arc<Sleepers>,
}

impl MockStore {
    /// Starts the store.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn new(options: MockOptions) -> io::Result<Self> {
        let sleepers = Arc::new(Sleepers::new(options));
        let waker = sleepers.clone();
        thread::Builder::new()
            .name("mock store".to_owned())
            .spawn(move || waker.run())?;
        Ok(Self { sleepers })
    }

    /// How busy it is.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        self.sleepers.occupancy()
    }

    /// Which fetches fail from now on.
    pub fn set_failures(&self, failures: Failures) {
        self.sleepers.set_failures(failures);
    }
}

impl SlowStore for MockStore {
    fn fetch(&self, key: &[u8], on_outcome: OnFetched) {
        let fetch = Fetch {
            key: key.into(),
            report: Report::new(on_outcome),
        };
        if let Err(refused) = self.sleepers.enter(fetch) {
            refused.report.tell(Err(StoreError::Full));
        }
    }
}

impl Drop for MockStore {
    fn drop(&mut self) {
        self.sleepers.close();
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

/// One fetch on its way.
struct Fetch {
    key: Box<[u8]>,
    report: Report<Option<Bytes>>,
}

/// Where the fetches sleep.
struct Sleepers {
    delay: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    admission: AdmissionQueue<Fetch>,
    /// In the order in which they are due.
    asleep: VecDeque<(Instant, Fetch)>,
    failures: FailurePlan,
    is_closed: bool,
}

impl Sleepers {
    fn new(options: MockOptions) -> Self {
        let state = State {
            admission: AdmissionQueue::new(options.concurrent.get(), options.waiting_max),
            asleep: VecDeque::new(),
            failures: FailurePlan::new(options.failures),
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
                self.put_to_sleep(&mut state, fetch);
                if state.asleep.len() == 1 {
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

    fn set_failures(&self, failures: Failures) {
        self.state.lock().failures = FailurePlan::new(failures);
    }

    fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Wakes the fetches when they are due, until it is closed.
    fn run(&self) {
        let mut state = self.state.lock();
        while !state.is_closed {
            let now = Instant::now();
            match state.asleep.front() {
                None => self.changed.wait(&mut state),
                Some((due, _)) if *due > now => {
                    let due = *due;
                    self.changed.wait_until(&mut state, due);
                }
                Some(_) => self.wake_first(&mut state),
            }
        }
        let asleep = std::mem::take(&mut state.asleep);
        let line = state.admission.take_line();
        drop(state);
        // Dropped without the lock, since it tells them so.
        drop((asleep, line));
    }

    fn wake_first(&self, state: &mut MutexGuard<'_, State>) {
        let Some((_, fetch)) = state.asleep.pop_front() else {
            return;
        };
        state.admission.leave();
        if let Some(next) = state.admission.next() {
            self.put_to_sleep(state, next);
        }
        let outcome = if state.failures.next_fails() {
            Err(StoreError::Unavailable("it fails on demand".to_owned()))
        } else {
            Ok(value_of(&fetch.key))
        };
        MutexGuard::unlocked(state, || fetch.report.tell(outcome));
    }

    fn put_to_sleep(&self, state: &mut State, fetch: Fetch) {
        state.asleep.push_back((Instant::now() + self.delay, fetch));
    }
}

fn value_of(key: &[u8]) -> Option<Bytes> {
    let name = key.rsplit(|byte| *byte == b':').next().unwrap_or(key);
    if name.starts_with(NOBODY) {
        return None;
    }
    Some([b"value-of-", key].concat().into())
}

/// Which fetches fail, in the order in which they end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Failures {
    /// None.
    #[default]
    None,
    /// Each n-th: all of them with 1.
    Each(NonZeroU64),
    /// By chance, the same ones for the same seed.
    Chance {
        /// So many of a million, on average.
        per_million: u32,
        /// What the chance begins with.
        seed: u64,
    },
}

/// Decides it for one fetch after the other.
struct FailurePlan {
    failures: Failures,
    count: u64,
    random: Rng,
}

impl FailurePlan {
    fn new(failures: Failures) -> Self {
        let seed = match failures {
            Failures::Chance { seed, .. } => seed,
            Failures::None | Failures::Each(_) => 0,
        };
        Self {
            failures,
            count: 0,
            random: Rng::with_seed(seed),
        }
    }

    fn next_fails(&mut self) -> bool {
        self.count += 1;
        match self.failures {
            Failures::None => false,
            Failures::Each(number) => self.count.is_multiple_of(number.get()),
            Failures::Chance { per_million, .. } => self.random.u32(..1_000_000) < per_million,
        }
    }
}
