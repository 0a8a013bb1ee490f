//! The traits that users implement: [`Actor`], and [`Handler`], [`AsyncHandler`] or [`DeferredHandler`] for each message
//! type.

use std::{fmt, future::Future};

use crate::{context::Context, deferred::Deferred, receives, reply::ReplyPort, start::BoxError};

/// A type that can be sent. Implemented for every `Send + 'static` type.
pub trait Message: Send + 'static {}

impl<M: Send + 'static> Message for M {}

/// State that is accessed only by the actor's own handlers, one message at a time.
///
/// An actor lives until it stops itself ([`Context::stop`]), is stopped, its parent terminates, or its
/// system shuts down. Dropping the last [`crate::ActorRef`] does not stop it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an actor",
    label = "`{Self}` does not implement `Actor`",
    note = "write `impl Actor for {Self} {{}}`; a factory that returns a `Result` belongs to `try_spawn_with` or `ChildSpec::fallible`"
)]
pub trait Actor: Sized + Send + 'static {
    /// Whether a message that a handler tells this actor ends with the deadline of that handler's own message; see
    /// [`Context::deadline`]. `false` for an actor whose every message counts, such as a byte stream or a log. Asks
    /// always have their deadline, because the caller learns what became of them.
    const TELLS_EXPIRE: bool = true;

    /// Called before the first message, and again after each restart. An actor that is stopped
    /// before its first run never starts.
    fn started(&mut self, cx: &mut Context<Self>) {
        let _ = cx;
    }

    /// [`Actor::started`] for a start that may fail: implement one of the two. An error fails the actor: its supervision
    /// decides, and [`crate::ActorRef::wait_started`] returns the error.
    ///
    /// # Errors
    /// Any error that prevents the start.
    fn try_started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.started(cx);
        Ok(())
    }

    /// Called once the actor handles no further message and its children have terminated. Not called
    /// after a panic, nor for an actor that never started.
    fn stopped(&mut self, cx: &mut Context<Self>) {
        let _ = cx;
    }
}

/// Handles messages of type `M`, running to completion.
///
/// Per message type an actor has a `Handler`, an [`AsyncHandler`] or a [`DeferredHandler`], and only one of them: the
/// compiler reports the second as a conflicting implementation (E0119), because each `Handler` is an [`AsyncHandler`]
/// too, and each [`AsyncHandler`] a [`DeferredHandler`]. Where several of these traits are in scope, a handler calls
/// another one of its actor as `Handler::handle(self, msg, cx)`.
///
/// ```
/// use freeboard_actor::{Actor, Context, Handler};
///
/// struct Counter(u64);
/// struct Add(u64);
///
/// impl Actor for Counter {}
///
/// impl Handler<Add> for Counter {
///     type Reply = u64;
///     fn handle(&mut self, msg: Add, _cx: &mut Context<Self>) -> u64 {
///         self.0 += msg.0;
///         self.0
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no `Handler` for messages of type `{M}`",
    label = "`{Self}` has no handler for `{M}`",
    note = "implement `Handler<{M}>`; to be told or asked, an `AsyncHandler<{M}>` or a `DeferredHandler<{M}>` is enough"
)]
pub trait Handler<M: Message>: Actor {
    /// The reply to an ask; `()` for messages that are only told.
    type Reply: Send + 'static;

    /// Handles one message. A panic is caught and passed to the actor's supervision.
    fn handle(&mut self, msg: M, cx: &mut Context<Self>) -> Self::Reply;

    /// The key for coalescing on a lane with the policy [`freeboard_flow::Overload::Coalesce`]: the new message
    /// replaces a queued one of the same type and key. `None` (the default) disables coalescing.
    fn coalesce_key(msg: &M) -> Option<u64> {
        let _ = msg;
        None
    }
}

