//! The errors of sending and asking. A refused message comes back in the error.

use std::fmt;

use crate::circle::Circle;

/// A message was not accepted; the error owns it.
///
/// To convert the error of a message that is not `Sync` into an error that must be `Sync`, drop the message:
/// `.map_err(|error| error.to_string())`.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TellError<M> {
    /// The lane or the producer's ring is full and refuses.
    #[error("the lane or ring is full")]
    Full(M),
    /// The actor has terminated, or takes no further messages before it does.
    #[error("the actor has stopped")]
    Closed(M),
    /// The mailbox has no lane of that number.
    #[error("the mailbox has no such lane")]
    NoLane(M),
    /// A handler sent more messages to full lanes than its actor's outbox holds. For many messages see
    /// [`crate::Context::send_all`]; for the bound see [`crate::SpawnOptions::outbox`].
    #[error("the outbox of the sending actor is full")]
    OutboxFull(M),
    /// A handler wanted to block, and no thread would have been left to run other actors: see
    /// [`crate::SystemBuilder::threads_max`]. Also returned when the system ends while the handler blocks.
    #[error("no thread would be left to run other actors")]
    NoThread(M),
    /// Too many asks of the actor have no reply yet: see [`crate::Context::ask`] and
    /// [`crate::SpawnOptions::pending_asks`].
    #[error("too many asks of the actor are pending")]
    TooManyAsks(M),
}

impl<M> TellError<M> {
    /// The message that was not accepted.
    pub fn into_inner(self) -> M {
        match self {
            Self::Full(msg)
            | Self::Closed(msg)
            | Self::NoLane(msg)
            | Self::OutboxFull(msg)
            | Self::NoThread(msg)
            | Self::TooManyAsks(msg) => msg,
        }
    }

    /// The same error for another message.
    pub(crate) fn map<N>(self, change: impl FnOnce(M) -> N) -> TellError<N> {
        match self {
            Self::Full(msg) => TellError::Full(change(msg)),
            Self::Closed(msg) => TellError::Closed(change(msg)),
            Self::NoLane(msg) => TellError::NoLane(change(msg)),
            Self::OutboxFull(msg) => TellError::OutboxFull(change(msg)),
            Self::NoThread(msg) => TellError::NoThread(change(msg)),
            Self::TooManyAsks(msg) => TellError::TooManyAsks(change(msg)),
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
            Self::OutboxFull(_) => "OutboxFull(..)",
            Self::NoThread(_) => "NoThread(..)",
            Self::TooManyAsks(_) => "TooManyAsks(..)",
        })
    }
}

/// An ask without a reply.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError<M> {
    /// The lane is full and refuses, or the ask found no capacity before its deadline.
    #[error("the lane is full")]
    Full(M),
    /// The actor has terminated, or takes no further messages before it does.
    #[error("the actor has stopped")]
    Closed(M),
    /// The mailbox has no lane of that number.
    #[error("the mailbox has no such lane")]
    NoLane(M),
    /// [`crate::Ask::wait`] in a handler would have blocked the last thread that could run other actors: see
    /// [`crate::SystemBuilder::threads_max`]. Also returned when the system ends before the message was accepted.
    #[error("no thread would be left to run other actors")]
    NoThread(M),
    /// The deadline passed, or the system of a waiting handler ended. If the message was not handled yet, it
    /// will not be.
    #[error("no reply before the deadline")]
    Expired,
    /// The message was accepted and then not handled: its lane's policy shed it, a later message replaced it, or its actor
    /// terminated first.
    #[error("the message was shed")]
    Shed,
    /// The message was accepted, and its handler gives no reply: it panicked, its actor was stopped while it awaited
    /// something, or its [`crate::Deferred`] was dropped. It may have done a part of its work.
    #[error("the handler gave no reply")]
    NoReply,
    /// The handler would wait for ever: the asked actor waits, directly or through others, for the reply of the asking
    /// one. At once, also if one of these asks has a deadline. The message is not handled, unless its handler has begun;
    /// if its asker still waited for capacity, it comes back. An actor that awaits several asks at the same time is in no
    /// circle, from the second one on: the first that it polls may still fail so.
    #[error("the actors ask each other in a circle: {circle}")]
    Circle {
        /// The actors.
        circle: Box<Circle>,
        /// The message, if it was not accepted.
        unsent: Option<M>,
    },
}

impl<M> AskError<M> {
    /// The message, if it was not accepted.
    pub fn into_inner(self) -> Option<M> {
        match self {
            Self::Full(msg) | Self::Closed(msg) | Self::NoLane(msg) | Self::NoThread(msg) => {
                Some(msg)
            }
            Self::Circle { unsent, .. } => unsent,
            Self::Expired | Self::Shed | Self::NoReply => None,
        }
    }
}

impl<M> fmt::Debug for AskError<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Full(_) => "Full(..)",
            Self::Closed(_) => "Closed(..)",
            Self::NoLane(_) => "NoLane(..)",
            Self::NoThread(_) => "NoThread(..)",
            Self::Expired => "Expired",
            Self::Shed => "Shed",
            Self::NoReply => "NoReply",
            Self::Circle { circle, .. } => return write!(formatter, "{circle:?}"),
        })
    }
}

impl<M> From<TellError<M>> for AskError<M> {
    fn from(error: TellError<M>) -> Self {
        match error {
            // Only asks whose reply comes as a message go into an outbox.
            TellError::Full(msg) | TellError::OutboxFull(msg) | TellError::TooManyAsks(msg) => {
                Self::Full(msg)
            }
            TellError::Closed(msg) => Self::Closed(msg),
            TellError::NoLane(msg) => Self::NoLane(msg),
            TellError::NoThread(msg) => Self::NoThread(msg),
        }
    }
}
