//! The thread that queries the feed, so that keys work although a board is slow.
//!
//! ```text
//!   screen ──ask──▶ query ──▶ thread ──▶ feed
//!     ▲                             │
//!     └────────── reading ◀─────────┘     one query, one reading: the latest
//! ```
//!
//! One query runs at a time, and at most one starts per period; after a failure the pause grows. A new query ends
//! a pause.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use std::{fmt, io};

use crate::Query;
use freeboard_flow::Backoff;

use crate::terminal::{feed::Feed, reading::Reading};

/// The pause before the next attempt after a failure.
const BACKOFF: Backoff = Backoff {
    min_ns: 250_000_000,
    max_ns: 5_000_000_000,
    factor: 2,
};

struct State {
    query: Arc<Query>,
    /// Increases with each query.
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

/// Queries a feed on a thread of its own until it is dropped.
pub struct Watch {
    shared: Arc<Shared>,
}

impl Watch {
    /// Starts the thread; it queries once per `every`.
    ///
    /// # Errors
    /// The thread cannot be started.
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
            .spawn(move || query_loop(feed, &of_thread, every))?;
        Ok(Self { shared })
    }

    /// Changes the query and sends it at once.
    pub fn ask(&self, query: Query) {
        let mut state = self.shared.lock();
        state.query = Arc::new(query);
        state.asked += 1;
        drop(state);
        self.shared.changed.notify_one();
    }

    /// The latest result, unless it has this serial number.
    #[must_use]
    pub fn later_than(&self, serial: u64) -> Option<Reading> {
        let state = self.shared.lock();
        (state.reading.serial != serial).then(|| state.reading.clone())
    }
}

impl Drop for Watch {
    /// Does not wait for the thread, which ends after the feed's current call.
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

fn query_loop(mut feed: impl Feed, shared: &Shared, every: Duration) {
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
