//! Requests that take some time: an embedded store stands for a slow one, an embedded directory for a remote one.

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use freeboard::{
    meter::clock,
    platform::{
        sync::{Condvar, Mutex, MutexGuard},
        thread,
    },
};

use super::{Directory, OnDevices, OnFetched, Report, SlowStore, StoreError};

/// Completes requests in order, each a fixed time after it was sent. Requests are completed also after this is
/// dropped. The senders bound their number.
struct DelayLine<T> {
    time: Duration,
    line: Arc<Line<T>>,
}

/// What is under way.
struct Line<T> {
    state: Mutex<LineState<T>>,
    changed: Condvar,
}

struct LineState<T> {
    requests: VecDeque<(Instant, T)>,
    /// No further one comes.
    is_closed: bool,
}

impl<T> Line<T> {
    fn lock(&self) -> MutexGuard<'_, LineState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next request; waits for it. `None` if no further one comes.
    fn next(&self) -> Option<(Instant, T)> {
        let mut state = self.lock();
        loop {
            if let Some(next) = state.requests.pop_front() {
                return Some(next);
            }
            if state.is_closed {
                return None;
            }
            let woken = self.changed.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Drop for DelayLine<T> {
    fn drop(&mut self) {
        self.line.lock().is_closed = true;
        self.line.changed.notify_all();
    }
}

impl<T: Send + 'static> DelayLine<T> {
    fn new(name: &str, time: Duration, complete: impl Fn(T) + Send + 'static) -> io::Result<Self> {
        let line = Arc::new(Line {
            state: Mutex::new(LineState {
                requests: VecDeque::new(),
                is_closed: false,
            }),
            changed: Condvar::new(),
        });
        let delayed = line.clone();
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                while let Some((due, request)) = delayed.next() {
                    let left = due.saturating_duration_since(clock::now());
                    if !left.is_zero() {
                        thread::sleep(left);
                    }
                    complete(request);
                }
            })?;
        Ok(Self { time, line })
    }

    fn send(&self, request: T) {
        let due = clock::now() + self.time;
        self.line.lock().requests.push_back((due, request));
        self.line.changed.notify_one();
    }
}

/// Keys whose last part, after a colon, begins with this have no value.
const NOBODY: &[u8] = b"nobody";

/// A store in memory that delays each fetch. The value of a key is `value-of-` and the key. Any number of fetches
/// run at once: put a [`Bulkhead`](super::Bulkhead) in front.
pub struct MockStore(DelayLine<Fetch>);

type Fetch = (Box<[u8]>, Report<Option<Bytes>>);

impl MockStore {
    /// Starts a store whose fetches take this time.
    ///
    /// # Errors
    /// If no thread can be created.
    pub fn new(time: Duration) -> io::Result<Self> {
        let line = DelayLine::new("mock store", time, |(key, report): Fetch| {
            report.tell(Ok(value_of(&key)));
        });
        Ok(Self(line?))
    }
}

impl SlowStore for MockStore {
    fn fetch(&self, key: &[u8], on_outcome: OnFetched) {
        self.0.send((key.into(), Report::new(on_outcome)));
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
    queries: DelayLine<Query>,
}

type Query = (Vec<String>, Report<Vec<Option<String>>>);

impl DistantDirectory {
    /// Adds `time` to each query of `directory`.
    ///
    /// # Errors
    /// If no thread can be created.
    pub fn new(directory: Arc<dyn Directory>, time: Duration) -> io::Result<Self> {
        let destination = directory.clone();
        let queries = DelayLine::new("distance", time, move |(users, report): Query| {
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
