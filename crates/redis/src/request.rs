//! A command that has not been sent yet, and the ways to send it.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use freeboard_actor::{Message, Recipient, without_deadline};
use freeboard_meter::now_ns;
use freeboard_platform::{planted, thread};
use futures_channel::oneshot;

use crate::{
    command::Command,
    error::RedisError,
    from_value::FromValue,
    pool::Deadline,
    protocol::Value,
    reply::{Reply, ReplyResult},
    target::Target,
};

/// A command that has not been sent yet. Send it with `.await`, [`Request::wait`], [`Request::tell`] (the
/// outcome goes to an actor) or [`Request::then`] (the outcome goes to a function).
///
/// It has exactly one outcome, at its deadline at the latest. The default deadline is the client's timeout.
#[must_use = "a request is sent by `.await`, `wait`, `tell` or `then`"]
pub struct Request<'a, T> {
    target: &'a Target,
    command: Result<Command, RedisError>,
    deadline: Deadline,
    decode: fn(Value) -> Result<T, RedisError>,
    /// Builds the command to send when the server does not know the script.
    on_noscript: Option<Fallback>,
}

impl<'a, T> Request<'a, T> {
    #[inline]
    pub(crate) fn new(
        target: &'a Target,
        command: Result<Command, RedisError>,
        decode: fn(Value) -> Result<T, RedisError>,
    ) -> Self {
        Self {
            target,
            command,
            deadline: Deadline::After(target.timeout),
            decode,
            on_noscript: None,
        }
    }

    pub(crate) fn on_noscript(self, fallback: Fallback) -> Self {
        Self {
            on_noscript: Some(fallback),
            ..self
        }
    }

    /// Sets the deadline, relative to the call that sends it. With zero, the command is not sent.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self {
            deadline: Deadline::After(timeout),
            ..self
        }
    }

    /// Decodes the reply to another type.
    pub fn as_type<U: FromValue>(self) -> Request<'a, U> {
        self.decoded(U::from_value)
    }

    pub(crate) fn decoded<U>(self, decode: fn(Value) -> Result<U, RedisError>) -> Request<'a, U> {
        Request {
            target: self.target,
            command: self.command,
            deadline: self.deadline,
            decode,
            on_noscript: self.on_noscript,
        }
    }

    /// Sends the command, and blocks the calling thread until its outcome. To send several commands at once, send
    /// each with `into_future`, and then wait for each with [`ReplyFuture::wait`].
    ///
    /// In a handler this blocks a worker, perhaps the one that must run the connection and its deadlines.
    /// Prefer [`Request::tell`] or an async handler there, or call it inside
    /// [`freeboard_actor::Context::blocking`]. Do not call it in a function passed to [`Request::then`]: a
    /// reply on the same connection cannot arrive before that function returns.
    ///
    /// # Errors
    /// [`RedisError`].
    pub fn wait(self) -> Result<T, RedisError> {
        self.into_future().wait()
    }

    #[inline]
    fn send(self, reply: Reply) {
        let (target, deadline) = (self.target, self.deadline);
        match (self.command, self.on_noscript) {
            (Err(error), _) => {
                // Not counted as refused: the error is the caller's.
                let _ = reply.complete(Err(error));
            }
            (Ok(command), None) if planted!("lost-command-sent-again") => {
                let reply = sent_again(target.clone(), command.clone(), deadline, reply);
                target.submit(command, deadline, reply);
            }
            (Ok(command), None) => target.submit(command, deadline, reply),
            (Ok(command), Some(fallback)) => {
                let deadline = Deadline::Fixed(deadline.on_clock(now_ns()));
                let reply = with_script(target.clone(), fallback, deadline, reply);
                target.submit(command, deadline, reply);
            }
        }
    }
}

impl<T: 'static> Request<'_, T> {
    /// Sends the command, and tells an actor the `message` made of its outcome.
    ///
    /// It does not wait for capacity: a full mailbox refuses the message, which is counted in
    /// [`crate::ConnectionSnapshot::replies_refused`]. A lane with capacity for all requests in flight
    /// never refuses.
    pub fn tell<M: Message>(
        self,
        to: &Recipient<M>,
        message: impl FnOnce(Result<T, RedisError>) -> M + Send + 'static,
    ) {
        let (to, decode) = (to.clone(), self.decode);
        let tell = move |outcome: ReplyResult| {
            let message = message(outcome.and_then(decode));
            // A failure may be told at once, in the handler that sends the request.
            without_deadline(|| to.try_tell(message)).is_ok()
        };
        self.send(Reply::Call(Box::new(tell)));
    }

    /// Sends the command, and calls `then` with the outcome: on the worker that runs the connection, or on the
    /// calling thread if the command is refused at once. `then` must be short, because it delays all other
    /// commands of the connection.
    #[inline]
    pub fn then(self, then: impl FnOnce(Result<T, RedisError>) + Send + 'static) {
        let decode = self.decode;
        let call = move |outcome: ReplyResult| {
            then(outcome.and_then(decode));
            true
        };
        self.send(Reply::Call(Box::new(call)));
    }
}

/// Builds the command to send when the server answers `NOSCRIPT`.
pub(crate) type Fallback = Box<dyn FnOnce() -> Command + Send>;

/// Sends the fallback on `NOSCRIPT`, with the same deadline.
fn with_script(target: Target, fallback: Fallback, deadline: Deadline, reply: Reply) -> Reply {
    Reply::Call(Box::new(move |outcome| {
        if let Ok(Value::Error(error)) = &outcome
            && error.code() == "NOSCRIPT"
        {
            target.submit(fallback(), deadline, reply);
            return true;
        }
        reply.complete(outcome).is_accepted()
    }))
}

/// The mistake `lost-command-sent-again`.
fn sent_again(target: Target, command: Command, deadline: Deadline, reply: Reply) -> Reply {
    Reply::Call(Box::new(move |outcome| {
        if let Err(RedisError::Lost(_)) = &outcome {
            target.submit(command, deadline, reply);
            return true;
        }
        reply.complete(outcome).is_accepted()
    }))
}

fn gone() -> RedisError {
    RedisError::Lost(Arc::from("the client was closed"))
}

impl<T> IntoFuture for Request<'_, T> {
    type Output = Result<T, RedisError>;
    type IntoFuture = ReplyFuture<T>;

    /// Sends the command.
    fn into_future(self) -> ReplyFuture<T> {
        let decode = self.decode;
        let (sender, receiver) = oneshot::channel();
        self.send(Reply::Slot(sender));
        ReplyFuture { receiver, decode }
    }
}

/// The reply to a [`Request`] that was sent. It needs no runtime.
#[must_use = "dropping it drops the reply"]
pub struct ReplyFuture<T> {
    receiver: oneshot::Receiver<ReplyResult>,
    decode: fn(Value) -> Result<T, RedisError>,
}

impl<T> ReplyFuture<T> {
    /// Blocks the calling thread until the outcome, like [`Request::wait`].
    ///
    /// # Errors
    /// [`RedisError`].
    pub fn wait(self) -> Result<T, RedisError> {
        thread::block_on(self)
    }
}

impl<T> Future for ReplyFuture<T> {
    type Output = Result<T, RedisError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = Pin::new(&mut self.receiver).poll(context);
        outcome.map(|outcome| {
            outcome
                .unwrap_or_else(|_| Err(gone()))
                .and_then(self.decode)
        })
    }
}

impl<T> fmt::Debug for Request<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Request({:?})", self.command)
    }
}

impl<T> fmt::Debug for ReplyFuture<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ReplyFuture")
    }
}
