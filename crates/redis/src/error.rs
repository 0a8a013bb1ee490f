//! What can become of a command besides its reply.

use std::sync::Arc;

use crate::protocol::{ProtocolError, ServerError};

/// Why there is no reply. Each says whether the command may have been carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedisError {
    /// As many commands or bytes are under way on the connection as its credit allows. Not sent.
    #[error("too much is under way on the connection")]
    QueueFull,
    /// The command alone is more than the connection's credit. Not sent.
    #[error("the command is larger than all of the connection's credit")]
    TooLarge,
    /// The connection is down; commands fail at once until it is up again. Not sent.
    #[error("not connected: {0}")]
    Down(DownReason),
    /// The deadline came before the command was sent, or, in a cluster, before it was sent on after a node
    /// had refused it. It is not sent any more, and was not carried out.
    #[error("the deadline passed before the command was sent")]
    Expired,
    /// The deadline came after the command was sent. It may have been carried out, or may still be.
    #[error("no reply before the deadline")]
    TimedOut,
    /// The connection was lost after the command was sent. It may have been carried out.
    #[error("the connection was lost before the reply: {0}")]
    Lost(Arc<str>),
    /// The server answered what is no reply. The command may have been carried out.
    #[error("the server answered what is no RESP3: {0}")]
    Protocol(ProtocolError),
    /// The server refused. The command was not carried out, but for scripts that failed on their way.
    #[error("the server refused: {0}")]
    Server(ServerError),
    /// The transaction was not carried out: a command was refused while it was being collected, or a
    /// watched key had changed (`None`).
    #[error("the transaction was aborted{}", .0.as_ref().map_or(String::new(), |why| format!(": {why}")))]
    Aborted(Option<ServerError>),
    /// `MULTI` was refused, so the commands of the transaction were carried out one by one, but for those
    /// that were refused themselves.
    #[error("MULTI was refused, so the commands were carried out one by one: {0}")]
    NotAtomic(ServerError),
    /// The reply is not of the type that the caller wants. The command was carried out.
    #[error("the reply is {came}, not {wanted}")]
    WrongType {
        /// What the caller wants.
        wanted: &'static str,
        /// What came.
        came: &'static str,
    },
    /// The command must not be sent over a connection that others use too. Not sent.
    #[error("{0} cannot be sent over a shared connection")]
    NotAllowed(&'static str),
    /// A connection has as many subscriptions as it may, or the server is behind with ending them. Not
    /// sent.
    #[error("too many subscriptions")]
    TooManySubscriptions,
    /// Nothing to do: a pipeline or transaction without commands. Not sent.
    #[error("no commands")]
    Empty,
    /// The command's keys are of several hash slots, which no node of a cluster has to have all of: see
    /// [`crate::hash_slot`] for how keys are kept together. Not sent.
    #[error("the keys are of several hash slots")]
    CrossSlot,
    /// Nothing that a cluster can do. Not sent.
    #[error("{0} is not to be had of a cluster")]
    NotOnCluster(&'static str),
    /// The nodes of the cluster sent the command on to each other more often than
    /// [`crate::ClusterOptions::redirections`]. It was not carried out; here is where the last one sent it.
    #[error("the cluster sent it on and on: {0}")]
    TooManyRedirections(ServerError),
    /// The client's connections have ended, with their system or after its last handle. The command was not
    /// sent.
    #[error("the client has ended, or its system has")]
    Closed,
}

impl RedisError {
    /// Whether the command was certainly not sent, so that sending it again cannot do it twice.
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
                | Self::Empty
                | Self::CrossSlot
                | Self::NotOnCluster(_)
                | Self::Closed
        )
    }

    /// The server's refusal, if that is what it is.
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
    /// The first attempt is under way.
    #[error("the first connection is being made")]
    Connecting,
    /// The server cannot be reached.
    #[error("{0}")]
    Unreachable(Arc<str>),
    /// The server refused the greeting: a wrong password, an unknown database.
    #[error("the server refused the connection: {0}")]
    Refused(ServerError),
    /// The server does not know `HELLO`: it is older than Redis 6, or no Redis.
    #[error("the server does not speak RESP3, Redis 6 or later does: {0}")]
    NoResp3(ServerError),
    /// The connection was there and was lost.
    #[error("the connection was lost: {0}")]
    Lost(Arc<str>),
}

impl DownReason {
    /// Whether the server was there and said no, so that waiting will hardly help.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::NoResp3(_))
    }
}
