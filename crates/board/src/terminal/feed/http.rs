//! A board behind a URL, asked again and again over HTTP.

use std::time::Duration;

use crate::{Frame, Order, Query};
use ureq::{Agent, Body, http::Response};

use super::{Feed, FeedError};
use crate::terminal::{address::Address, names};

/// How long a frame may take, from the connection to its last byte.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The largest frame.
const FRAME_BYTES_MAX: u64 = 16 << 20;
/// The most that is read of a refusal.
const REFUSAL_BYTES_MAX: u64 = 4 << 10;

/// Frames of a board behind a URL.
#[derive(Debug)]
pub struct HttpFeed {
    agent: Agent,
    address: Address,
    timeout: Duration,
}

impl HttpFeed {
    /// Frames of the board at `address`. Nothing is sent yet.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self::with_timeout(address, TIMEOUT)
    }

    /// The same, but a frame may take no longer than `timeout`.
    #[must_use]
    pub fn with_timeout(address: Address, timeout: Duration) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(timeout))
            // Texts of refusals are for the user.
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            // A board is on this machine or behind a forwarded port: no proxy knows it.
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
        let mut request = self.agent.get(self.address.url("/api/frame"));
        for (name, value) in parameters(query) {
            request = request.query(name, value);
        }
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
        // All fields may be missing, so that old and new can talk; but a board always tells the time.
        if frame.at_ms == 0 && frame.board == 0 {
            return Err(FeedError::NotABoard("its answer is no frame".to_owned()));
        }
        Ok(frame)
    }

    fn place(&self) -> String {
        self.address.to_string()
    }
}

fn refusal(response: &mut Response<Body>) -> FeedError {
    let status = response.status();
    let body = response.body_mut().with_config().limit(REFUSAL_BYTES_MAX);
    // Without a text that can be read the status has to do.
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

/// The query as parameters that are not encoded yet; what the board would assume is left out.
fn parameters(query: &Query) -> Vec<(&'static str, String)> {
    let order = match query.order {
        Order::Asc => "asc",
        Order::Desc => "desc",
    };
    let mut parameters = vec![
        ("sort", query.sort.name().to_owned()),
        ("order", order.to_owned()),
        ("limit", query.limit.to_string()),
    ];
    if query.offset > 0 {
        parameters.push(("offset", query.offset.to_string()));
    }
    if let Some(system) = &query.system {
        parameters.push(("system", system.clone()));
    }
    if !query.filter.is_empty() {
        parameters.push(("filter", query.filter.clone()));
    }
    if let Some(actor) = query.actor {
        parameters.push(("actor", actor.to_string()));
    }
    parameters
}