/// Handles messages of type `M` with a future; the mailbox waits until the future is complete.
///
/// The future may await anything. One of up to 512 bytes costs no allocation; a larger one is boxed. With an attached tokio runtime
/// it is polled inside that runtime's context. Without one, tokio's timers and sockets panic: build
/// the system inside the runtime, or with [`crate::SystemBuilder::tokio`].
///
/// Per message type an actor has one of [`Handler`], `AsyncHandler` and [`DeferredHandler`]. The message type may not be a
/// bare type parameter, as in `impl<M: Message> AsyncHandler<M> for Relay<M>`: give it a type around it, `Relayed<M>`.
///
/// ```
/// use freeboard_actor::{Actor, AsyncHandler, Context};
///
/// struct Fetcher;
/// struct Fetch(u32);
///
/// impl Actor for Fetcher {}
///
/// impl AsyncHandler<Fetch> for Fetcher {
///     type Reply = u32;
///     async fn handle(&mut self, msg: Fetch, _cx: &mut Context<Self>) -> u32 {
///         std::future::ready(msg.0).await + 1
///     }
/// }
/// ```
pub trait AsyncHandler<M: Message>: Actor {
    /// The reply to an ask; `()` for messages that are only told.
    type Reply: Send + 'static;

    /// Handles one message. A panic is caught and passed to the actor's supervision. If the actor is
    /// stopped meanwhile, the future is dropped at its current await.
    fn handle(
        &mut self,
        msg: M,
        cx: &mut Context<Self>,
    ) -> impl Future<Output = Self::Reply> + Send;

    /// As [`Handler::coalesce_key`].
    fn coalesce_key(msg: &M) -> Option<u64> {
        let _ = msg;
        None
    }

    /// # Safety
    /// As [`receives::Receives::receive`].
    #[doc(hidden)]
    unsafe fn run<P: ReplyPort<Self::Reply>>(&mut self, msg: M, cx: &mut Context<Self>, reply: P) {
        // SAFETY: the caller's promise.
        unsafe { receives::suspend(self, msg, cx, reply) };
    }
}

/// Handles messages of type `M`, running to completion, and replies at any later time, by a [`Deferred`]: from another
/// handler, a future, a thread, or through another actor ([`Context::forward`]). The asker writes the same
/// `actor.ask(msg)` and gets `Reply`.
///
/// The message counts as handled when the handler returns. For a message that was told, the [`Deferred`] does nothing.
///
/// Per message type an actor has one of [`Handler`], [`AsyncHandler`] and `DeferredHandler`. As for an
/// [`AsyncHandler`], the message type may not be a bare type parameter.
///
/// ```
/// use std::{fs, io, thread};
///
/// use freeboard_actor::{Actor, Context, Deferred, DeferredHandler};
///
/// struct Files;
/// struct Read(String);
///
/// impl Actor for Files {}
///
/// impl DeferredHandler<Read> for Files {
///     type Reply = io::Result<String>;
///     fn handle(&mut self, read: Read, reply: Deferred<Self::Reply>, _cx: &mut Context<Self>) {
///         // The actor handles other messages meanwhile.
///         thread::spawn(move || reply.reply(fs::read_to_string(read.0)));
///     }
/// }
/// ```
pub trait DeferredHandler<M: Message>: Actor {
    /// The reply to an ask.
    type Reply: Send + 'static;

    /// Handles one message. A panic is caught and passed to the actor's supervision; unless it has replied, the asker
    /// gets an error.
    fn handle(&mut self, msg: M, reply: Deferred<Self::Reply>, cx: &mut Context<Self>);

    /// As [`Handler::coalesce_key`].
    fn coalesce_key(msg: &M) -> Option<u64> {
        let _ = msg;
        None
    }

    /// # Safety
    /// As [`receives::Receives::receive`].
    #[doc(hidden)]
    unsafe fn run<P: ReplyPort<Self::Reply>>(&mut self, msg: M, cx: &mut Context<Self>, reply: P) {
        self.handle(msg, reply.into_deferred(), cx);
    }
}

/// What a method with `#[handler(fail_on_err)]` returns: a trait for the compiler's error.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`fail_on_err` needs a method that returns a `Result`, not `{Self}`",
    label = "not a `Result`"
)]
pub trait HandlerResult: Sized {
    /// As [`Context::fail_on_err`].
    fn fail_on_err<A: Actor>(self, cx: &mut Context<A>) -> Self;
}

impl<T, E: fmt::Display> HandlerResult for Result<T, E> {
    fn fail_on_err<A: Actor>(self, cx: &mut Context<A>) -> Self {
        cx.fail_on_err(self)
    }
}
