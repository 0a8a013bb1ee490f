//! Who sleeps until when.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::super::{
    error::StoreError,
    occupancy::Occupancy,
    places::{Entry, Places},
    report::Report,
};
use super::{
    MockOptions, NOBODY,
    failures::{FailurePlan, Failures},
};

/// One fetch on its way.
pub(super) struct Fetch {
    pub(super) key: Box<[u8]>,
    pub(super) report: Report<Option<Bytes>>,
}

/// Where the fetches sleep.
pub(super) struct Sleepers {
    delay: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    places: Places<Fetch>,
    /// In the order in which they are due.
    asleep: VecDeque<(Instant, Fetch)>,
    failures: FailurePlan,
    is_closed: bool,
}

impl Sleepers {
    pub(super) fn new(options: MockOptions) -> Self {
        let state = State {
            places: Places::new(options.concurrent.get(), options.waiting_max),
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

    pub(super) fn enter(&self, fetch: Fetch) -> Result<(), Fetch> {
        let mut state = self.state.lock();
        match state.places.enter(fetch) {
            Entry::Runs(fetch) => {
                self.put_to_sleep(&mut state, fetch);
                if state.asleep.len() == 1 {
                    self.changed.notify_one();
                }
                Ok(())
            }
            Entry::Waits => Ok(()),
            Entry::Refused(fetch) => Err(fetch),
        }
    }

    pub(super) fn occupancy(&self) -> Occupancy {
        self.state.lock().places.occupancy()
    }

    pub(super) fn set_failures(&self, failures: Failures) {
        self.state.lock().failures = FailurePlan::new(failures);
    }

    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Wakes the fetches when they are due, until it is closed.
    pub(super) fn run(&self) {
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
        let line = state.places.take_line();
        drop(state);
        // Dropped without the lock, since it tells them so.
        drop((asleep, line));
    }

    fn wake_first(&self, state: &mut MutexGuard<'_, State>) {
        let Some((_, fetch)) = state.asleep.pop_front() else {
            return;
        };
        state.places.leave();
        if let Some(next) = state.places.next() {
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
