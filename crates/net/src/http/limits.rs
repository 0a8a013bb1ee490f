//! Bounds of a connection, and refusals of requests.

use std::time::Duration;

use http::StatusCode;

/// Bounds of one connection of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest head of a request, in bytes; default 64 KiB. Longer ones get 431.
    pub head_bytes: usize,
    /// The longest body of a request, in bytes; default 1 MiB. Longer ones get 413.
    pub body_bytes: usize,
    /// While so many bytes are queued for the peer, no further request is handled; default 64 KiB.
    pub write_bytes: usize,
    /// The time for a head, from its first byte; default 10 s. Later ones get 408.
    pub head_time: Duration,
    /// The time for a body (for each 64 KiB of one that is taken in pieces), and the time that the peer may leave written bytes unread; default 30 s.
    pub body_time: Duration,
    /// The time that a connection may be idle between requests; default 60 s. Empty lines (at most 16 before a
    /// request) do not extend it.
    pub idle_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes: 64 << 10,
            body_bytes: 1 << 20,
            write_bytes: 64 << 10,
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(30),
            idle_time: Duration::from_secs(60),
        }
    }
}

/// Why a request does not reach the handler. The connection is closed after the response, because the start of the
/// next request is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The bytes are not a valid request.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// The head exceeds [`Limits::head_bytes`], or has too many headers.
    #[error("the head is too long")]
    HeadTooLong,
    /// The body exceeds [`Limits::body_bytes`].
    #[error("the body is too long")]
    BodyTooLong,
    /// A version other than 1.0 and 1.1.
    #[error("not HTTP/1")]
    Version,
    /// A method that is not supported.
    #[error("the method is not served")]
    Method,
    /// A transfer coding other than chunked.
    #[error("an unknown transfer coding")]
    Coding,
    /// An expectation other than `100-continue`.
    #[error("an unknown expectation")]
    Expectation,
    /// The request was not complete in time.
    #[error("the request was not complete in time")]
    TimedOut,
}

impl Refusal {
    /// The status of the response.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::HeadTooLong => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::BodyTooLong => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Version => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            Self::Method | Self::Coding => StatusCode::NOT_IMPLEMENTED,
            Self::Expectation => StatusCode::EXPECTATION_FAILED,
            Self::TimedOut => StatusCode::REQUEST_TIMEOUT,
        }
    }
}
