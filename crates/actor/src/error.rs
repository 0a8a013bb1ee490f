//! The errors of sending and asking. A refused message comes back in the error.

use std::fmt;

/// A message was not accepted; it comes back.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TellError<M> {
    /// The lane is full and refuses.
    #[error("the mailbox is full")]
    Full(M),
    /// The actor has ended, or takes no further messages before it ends.
    #[error("the actor has stopped")]
    Closed(M),
    /// The mailbox has no lane of that number.
    #[error("the mailbox has no such lane")]
    NoLane(M),
}

impl<M> TellError<M> {
    /// The message that was not accepted.
    pub fn into_inner(self) -> M {
        match self {
            Self::Full(msg) | Self::Closed(msg) | Self::NoLane(msg) => msg,
        }
    }
}

// By hand, so that messages need not be `Debug`.
impl<M> fmt::Debug for TellError<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Full(_) => "Full(..)",
            Self::Closed(_) => "Closed(..)",
            Self::NoLane(_) => "NoLane(..)",
        })
    }
}

/// An ask without a reply.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError<M> {
    /// The lane is full and refuses.
    #[error("the mailbox is full")]
    Full(M),
    /// The actor has ended, or takes no further messages before it ends.
    #[error("the actor has stopped")]
    Closed(M),
    /// The mailbox has no lane of that number.
    #[error("the mailbox has no such lane")]
    NoLane(M),
    /// The deadline came first. If the handler had not begun, it will not.
    #[error("no reply before the deadline")]
    Expired,
    /// The message was accepted, and then shed: its actor ended, its handler panicked, or a later
    /// message took its place.
    #[error("the message was shed before it was answered")]
    Shed,
}

impl<M> AskError<M> {
    /// The message, if it was not accepted.
    pub fn into_inner(self) -> Option<M> {
        match self {
            Self::Full(msg) | Self::Closed(msg) | Self::NoLane(msg) => Some(msg),
            Self::Expired | Self::Shed => None,
        }
    }
}

impl<M> fmt::Debug for AskError<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Full(_) => "Full(..)",
            Self::Closed(_) => "Closed(..)",
            Self::NoLane(_) => "NoLane(..)",
            Self::Expired => "Expired",
            Self::Shed => "Shed",
        })
    }
}

impl<M> From<TellError<M>> for AskError<M> {
    fn from(error: TellError<M>) -> Self {
        match error {
            TellError::Full(msg) => Self::Full(msg),
            TellError::Closed(msg) => Self::Closed(msg),
            TellError::NoLane(msg) => Self::NoLane(msg),
        }
    }
}
