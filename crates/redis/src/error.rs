//! The outcomes of a command that are not a reply, and the reasons why a connection is down.

use std::sync::Arc;

use freeboard_actor::SpawnError;

use crate::{
    options::RedisOptionsError,
    protocol::{ProtocolError, ServerError},
};

/// Why there is no reply. Each variant says whether the command may have been executed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedisError {
    /// The connection's credit of commands or bytes is used up. Not sent.
    #[error("the connection's credit is used up")]
    QueueFull,
    /// The command alone exceeds the connection's credit. Not sent.
    #[error("the command exceeds the connection's credit")]
    TooLarge,
    /// The connection is down. Commands fail at once until it is up again. Not sent.
    #[error("not connected: {0}")]
    Down(DownReason),
    /// The deadline passed before the command was sent or, in a cluster, before it was redirected. Not
    /// executed.
    #[error("the deadline passed before the command was sent")]
    Expired,
    /// The deadline passed after the command was sent. It may have been executed, or may be executed later.
    #[error("no reply before the deadline")]
    TimedOut,
    /// The connection was lost after the command was sent. It may have been executed.
    #[error("the connection was lost before the reply: {0}")]
    Lost(Arc<str>),
    /// The server sent bytes that are not RESP3. The command may have been executed.
    #[error("the server sent malformed RESP3: {0}")]
    Protocol(ProtocolError),
    /// The server returned an error. The command was not executed; a script may have run in part.
    #[error("the server refused: {0}")]
    Server(ServerError),
    /// The reply does not have the wanted type. The command was executed.
    #[error("the reply is {came}, not {wanted}")]
    WrongType {
        /// The wanted type.
        wanted: &'static str,
        /// The type of the reply.
        came: &'static str,
    },
    /// The command must not be sent over a shared connection. Not sent.
    #[error("{0} cannot be sent over a shared connection")]
    NotAllowed(&'static str),
    /// The connection has the maximum of subscriptions, or too many that the server has not ended yet. Not
    /// sent.
    #[error("too many subscriptions")]
    TooManySubscriptions,
    /// The keys belong to several hash slots, which may be on several nodes; see [`crate::hash_slot`]. Not
    /// sent.
    #[error("the keys belong to several hash slots")]
    CrossSlot,
    /// The cluster redirected the command more than five times. Not
    /// executed. Contains the last redirection.
    #[error("too many redirections: {0}")]
    TooManyRedirections(ServerError),
    /// The client's connections are closed, because its system was shut down. Not sent.
    #[error("the client or its system was shut down")]
    Closed,
}

impl RedisError {
    /// Whether the command was certainly not sent, so that a retry cannot execute it twice.
    #[must_use]
    pub const fn is_unsent(&self) -> bool {
        matches!(
            self,
            Self::QueueFull
                | Self::TooLarge
                | Self::Down(_)
                | Self::Expired
                | Self::NotAllowed(_)
                | Self::TooManySubscriptions
                | Self::CrossSlot
                | Self::Closed
        )
    }

    /// The server's error, if it is one.
    #[must_use]
    pub const fn server(&self) -> Option<&ServerError> {
        match self {
            Self::Server(error) => Some(error),
            _ => None,
        }
    }
}

/// Why a connection is down.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DownReason {
    /// The first attempt has not finished.
    #[error("still connecting")]
    Connecting,
    /// The server cannot be reached.
    #[error("{0}")]
    Unreachable(Arc<str>),
    /// The server refused the greeting, for example because of a wrong password.
    #[error("the server refused the connection: {0}")]
    Refused(ServerError),
    /// The server does not support `HELLO 3`; Redis 6 and later do.
    #[error("the server does not support RESP3 (Redis 6 and later do): {0}")]
    NoResp3(ServerError),
    /// The connection was lost.
    #[error("the connection was lost: {0}")]
    Lost(Arc<str>),
}

impl DownReason {
    /// Whether the server refused the client, so that a retry is unlikely to succeed.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::NoResp3(_))
    }
}

/// Why a client could not be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The options are invalid.
    #[error(transparent)]
    Options(#[from] RedisOptionsError),
    /// The actor of a connection could not be spawned.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}
