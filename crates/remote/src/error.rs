//! Why a message was not sent, or has no reply.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::engine::EngineError;

/// A message was not accepted; the error owns it.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteTellError<M> {
    /// There is no credit, as many messages wait as the bound permits, and the policy refuses.
    #[error("the lane to the remote actor is full")]
    Full(M),
    /// The actor, its node or the connection is down. The message was never sent.
    #[error("the remote actor is down")]
    Down(M),
    /// Nobody publishes this name, or messages of another type or version are published under it.
    #[error("there is no such remote actor: {1}")]
    Unknown(M, String),
    /// The encoded message is larger than the server or the receiver takes.
    #[error("the message is too large: {1}")]
    TooLarge(M, String),
    /// The message, or the key of a directory, cannot be encoded.
    #[error("the message cannot be encoded: {1}")]
    Encoding(M, String),
    /// This node has left.
    #[error("this node has left")]
    Closed(M),
}

impl<M> RemoteTellError<M> {
    /// The message.
    pub fn into_inner(self) -> M {
        match self {
            Self::Full(msg)
            | Self::Down(msg)
            | Self::Unknown(msg, _)
            | Self::TooLarge(msg, _)
            | Self::Encoding(msg, _)
            | Self::Closed(msg) => msg,
        }
    }
}

impl<M> fmt::Debug for RemoteTellError<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(_) => formatter.write_str("Full(..)"),
            Self::Down(_) => formatter.write_str("Down(..)"),
            Self::Unknown(_, why) => write!(formatter, "Unknown(.., {why:?})"),
            Self::TooLarge(_, why) => write!(formatter, "TooLarge(.., {why:?})"),
            Self::Encoding(_, why) => write!(formatter, "Encoding(.., {why:?})"),
            Self::Closed(_) => formatter.write_str("Closed(..)"),
        }
    }
}

/// An ask of a remote actor without a reply.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteAskError {
    /// There is no credit, as many messages wait as the bound permits, and the policy refuses, or the deadline passed while
    /// the sender waited for capacity. It was not handled.
    #[error("the lane to the remote actor is full")]
    Full,
    /// The actor, its node or the connection is down. It was never sent.
    #[error("the remote actor is down: {0}")]
    Down(String),
    /// It was sent, and there is no answer: it may have been handled or not.
    #[error("no answer of the remote actor: {0}")]
    Lost(String),
    /// The deadline passed. The receiver counts the time that was left from the arrival, so a message that was held up on the way
    /// may still be handled.
    #[error("no reply before the deadline")]
    Expired,
    /// An older epoch than the receiver's, or the receiver is no longer responsible. It was not handled.
    #[error("stale: {0}")]
    Stale(String),
    /// Nobody publishes this name, or messages of another type or version are published under it.
    #[error("there is no such remote actor: {0}")]
    Unknown(String),
    /// The message or its reply is larger than the server or the receiver takes.
    #[error("too large: {0}")]
    TooLarge(String),
    /// The message was accepted by the receiver, and then shed by its lane's policy. It was not handled.
    #[error("the message was shed")]
    Shed,
    /// The handler gave no reply. It may have done a part of its work.
    #[error("the handler gave no reply")]
    NoReply,
    /// The message, the key of a directory or the reply could not be encoded or decoded.
    #[error("the encoding is wrong: {0}")]
    Encoding(String),
}

/// Why a message that a proxy has accepted got no reply; it travels as a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Failure {
    Full,
    Down(String),
    Lost(String),
    Expired,
    Stale(String),
    Unknown(String),
    TooLarge(String),
    Shed,
    NoReply,
    Encoding(String),
}

impl Failure {
    /// What the asker learns of an ask that was sent before, if this attempt was not handled.
    pub(crate) fn into_lost(self) -> Self {
        match self {
            Self::Full
            | Self::Down(_)
            | Self::Stale(_)
            | Self::Unknown(_)
            | Self::TooLarge(_)
            | Self::Shed => Self::Lost(format!("sent again: {}", RemoteAskError::from(self))),
            Self::Lost(_) | Self::Expired | Self::NoReply | Self::Encoding(_) => self,
        }
    }
}

impl From<Failure> for RemoteAskError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Full => Self::Full,
            Failure::Down(why) => Self::Down(why),
            Failure::Lost(why) => Self::Lost(why),
            Failure::Expired => Self::Expired,
            Failure::Stale(why) => Self::Stale(why),
            Failure::Unknown(why) => Self::Unknown(why),
            Failure::TooLarge(why) => Self::TooLarge(why),
            Failure::Shed => Self::Shed,
            Failure::NoReply => Self::NoReply,
            Failure::Encoding(why) => Self::Encoding(why),
        }
    }
}

impl From<RemoteAskError> for Failure {
    fn from(error: RemoteAskError) -> Self {
        match error {
            RemoteAskError::Full => Self::Full,
            RemoteAskError::Down(why) => Self::Down(why),
            RemoteAskError::Lost(why) => Self::Lost(why),
            RemoteAskError::Expired => Self::Expired,
            RemoteAskError::Stale(why) => Self::Stale(why),
            RemoteAskError::Unknown(why) => Self::Unknown(why),
            RemoteAskError::TooLarge(why) => Self::TooLarge(why),
            RemoteAskError::Shed => Self::Shed,
            RemoteAskError::NoReply => Self::NoReply,
            RemoteAskError::Encoding(why) => Self::Encoding(why),
        }
    }
}

/// A node could not join, or an actor could not be published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// A name has characters that a NATS subject cannot have.
    #[error(
        "`{0}` is no valid name: use letters, digits, `-` and `_`, at most 64, in parts separated by `/`"
    )]
    Name(String),
    /// Another node of this name is there.
    #[error("there is a node `{0}` already")]
    NameTaken(String),
    /// This node has published the name already.
    #[error("this node publishes `{0}` already")]
    Published(String),
    /// The engine refuses.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// An option is out of range.
    #[error("{0}")]
    Option(String),
    /// This node has left, or its system ends.
    #[error("this node has left")]
    Closed,
}
