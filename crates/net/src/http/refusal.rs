//! Requests that are not answered by the handler.

use http::StatusCode;

/// Why a request is refused. The connection is closed after the answer, since it is not known where the
/// next request would begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It is not HTTP.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// Its head is longer than the limit.
    #[error("the head is too long")]
    HeadTooLong,
    /// Its body is longer than the limit.
    #[error("the body is too long")]
    BodyTooLong,
    /// A version other than 1.0 and 1.1.
    #[error("not HTTP/1")]
    Version,
    /// A method that is not served.
    #[error("the method is not served")]
    Method,
    /// A transfer coding other than chunked.
    #[error("an unknown transfer coding")]
    Coding,
    /// An expectation other than `100-continue`.
    #[error("an unknown expectation")]
    Expectation,
    /// It did not come in time.
    #[error("it did not come in time")]
    TimedOut,
}

impl Refusal {
    /// The status it is answered with.
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
