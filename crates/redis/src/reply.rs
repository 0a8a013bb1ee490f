//! Who waits for an outcome, and how it gets there.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use futures_channel::oneshot;

use crate::{error::RedisError, protocol::Value};

type Slot = oneshot::Sender<Result<Value, RedisError>>;
type Call = Box<dyn FnOnce(Result<Value, RedisError>) -> bool + Send>;

/// Who waits for an outcome.
pub(crate) enum Reply {
    /// A future, or a thread.
    Slot(Slot),
    /// A function, which says whether the outcome has found its way.
    Call(Call),
    /// The connection itself, which has asked for a subscription or its end.
    Subscribed(Box<Asked>),
    /// Nobody: that there is a reply is enough.
    Nobody,
}

/// A subscription that was asked for, or its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) name: Name,
    /// Which time the name was asked for.
    pub(crate) turn: u64,
}

/// A channel or a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Name {
    Channel(Bytes),
    Pattern(Bytes),
}

/// Where an outcome has gone.
#[must_use]
pub(crate) enum Handed {
    /// To who waited for it, or who has gone meanwhile.
    Taken,
    /// To a mailbox that did not take it.
    Refused,
    /// It is the connection's own.
    Own(Asked, Result<Value, RedisError>),
}

impl Reply {
    /// Hands the outcome over. Not to be called under a lock: it may be a user's function that runs.
    pub(crate) fn complete(self, outcome: Result<Value, RedisError>) -> Handed {
        match self {
            Self::Slot(slot) => {
                drop(slot.send(outcome));
                Handed::Taken
            }
            Self::Call(call) => match catch_unwind(AssertUnwindSafe(|| call(outcome))) {
                Ok(true) => Handed::Taken,
                Ok(false) => Handed::Refused,
                Err(_) => {
                    tracing::error!("a function that was given a reply panicked");
                    Handed::Taken
                }
            },
            Self::Subscribed(asked) => Handed::Own(*asked, outcome),
            Self::Nobody => Handed::Taken,
        }
    }
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Slot(_) => "Reply::Slot",
            Self::Call(_) => "Reply::Call",
            Self::Subscribed(_) => "Reply::Subscribed",
            Self::Nobody => "Reply::Nobody",
        })
    }
}
