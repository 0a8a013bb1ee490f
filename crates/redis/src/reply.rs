//! The receiver of an outcome, and the delivery to it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_channel::oneshot;

use crate::{error::RedisError, protocol::Value, subscribers::SubscriptionChange};

/// The outcome of a command: its reply, or the reason why there is none.
pub(crate) type ReplyResult = Result<Value, RedisError>;

type Slot = oneshot::Sender<ReplyResult>;
type Call = Box<dyn FnOnce(ReplyResult) -> bool + Send>;

/// The receiver of an outcome.
pub(crate) enum Reply {
    /// A future, or a thread.
    Slot(Slot),
    /// A function. It returns whether the outcome was accepted.
    Call(Call),
    /// The connection itself, for `SUBSCRIBE` and `UNSUBSCRIBE`.
    Subscribed(Box<SubscriptionChange>),
    /// None, for the connection's own `PING`.
    Nobody,
}

/// The result of a delivery.
#[must_use]
pub(crate) enum Delivered {
    /// The receiver has it, or no longer exists.
    Taken,
    /// A mailbox refused it.
    Refused,
    /// It belongs to the connection.
    Own(SubscriptionChange, ReplyResult),
}

impl Delivered {
    /// Whether no mailbox refused it.
    pub(crate) fn is_accepted(&self) -> bool {
        !matches!(self, Self::Refused)
    }
}

impl Reply {
    /// Delivers the outcome. It may run user code, so do not call it under a lock.
    pub(crate) fn complete(self, outcome: ReplyResult) -> Delivered {
        match self {
            Self::Slot(slot) => {
                drop(slot.send(outcome));
                Delivered::Taken
            }
            Self::Call(call) => match catch_unwind(AssertUnwindSafe(|| call(outcome))) {
                Ok(true) => Delivered::Taken,
                Ok(false) => Delivered::Refused,
                Err(_) => {
                    tracing::error!("a function passed to `Request::then` or `tell` panicked");
                    Delivered::Taken
                }
            },
            Self::Subscribed(change) => Delivered::Own(*change, outcome),
            Self::Nobody => Delivered::Taken,
        }
    }
}
