//! A command that has not been sent yet, and the ways to send it.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use freeboard_actor::{Message, Recipient};
use freeboard_meter::now_ns;
use futures_channel::oneshot;

use crate::{
    error::RedisError,
    from_value::FromValue,
    pool::Deadline,
    protocol::Value,
    redis::Redis,
    reply::{Handed, Reply},
    script::ScriptCall,
    unit::Unit,
};

/// A command that has not been sent yet: `.await` it, [`Request::wait`] for it, have an actor told of
/// its outcome, or a function called with it.
///
/// However it is sent, it has one outcome, at its deadline at the latest: the client's timeout, if it
/// has none of its own.
#[must_use = "nothing is sent before it is awaited, waited for, told or given a function"]
pub struct Request<'a, T> {
    redis: &'a Redis,
    unit: Result<Unit, RedisError>,
    /// The client's timeout, if it has none of its own.
    deadline: Option<Deadline>,
    /// Takes what is wanted out of the replies of several commands.
    extract: fn(Value) -> Result<Value, RedisError>,
    decode: fn(Value) -> Result<T, RedisError>,
    /// What is sent if the server does not know the script.
    on_noscript: Option<Box<ScriptCall>>,
}

impl<'a, T> Request<'a, T> {
    #[inline]
    pub(crate) fn new(
        redis: &'a Redis,
        unit: Result<Unit, RedisError>,
        decode: fn(Value) -> Result<T, RedisError>,
    ) -> Self {
        Self {
            redis,
            unit,
            deadline: None,
            extract: Ok,
            decode,
            on_noscript: None,
        }
    }

    pub(crate) fn extracting(self, extract: fn(Value) -> Result<Value, RedisError>) -> Self {
        Self { extract, ..self }
    }

    pub(crate) fn on_noscript(self, call: ScriptCall) -> Self {
        Self {
            on_noscript: Some(Box::new(call)),
            ..self
        }
    }

    /// Its deadline is so long after it is sent.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self {
            deadline: Some(Deadline::After(timeout)),
            ..self
        }
    }

    /// Its deadline. One that has passed already is not sent.
    pub fn deadline(self, deadline: Instant) -> Self {
        Self {
            deadline: Some(Deadline::At(deadline)),
            ..self
        }
    }

    /// The reply is turned into another type.
    pub fn as_type<U: FromValue>(self) -> Request<'a, U> {
        self.decoded(U::from_value)
    }

    pub(crate) fn decoded<U>(self, decode: fn(Value) -> Result<U, RedisError>) -> Request<'a, U> {
        Request {
            redis: self.redis,
            unit: self.unit,
            deadline: self.deadline,
            extract: self.extract,
            decode,
            on_noscript: self.on_noscript,
        }
    }

    /// Sends it, and blocks this thread until its outcome.
    ///
    /// In a handler this blocks a worker, which may be the one that the connection, and so the deadline,
    /// needs: prefer [`Request::tell`] there, or an async handler; if it must be, then within
    /// [`freeboard_actor::Context::blocking`]. Never in a function that was given to [`Request::then`]: on
    /// the same connection its reply cannot come before the function returns.
    ///
    /// # Errors
    /// [`RedisError`].
    pub fn wait(self) -> Result<T, RedisError> {
        let decoder = self.decoder();
        let (sender, receiver) = oneshot::channel();
        self.send(Reply::Slot(sender));
        decoder.decode(pollster::block_on(receiver).unwrap_or_else(|_| Err(gone())))
    }

    #[inline]
    fn decoder(&self) -> Decoder<T> {
        Decoder {
            extract: self.extract,
            decode: self.decode,
        }
    }

    #[inline]
    fn send(self, reply: Reply) {
        let deadline = self.redis.deadline(self.deadline);
        match (self.unit, self.on_noscript) {
            (Err(error), _) => {
                // Nobody's mailbox counts this: the caller's own mistake.
                let _ = reply.complete(Err(error));
            }
            (Ok(unit), None) => self.redis.submit(unit, deadline, reply),
            (Ok(unit), Some(call)) => {
                let deadline = Deadline::Fixed(deadline.on_clock(now_ns()));
                let reply = with_script(self.redis.clone(), call, deadline, reply);
                self.redis.submit(unit, deadline, reply);
            }
        }
    }
}

impl<T: 'static> Request<'_, T> {
    /// Sends it, and tells an actor `message` of the outcome, also of a refusal to send.
    ///
    /// It is told without waiting: a mailbox that is full refuses, and the outcome is lost but for
    /// [`crate::ConnectionSnapshot::replies_refused`]. An actor whose lane is as wide as what it has
    /// under way never refuses.
    pub fn tell<M: Message>(
        self,
        to: &Recipient<M>,
        message: impl FnOnce(Result<T, RedisError>) -> M + Send + 'static,
    ) {
        let (to, decoder) = (to.clone(), self.decoder());
        let tell = move |outcome| to.try_tell(message(decoder.decode(outcome))).is_ok();
        self.send(Reply::Call(Box::new(tell)));
    }

    /// Sends it, and calls `then` with the outcome: on the worker that runs the connection, or on this
    /// thread if it is refused at once. It must be short; all other commands of the connection wait.
    #[inline]
    pub fn then(self, then: impl FnOnce(Result<T, RedisError>) + Send + 'static) {
        let decoder = self.decoder();
        let call = move |outcome| {
            then(decoder.decode(outcome));
            true
        };
        self.send(Reply::Call(Box::new(call)));
    }
}

/// A script that the server does not know is sent whole, before the same deadline.
fn with_script(redis: Redis, call: Box<ScriptCall>, deadline: Deadline, reply: Reply) -> Reply {
    Reply::Call(Box::new(move |outcome| {
        if let Ok(Value::Error(error)) = &outcome
            && error.code() == "NOSCRIPT"
        {
            redis.submit(Unit::One(call.eval()), deadline, reply);
            return true;
        }
        !matches!(reply.complete(outcome), Handed::Refused)
    }))
}

struct Decoder<T> {
    extract: fn(Value) -> Result<Value, RedisError>,
    decode: fn(Value) -> Result<T, RedisError>,
}

impl<T> Decoder<T> {
    #[inline]
    fn decode(&self, outcome: Result<Value, RedisError>) -> Result<T, RedisError> {
        outcome.and_then(self.extract).and_then(self.decode)
    }
}

fn gone() -> RedisError {
    RedisError::Lost(Arc::from("the client has ended"))
}

impl<T> IntoFuture for Request<'_, T> {
    type Output = Result<T, RedisError>;
    type IntoFuture = Replying<T>;

    /// Sends it.
    fn into_future(self) -> Replying<T> {
        let decoder = self.decoder();
        let (sender, receiver) = oneshot::channel();
        self.send(Reply::Slot(sender));
        Replying { receiver, decoder }
    }
}

/// The future of a [`Request`] that was sent. Needs no runtime.
#[must_use = "the reply is dropped with it"]
pub struct Replying<T> {
    receiver: oneshot::Receiver<Result<Value, RedisError>>,
    decoder: Decoder<T>,
}

impl<T> Future for Replying<T> {
    type Output = Result<T, RedisError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = Pin::new(&mut self.receiver).poll(context);
        outcome.map(|outcome| self.decoder.decode(outcome.unwrap_or_else(|_| Err(gone()))))
    }
}

impl<T> fmt::Debug for Request<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Request({:?})", self.unit)
    }
}

impl<T> fmt::Debug for Replying<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Replying")
    }
}
