//! A call that has not been made yet, and the ways to make it: those of a command of `freeboard-redis`.

use std::{
    fmt,
    future::{Future, IntoFuture},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use freeboard_actor::{Message, Recipient};
use futures_channel::oneshot;

use crate::{error::CacheError, gauges::Gauges};

/// A call that has not been made yet: `.await` it, [`Call::wait`] for it, have an actor told of its outcome,
/// or a function called with it. However it is made, it has one outcome.
#[must_use = "nothing is done before it is awaited, waited for, told or given a function"]
pub struct Call<T> {
    start: Box<dyn FnOnce(Reply<T>) + Send>,
    gauges: Arc<Gauges>,
}

/// Who waits for an outcome.
pub(crate) enum Reply<T> {
    /// A future, or a thread.
    Slot(oneshot::Sender<Result<T, CacheError>>),
    Function(Box<dyn FnOnce(Result<T, CacheError>) + Send>),
}

impl<T> Reply<T> {
    /// Hands the outcome over. Not to be called under a lock: it may be a user's function that runs, and the
    /// drop of what nobody takes.
    pub(crate) fn complete(self, outcome: Result<T, CacheError>) {
        match self {
            Self::Slot(slot) => drop(slot.send(outcome)),
            Self::Function(function) => {
                // Others wait for what comes after it.
                if catch_unwind(AssertUnwindSafe(|| function(outcome))).is_err() {
                    tracing::error!("a function that was given a cache's answer panicked");
                }
            }
        }
    }

    /// Whether nobody waits any more.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Self::Slot(slot) if slot.is_canceled())
    }
}

impl<T: 'static> Call<T> {
    pub(crate) fn new(gauges: Arc<Gauges>, start: impl FnOnce(Reply<T>) + Send + 'static) -> Self {
        Self {
            start: Box::new(start),
            gauges,
        }
    }

    /// Makes it, and blocks this thread until its outcome. In a handler this blocks a worker: prefer
    /// [`Call::tell`] there, or an async handler.
    ///
    /// # Errors
    /// [`CacheError`].
    pub fn wait(self) -> Result<T, CacheError> {
        let (sender, receiver) = oneshot::channel();
        (self.start)(Reply::Slot(sender));
        pollster::block_on(receiver).unwrap_or(Err(CacheError::Closed))
    }

    /// Makes it, and tells an actor `message` of the outcome.
    ///
    /// It is told without waiting: a mailbox that is full refuses, and the outcome is lost (a lease among it
    /// is released) but for [`crate::CacheSnapshot::replies_refused`]. An actor whose lane is as wide as
    /// what it has under way never refuses.
    pub fn tell<M: Message>(
        self,
        to: &Recipient<M>,
        message: impl FnOnce(Result<T, CacheError>) -> M + Send + 'static,
    ) {
        let (to, gauges) = (to.clone(), self.gauges);
        let tell = move |outcome| {
            if to.try_tell(message(outcome)).is_err() {
                gauges.replies_refused.add(1);
            }
        };
        (self.start)(Reply::Function(Box::new(tell)));
    }

    /// Makes it, and calls `then` with the outcome: on the worker that runs the connection to Redis, on the
    /// thread that brings the value, or on this one. It must be short; others wait behind it.
    pub fn then(self, then: impl FnOnce(Result<T, CacheError>) + Send + 'static) {
        (self.start)(Reply::Function(Box::new(then)));
    }
}

impl<T: 'static> IntoFuture for Call<T> {
    type Output = Result<T, CacheError>;
    type IntoFuture = Calling<T>;

    /// Makes it.
    fn into_future(self) -> Calling<T> {
        let (sender, receiver) = oneshot::channel();
        (self.start)(Reply::Slot(sender));
        Calling { receiver }
    }
}

/// The future of a [`Call`] that was made. Needs no runtime.
#[must_use = "the outcome is dropped with it"]
pub struct Calling<T> {
    receiver: oneshot::Receiver<Result<T, CacheError>>,
}

impl<T> Future for Calling<T> {
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

impl<T> fmt::Debug for Calling<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Calling")
    }
}
