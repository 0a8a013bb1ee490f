//! The latest result of a feed, and the state of the link to it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{Frame, Query};

use crate::terminal::feed::FeedError;

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
