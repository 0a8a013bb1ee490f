//! Where frames come from.

mod board;
mod http;

use crate::{Frame, FrameError, Query};

pub use http::HttpFeed;

/// Something that answers queries with frames: a board here, or one behind a URL.
///
/// Called on a thread of its own, one query at a time, so it may block; for a bounded time, because
/// nothing newer is shown meanwhile.
pub trait Feed: Send + 'static {
    /// One frame.
    ///
    /// # Errors
    /// Whatever kept it from coming; the next call may succeed.
    fn frame(&mut self, query: &Query) -> Result<Frame, FeedError>;

    /// Where they come from, as people read it, without secrets.
    fn place(&self) -> String;
}

/// Why no frame came.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FeedError {
    /// Nobody answers there.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// The answer took too long.
    #[error("no answer within {seconds} s")]
    TooSlow {
        /// How long that is.
        seconds: u64,
    },
    /// The board does not answer this query, or not us, or not now.
    #[error("{text} ({status})")]
    Refused {
        /// The status of HTTP.
        status: u16,
        /// What it said.
        text: String,
    },
    /// A board in this process does not answer.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The answer is not a board's.
    #[error("what answers there is no board: {0}")]
    NotABoard(String),
}

impl FeedError {
    /// Whether there is a board, which does not answer this question.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Frame(_))
    }
}
