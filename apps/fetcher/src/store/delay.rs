//! Requests that take some time: an embedded store stands for a slow one, an embedded directory for a remote one.

use std::{
    io,
    num::NonZeroUsize,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;

use super::{
    Bulkhead, BulkheadOptions, Directory, Occupancy, OnDevices, OnFetched, Report, SlowStore,
    StoreError,
};

/// Completes requests in order, each a fixed time after it was sent. Requests are completed also after this is
/// dropped. The senders bound their number.
#[derive(Debug)]
struct DelayLine<T> {
    time: Duration,
    requests: mpsc::Sender<(Instant, T)>,
}

impl<T: Send + 'static> DelayLine<T> {
    fn new(name: &str, time: Duration, complete: impl Fn(T) + Send + 'static) -> io::Result<Self> {
        let (requests, delayed) = mpsc::channel::<(Instant, T)>();
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                for (due, request) in delayed {
                    let left = due.saturating_duration_since(Instant::now());
                    if !left.is_zero() {
                        thread::sleep(left);
                    }
                    complete(request);
                }
            })?;
        Ok(Self { time, requests })
    }

    fn send(&self, request: T) {
        // Fails only after a panic of `complete`. The dropped request then reports that.
        let _ = self.requests.send((Instant::now() + self.time, request));
    }
}

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

/// A store in memory that delays each fetch. The value of a key is `value-of-` and the key.
#[derive(Debug)]
pub struct MockStore(Bulkhead);

type Fetch = (Box<[u8]>, OnFetched);

/// Completes any number of fetches at once.
struct DelayedFetches(DelayLine<Fetch>);

impl SlowStore for DelayedFetches {
    fn fetch(&self, key: &[u8], on_outcome: OnFetched) {
        self.0.send((key.into(), on_outcome));
    }
}

impl MockStore {
    /// Starts the store.
    ///
    /// # Errors
    /// If no thread can be created.
    pub fn new(options: MockOptions) -> io::Result<Self> {
        let complete = |(key, on_outcome): Fetch| on_outcome(Ok(value_of(&key)));
        let fetches = DelayLine::new("mock store", options.delay, complete)?;
        let limits = BulkheadOptions {
            running_max: options.concurrent,
            waiting_max: options.waiting_max,
        };
        let fetches = Arc::new(DelayedFetches(fetches));
        Ok(Self(Bulkhead::new(fetches, limits)))
    }

    /// The current occupancy.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        self.0.occupancy()
    }
}

impl SlowStore for MockStore {
    fn fetch(&self, key: &[u8], on_outcome: OnFetched) {
        self.0.fetch(key, on_outcome);
    }
}

fn value_of(key: &[u8]) -> Option<Bytes> {
    let name = key.rsplit(|byte| *byte == b':').next().unwrap_or(key);
    if name.starts_with(NOBODY) {
        return None;
    }
    Some([b"value-of-", key].concat().into())
}

/// A directory with an added delay.
pub struct DistantDirectory {
    directory: Arc<dyn Directory>,
    queries: DelayLine<(Vec<String>, Report<Vec<Option<String>>>)>,
}

impl DistantDirectory {
    /// Adds `time` to each query of `directory`.
    ///
    /// # Errors
    /// If no thread can be created.
    pub fn new(directory: Arc<dyn Directory>, time: Duration) -> io::Result<Self> {
        let destination = directory.clone();
        let queries = DelayLine::new("distance", time, move |(users, report): (_, Report<_>)| {
            destination.look_up(users, Box::new(move |devices| report.tell(devices)));
        })?;
        Ok(Self { directory, queries })
    }
}

impl Directory for DistantDirectory {
    fn look_up(&self, users: Vec<String>, on_outcome: OnDevices) {
        self.queries.send((users, Report::new(on_outcome)));
    }

    fn look_up_blocking(&self, user: &str) -> Result<Option<String>, StoreError> {
        thread::sleep(self.queries.time);
        self.directory.look_up_blocking(user)
    }

    fn provision(&self, users: u64) -> Result<(), StoreError> {
        self.directory.provision(users)
    }
}
