//! A call that has not been made yet, and the ways to make it, which are those of `freeboard_redis::Request`.

use std::{
    fmt,
    future::{Future, IntoFuture},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use freeboard_actor::{Message, Recipient, without_deadline};
use freeboard_platform::thread;
use futures_channel::oneshot;

use crate::{error::CacheError, metrics::CacheGauges};

/// A call that has not been made yet. Make it with `.await`, [`Call::wait`], [`Call::tell`] (the outcome goes to an
/// actor) or [`Call::then`] (the outcome goes to a function). It has exactly one outcome.
#[must_use = "a call is made by `.await`, `wait`, `tell` or `then`"]
pub struct Call<T> {
    start: Box<dyn FnOnce(Reply<T>) + Send>,
    gauges: Arc<CacheGauges>,
}

/// The receiver of an outcome.
pub(crate) enum Reply<T> {
    /// A future, or a thread.
    Slot(oneshot::Sender<Result<T, CacheError>>),
    Function(Box<dyn FnOnce(Result<T, CacheError>) + Send>),
}

impl<T> Reply<T> {
    /// Delivers the outcome. It may run user code, also by dropping the outcome, so do not call it under a lock.
    pub(crate) fn complete(self, outcome: Result<T, CacheError>) {
        match self {
            Self::Slot(slot) => drop(slot.send(outcome)),
            Self::Function(function) => {
                // Other callers depend on the code after this.
                if catch_unwind(AssertUnwindSafe(|| function(outcome))).is_err() {
                    tracing::error!("a function passed to `Call::then` or `tell` panicked");
                }
            }
        }
    }

    /// Whether the receiver no longer exists.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Self::Slot(slot) if slot.is_canceled())
    }
}

impl<T: 'static> Call<T> {
    pub(crate) fn new(
        gauges: Arc<CacheGauges>,
        start: impl FnOnce(Reply<T>) + Send + 'static,
    ) -> Self {
        Self {
            start: Box::new(start),
            gauges,
        }
    }

    /// Makes the call, and blocks the calling thread until its outcome. In a handler this blocks a worker; prefer
    /// [`Call::tell`] or an async handler there.
    ///
    /// # Errors
    /// [`CacheError`].
    pub fn wait(self) -> Result<T, CacheError> {
        let (sender, receiver) = oneshot::channel();
        (self.start)(Reply::Slot(sender));
        thread::block_on(receiver).unwrap_or(Err(CacheError::Closed))
    }

    /// Makes the call, and tells an actor the `message` made of its outcome.
    ///
    /// It does not wait for capacity: a full mailbox refuses the message, which is counted in
    /// [`crate::CacheSnapshot::replies_refused`]; a lease in it is released. A lane with capacity for all calls in
    /// flight never refuses.
    pub fn tell<M: Message>(
        self,
        to: &Recipient<M>,
        message: impl FnOnce(Result<T, CacheError>) -> M + Send + 'static,
    ) {
        let (to, gauges) = (to.clone(), self.gauges);
        let tell = move |outcome| {
            let message = message(outcome);
            // It may be told at once, in the handler that makes the call.
            if without_deadline(|| to.try_tell(message)).is_err() {
                gauges.replies_refused.add(1);
            }
        };
        (self.start)(Reply::Function(Box::new(tell)));
    }

    /// Makes the call, and calls `then` with the outcome: on the worker that runs the connection to Redis, on the
    /// thread that fills the value, or on the calling thread. `then` must be short, because it delays other callers.
    pub fn then(self, then: impl FnOnce(Result<T, CacheError>) + Send + 'static) {
        (self.start)(Reply::Function(Box::new(then)));
    }
}

impl<T: 'static> IntoFuture for Call<T> {
    type Output = Result<T, CacheError>;
    type IntoFuture = CallFuture<T>;

    /// Makes the call.
    fn into_future(self) -> CallFuture<T> {
        let (sender, receiver) = oneshot::channel();
        (self.start)(Reply::Slot(sender));
        CallFuture { receiver }
    }
}

/// The outcome of a [`Call`] that was made. It needs no runtime.
#[must_use = "dropping it drops the outcome"]
pub struct CallFuture<T> {
    receiver: oneshot::Receiver<Result<T, CacheError>>,
}

impl<T> Future for CallFuture<T> {
    type Output = Result<T, CacheError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = Pin::new(&mut self.receiver).poll(context);
        outcome.map(|outcome| outcome.unwrap_or(Err(CacheError::Closed)))
    }
}

impl<T> fmt::Debug for Call<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Call")
    }
}

impl<T> fmt::Debug for CallFuture<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CallFuture")
    }
}
