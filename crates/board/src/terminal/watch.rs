//! The thread that queries the feed, so that keys work although a board is slow, and its latest result.
//!
//! ```text
//!   screen ──ask──▶ query ──▶ thread ──▶ feed
//!     ▲                             │
//!     └────────── reading ◀─────────┘     one query, one reading: the latest
//! ```
//!
//! One query runs at a time, and at most one starts per period; after a failure the pause grows. A new query ends
//! a pause.

use std::{
    fmt, io,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use freeboard_flow::Backoff;

use super::feed::{Feed, FeedError};
use crate::{Frame, Query};

/// The pause before the next attempt after a failure.
const BACKOFF: Backoff = Backoff {
    min_ns: 250_000_000,
    max_ns: 5_000_000_000,
    factor: 2,
};

/// The state of the link to a board.
#[derive(Clone, Debug, PartialEq)]
pub enum Link {
    /// There is no result yet.
    Waiting,
    /// The last query was answered.
    Live,
    /// The last query failed.
    Lost {
        /// The reason.
        error: FeedError,
        /// The time of the next attempt.
        again_at: Instant,
    },
}

/// The latest result of a feed.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Increases with each frame and failure.
    pub serial: u64,
    /// The latest frame; kept when the link is lost.
    pub frame: Option<Arc<Frame>>,
    /// The query of this frame.
    pub query: Arc<Query>,
    /// When it arrived.
    pub came_at: Option<Instant>,
    /// The state of the link.
    pub link: Link,
}

impl Reading {
    /// Without a result.
    #[must_use]
    pub fn new(query: Query) -> Self {
        Self {
            serial: 0,
            frame: None,
            query: Arc::new(query),
            came_at: None,
            link: Link::Waiting,
        }
    }

    /// Stores a frame.
    pub fn come(&mut self, frame: Frame, query: Arc<Query>, now: Instant) {
        self.serial += 1;
        self.frame = Some(Arc::new(frame));
        self.query = query;
        self.came_at = Some(now);
        self.link = Link::Live;
    }

    /// Stores a failure; the next attempt is at `again_at`.
    pub fn fail(&mut self, error: FeedError, again_at: Instant) {
        self.serial += 1;
        self.link = Link::Lost { error, again_at };
    }

    /// The time since the frame arrived.
    #[must_use]
    pub fn age(&self, now: Instant) -> Option<Duration> {
        self.came_at.map(|at| now.saturating_duration_since(at))
    }
}

/// Queries a feed on a thread of its own until it is dropped. Dropping it does not wait for the thread, which ends
/// after the feed's current call.
pub struct Watch {
    queries: Sender<Query>,
    reading: Arc<Mutex<Reading>>,
}

impl Watch {
    /// Starts the thread; it queries once per `every`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(feed: impl Feed, query: Query, every: Duration) -> io::Result<Self> {
        let (queries, asked) = mpsc::channel();
        let reading = Arc::new(Mutex::new(Reading::new(query)));
        let shared = reading.clone();
        thread::Builder::new()
            .name("freeboard-top".to_owned())
            .spawn(move || query_loop(feed, &asked, &shared, every))?;
        Ok(Self { queries, reading })
    }

    /// Changes the query and sends it at once.
    pub fn ask(&self, query: Query) {
        // Fails if the feed has panicked: its thread has printed the message.
        let _ = self.queries.send(query);
    }

    /// The latest result, unless it has this serial number.
    #[must_use]
    pub fn later_than(&self, serial: u64) -> Option<Reading> {
        let reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        (reading.serial != serial).then(|| reading.clone())
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Watch")
    }
}

fn query_loop(
    mut feed: impl Feed,
    asked: &Receiver<Query>,
    shared: &Mutex<Reading>,
    every: Duration,
) {
    let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
    let mut query = lock().query.clone();
    let mut failures = 0_u32;
    loop {
        let began_at = Instant::now();
        let outcome = feed.frame(&query);
        let now = Instant::now();
        let again_at = match outcome {
            Ok(frame) => {
                failures = 0;
                lock().come(frame, query.clone(), now);
                began_at + every
            }
            Err(error) => {
                let again_at = now + Duration::from_nanos(BACKOFF.delay_ns(failures));
                failures = failures.saturating_add(1);
                lock().fail(error, again_at);
                again_at
            }
        };
        match asked.recv_timeout(again_at.saturating_duration_since(Instant::now())) {
            // Of several, only the last is sent.
            Ok(next) => query = Arc::new(asked.try_iter().last().unwrap_or(next)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
