//! The thread that asks, so that keys work however slow a board is.
//!
//! ```text
//!   screen ──ask──▶ query ──▶ thread ──▶ feed
//!     ▲                             │
//!     └────────── reading ◀─────────┘     one query, one reading: the latest
//! ```
//!
//! One query is under way at a time, at most so many begin a second; after a failure the pause grows.
//! A new query ends a pause.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use std::{fmt, io};

use crate::Query;
use freeboard_flow::Backoff;

use crate::terminal::{feed::Feed, reading::Reading};

/// From a lost link to the next attempt.
const BACKOFF: Backoff = Backoff {
    min_ns: 250_000_000,
    max_ns: 5_000_000_000,
    factor: 2,
};

struct State {
    query: Arc<Query>,
    /// Rises with each query.
    asked: u64,
    is_over: bool,
    reading: Reading,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A feed that is asked on a thread of its own until this is dropped.
pub struct Watch {
    shared: Arc<Shared>,
}

impl Watch {
    /// Starts asking, once per `every`.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn start(feed: impl Feed, query: Query, every: Duration) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                query: Arc::new(query.clone()),
                asked: 0,
                is_over: false,
                reading: Reading::new(query),
            }),
            changed: Condvar::new(),
        });
        let of_thread = shared.clone();
        thread::Builder::new()
            .name("freeboard-top".to_owned())
            .spawn(move || ask_on(feed, &of_thread, every))?;
        Ok(Self { shared })
    }

    /// From now on this is asked, at once for the first time.
    pub fn ask(&self, query: Query) {
        let mut state = self.shared.lock();
        state.query = Arc::new(query);
        state.asked += 1;
        drop(state);
        self.shared.changed.notify_one();
    }

    /// The latest that came, unless that is the one with this number.
    #[must_use]
    pub fn later_than(&self, serial: u64) -> Option<Reading> {
        let state = self.shared.lock();
        (state.reading.serial != serial).then(|| state.reading.clone())
    }
}

impl Drop for Watch {
    /// The thread ends by itself, at the latest when its feed gives up: nobody should wait for that.
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_one();
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Watch").finish_non_exhaustive()
    }
}

fn ask_on(mut feed: impl Feed, shared: &Shared, every: Duration) {
    let mut failures = 0_u32;
    loop {
        let (query, asked) = {
            let state = shared.lock();
            if state.is_over {
                return;
            }
            (state.query.clone(), state.asked)
        };
        let began_at = Instant::now();
        let outcome = feed.frame(&query);
        let now = Instant::now();
        let again_at = match &outcome {
            Ok(_) => {
                failures = 0;
                began_at + every
            }
            Err(_) => {
                let pause = Duration::from_nanos(BACKOFF.delay_ns(failures));
                failures = failures.saturating_add(1);
                now + pause
            }
        };
        let mut state = shared.lock();
        match outcome {
            Ok(frame) => state.reading.come(frame, query, now),
            Err(error) => state.reading.fail(error, again_at),
        }
        while !state.is_over && state.asked == asked {
            let Some(rest) = again_at.checked_duration_since(Instant::now()) else {
                break;
            };
            let waited = shared.changed.wait_timeout(state, rest);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
