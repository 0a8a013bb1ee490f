//! Sources of frames: a board of this process, or one behind a URL.

use std::time::Duration;

use ureq::{Agent, Body, http::Response};

use super::{address::Address, names};
use crate::{Board, Frame, FrameError, Query};

/// The longest time of a request, from the connection to the last byte.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The largest frame.
const FRAME_BYTES_MAX: u64 = 16 << 20;
/// The most that is read of a refusal.
const REFUSAL_BYTES_MAX: u64 = 4 << 10;

/// Answers queries with frames.
///
/// It is called on a thread of its own, one query at a time. It may block for a bounded time; the screen shows
/// the last frame meanwhile.
pub trait Feed: Send + 'static {
    /// One frame.
    ///
    /// # Errors
    /// [`FeedError`]; the next call may succeed.
    fn frame(&mut self, query: &Query) -> Result<Frame, FeedError>;

    /// The origin of the frames, for people, without secrets.
    fn origin(&self) -> String;
}

/// Why there is no frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FeedError {
    /// The address does not answer.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// The answer took too long.
    #[error("no answer within {seconds} s")]
    TooSlow {
        /// The time limit.
        seconds: u64,
    },
    /// The board refuses the query.
    #[error("{text} ({status})")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The text of the answer.
        text: String,
    },
    /// A board of this process refuses the query.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The answer is not from a board.
    #[error("the answer is not from a board: {0}")]
    NotABoard(String),
}

impl FeedError {
    /// Whether a board refused the query.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Frame(_))
    }
}

impl Feed for Board {
    fn frame(&mut self, query: &Query) -> Result<Frame, FeedError> {
        Ok(Self::frame(self, query.clone())?)
    }

    fn origin(&self) -> String {
        "this process".to_owned()
    }
}

/// Requests frames from a board over HTTP.
#[derive(Debug)]
pub struct HttpFeed {
    agent: Agent,
    address: Address,
    timeout: Duration,
}

impl HttpFeed {
    /// A feed of the board at `address`. It sends nothing yet.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self::with_timeout(address, TIMEOUT)
    }

    /// [`HttpFeed::new`] with another time limit for each request.
    #[must_use]
    pub fn with_timeout(address: Address, timeout: Duration) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(timeout))
            // The text of a refusal is shown to the user.
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            // A board is local or behind a forwarded port: proxies cannot reach it.
            .proxy(None)
            .max_idle_connections(1)
            .user_agent(concat!("freeboard-top/", env!("CARGO_PKG_VERSION")));
        Self {
            agent: config.build().into(),
            address,
            timeout,
        }
    }

    fn failure(&self, error: ureq::Error) -> FeedError {
        match error {
            ureq::Error::Timeout(_) => FeedError::TooSlow {
                seconds: self.timeout.as_secs().max(1),
            },
            ureq::Error::Protocol(_)
            | ureq::Error::LargeResponseHeader(..)
            | ureq::Error::BodyExceedsLimit(_) => FeedError::NotABoard(error.to_string()),
            ureq::Error::Io(error) => FeedError::Unreachable(error.to_string()),
            other => FeedError::Unreachable(other.to_string()),
        }
    }
}

impl Feed for HttpFeed {
    fn frame(&mut self, query: &Query) -> Result<Frame, FeedError> {
        let parameters = serde_urlencoded::to_string(query).expect("a query has no nested fields");
        let url = self.address.url("/api/frame", &parameters);
        let mut request = self.agent.get(url);
        if let Some(token) = self.address.token() {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let mut response = request.call().map_err(|error| self.failure(error))?;
        if response.status() != 200 {
            return Err(refusal(&mut response));
        }
        let body = response.body_mut().with_config().limit(FRAME_BYTES_MAX);
        let bytes = body.read_to_vec().map_err(|error| self.failure(error))?;
        let frame: Frame = serde_json::from_slice(&bytes)
            .map_err(|error| FeedError::NotABoard(names::line(&error.to_string())))?;
        // All fields are optional between versions, but a board always sends its time.
        if frame.at_ms == 0 && frame.board == 0 {
            return Err(FeedError::NotABoard("the answer is not a frame".to_owned()));
        }
        Ok(frame)
    }

    fn origin(&self) -> String {
        self.address.to_string()
    }
}

fn refusal(response: &mut Response<Body>) -> FeedError {
    let status = response.status();
    let body = response.body_mut().with_config().limit(REFUSAL_BYTES_MAX);
    // Without a readable text the status is shown.
    let said = body.lossy_utf8(true).read_to_string().unwrap_or_default();
    let text = match names::line(&said) {
        empty if empty.is_empty() => status.canonical_reason().unwrap_or("refused").to_owned(),
        text => text,
    };
    FeedError::Refused {
        status: status.as_u16(),
        text,
    }
}
