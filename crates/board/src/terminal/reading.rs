//! The latest that came from a feed, and how the link to it stands.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{Frame, Query};

use crate::terminal::feed::FeedError;

/// How the link to a board stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Link {
    /// Nothing has come yet, neither a frame nor a failure.
    Waiting,
    /// The last query was answered.
    Live,
    /// It was not.
    Lost {
        /// Why.
        error: FeedError,
        /// When it is asked again.
        again_at: Instant,
    },
}

/// The latest that came from a feed.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Rises with each frame or failure.
    pub serial: u64,
    /// The latest frame; also when the link is lost.
    pub frame: Option<Arc<Frame>>,
    /// What this frame answers.
    pub query: Arc<Query>,
    /// When it came.
    pub came_at: Option<Instant>,
    /// How the link stands.
    pub link: Link,
}

impl Reading {
    /// Before anything came.
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

    /// A frame came.
    pub fn come(&mut self, frame: Frame, query: Arc<Query>, now: Instant) {
        self.serial += 1;
        self.frame = Some(Arc::new(frame));
        self.query = query;
        self.came_at = Some(now);
        self.link = Link::Live;
    }

    /// None came, and the next attempt is at `again_at`.
    pub fn fail(&mut self, error: FeedError, again_at: Instant) {
        self.serial += 1;
        self.link = Link::Lost { error, again_at };
    }

    /// How old the frame is, from its coming here.
    #[must_use]
    pub fn age(&self, now: Instant) -> Option<Duration> {
        self.came_at.map(|at| now.saturating_duration_since(at))
    }
}
