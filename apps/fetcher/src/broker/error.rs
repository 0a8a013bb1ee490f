//! What a broker refuses.

use std::io;

use bytes::Bytes;

/// Why a message was not published.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The queue, or what may be unconfirmed at once, is at its bound.
    #[error("the broker takes no more at the moment")]
    Full(Bytes),
    /// There is no connection; it is being made again.
    #[error("there is no connection to the broker")]
    Disconnected(Bytes),
}

impl PublishError {
    /// The body that was not published.
    #[must_use]
    pub fn into_body(self) -> Bytes {
        match self {
            Self::Full(body) | Self::Disconnected(body) => body,
        }
    }
}

/// Why a message was published without a confirm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unconfirmed {
    /// The broker did not take it.
    #[error("the broker refused the message")]
    Refused,
    /// The connection was lost first: the broker may have it or not.
    #[error("the connection was lost before the broker confirmed the message")]
    Unknown,
}

/// Why a consumer could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConsumeError {
    /// The system gives no thread.
    #[error("a consumer's thread cannot be started: {0}")]
    Thread(#[from] io::Error),
}
