//! The bridge between the three handler traits and the mailbox: an actor *receives* a message type if
//! it has a [`Handler`], an [`AsyncHandler`] or a [`DeferredHandler`] for it.
//!
//! Each [`Handler`] is an [`AsyncHandler`] too, and each [`AsyncHandler`] a [`DeferredHandler`]. Therefore the compiler
//! rejects an actor that implements two of them for one message type.

use std::{
    any::{Any, TypeId},
    future::{Future, poll_fn},
    marker::PhantomData,
    pin::pin,
    task::{Context as TaskContext, Poll, Waker},
};

#[cfg(feature = "spans")]
use crate::span::SenderSpan;
use crate::{
    actor::{Actor, AsyncHandler, DeferredHandler, Handler, Message},
    context::Context,
    current::{self, DeadlineScope},
    deferred::Deferred,
    envelope::{Envelope, Handled, Payload, PayloadSlot, Route, is_short, payload_at, take},
    reply::{NO_DEADLINE_NS, ReplyPort},
};

/// An actor that handles messages of type `M`. Implement [`Handler`], [`AsyncHandler`] or [`DeferredHandler`] instead:
/// either is enough.
///
/// Generic code over actors takes it as its bound, or a [`crate::Recipient`], which hides the actor's type as well.
///
/// ```
/// use freeboard_actor::{Actor, ActorRef, AskError, Context, Handler, Message, Receives, Recipient, System};
///
/// /// Any actor that handles `Q` and replies with a number, by whichever kind of handler.
/// fn sum<A, Q>(actors: &[ActorRef<A>], question: Q) -> Result<u64, AskError<Q>>
/// where
///     Q: Message + Clone,
///     A: Receives<Q, Reply = u64>,
/// {
///     actors.iter().map(|actor| actor.ask(question.clone()).wait()).sum()
/// }
///
/// /// Actors of different types.
/// fn tell_all<M: Message + Clone>(recipients: &[Recipient<M>], msg: &M) -> usize {
///     let accepted = |to: &&Recipient<M>| to.tell(msg.clone()).is_ok();
///     recipients.iter().filter(accepted).count()
/// }
///
/// struct Cell(u64);
///
/// #[derive(Clone)]
/// struct Get;
///
/// impl Actor for Cell {}
///
/// impl Handler<Get> for Cell {
///     type Reply = u64;
///     fn handle(&mut self, _msg: Get, _cx: &mut Context<Self>) -> u64 {
///         self.0
///     }
/// }
///
/// let system = System::builder().workers(1).build()?;
/// let cells = [system.spawn(Cell(1)), system.spawn(Cell(2))];
/// assert_eq!(sum(&cells, Get)?, 3);
/// assert_eq!(tell_all(&cells.map(|it| it.recipient::<Get>()), &Get), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle messages of type `{M}`",
    label = "`{Self}` has no handler for `{M}`",
    note = "implement `Handler<{M}>`, `AsyncHandler<{M}>` or `DeferredHandler<{M}>` for `{Self}`"
)]
pub trait Receives<M>: Actor {
    /// The reply to an ask.
    type Reply: Send + 'static;

    /// # Safety
    /// `self` and `cx` are in their cell, and the caller runs the actor: a suspended future keeps pointers to both.
    #[doc(hidden)]
    unsafe fn receive<P: ReplyPort<Self::Reply>>(
        &mut self,
        msg: M,
        cx: &mut Context<Self>,
        reply: P,
    );

    #[doc(hidden)]
    fn coalesce_key_of(msg: &M) -> Option<u64>;
}

impl<M: Message, A: DeferredHandler<M>> Receives<M> for A {
    type Reply = <A as DeferredHandler<M>>::Reply;

    /// # Safety
    /// As [`DeferredHandler::run`].
    #[inline]
    unsafe fn receive<P: ReplyPort<Self::Reply>>(
        &mut self,
        msg: M,
        cx: &mut Context<Self>,
        reply: P,
    ) {
        // SAFETY: the caller's promise.
        unsafe { DeferredHandler::run(self, msg, cx, reply) };
    }

    fn coalesce_key_of(msg: &M) -> Option<u64> {
        <A as DeferredHandler<M>>::coalesce_key(msg)
    }
}

// The parameters' names are for the errors that report these implementations as the conflicting ones.
impl<ActorWithHandler: AsyncHandler<M>, M: Message> DeferredHandler<M> for ActorWithHandler {
    type Reply = <Self as AsyncHandler<M>>::Reply;

    /// Only user code calls it: the run calls [`DeferredHandler::run`].
    fn handle(&mut self, msg: M, reply: Deferred<Self::Reply>, cx: &mut Context<Self>) {
        let future = pin!(AsyncHandler::handle(self, msg, cx));
        let Poll::Ready(result) = future.poll(&mut TaskContext::from_waker(Waker::noop())) else {
            panic!("an async handler that has to wait cannot be called as a deferred one");
        };
        reply.reply(result);
    }

    fn coalesce_key(msg: &M) -> Option<u64> {
        <Self as AsyncHandler<M>>::coalesce_key(msg)
    }

    /// # Safety
    /// As [`AsyncHandler::run`].
    #[inline]
    unsafe fn run<P: ReplyPort<Self::Reply>>(&mut self, msg: M, cx: &mut Context<Self>, reply: P) {
        // SAFETY: the caller's promise.
        unsafe { AsyncHandler::run(self, msg, cx, reply) };
    }
}

impl<ActorWithHandler: Handler<M>, M: Message> AsyncHandler<M> for ActorWithHandler {
    type Reply = <Self as Handler<M>>::Reply;

    async fn handle(&mut self, msg: M, cx: &mut Context<Self>) -> Self::Reply {
        Handler::handle(self, msg, cx)
    }

    fn coalesce_key(msg: &M) -> Option<u64> {
        <Self as Handler<M>>::coalesce_key(msg)
    }

    /// # Safety
    /// As [`AsyncHandler::run`]; nothing is kept here.
    #[inline]
    unsafe fn run<P: ReplyPort<Self::Reply>>(&mut self, msg: M, cx: &mut Context<Self>, reply: P) {
        reply.reply(Handler::handle(self, msg, cx));
    }
}

/// The envelope of a message with its reply port.
#[inline]
pub(crate) fn envelope<A, M, P>(message: M, reply: P) -> Envelope
where
    M: Message,
    A: Receives<M>,
    P: ReplyPort<A::Reply>,
{
    // SAFETY: the route is that of this payload.
    unsafe { Envelope::new(RouteOf::<A, M, P>::ROUTE, Payload::new(message, reply)) }
}

/// The route of messages of type `M` with the reply port `P` to an actor of type `A`.
pub(crate) struct RouteOf<A, M, P>(PhantomData<fn(A, M, P)>);

impl<A, M, P> RouteOf<A, M, P>
where
    M: Message,
    A: Receives<M>,
    P: ReplyPort<A::Reply>,
{
    pub(crate) const ROUTE: &Route = &Route {
        is_short: is_short::<Payload<M, P>>(),
        handle: Self::handle,
        into_message: Self::into_message,
        discard: Self::discard,
        message: Self::message,
        coalesce_key: Self::coalesce_key,
        #[cfg(feature = "spans")]
        take_span: Payload::<M, P>::take_span,
        message_type: TypeId::of::<M>,
        message_type_name: std::any::type_name::<M>,
    };

    /// # Safety
    /// As the field of [`Route`].
    unsafe fn handle(payload: *mut PayloadSlot, actor: *mut (), context: *mut ()) -> Handled {
        // SAFETY: the route was made for this type; the caller lets us take the payload.
        let taken = unsafe { take::<Payload<M, P>>(payload) };
        if let Some(reason) = taken.reply.unwanted() {
            return Handled::Unwanted(reason);
        }
        #[cfg(feature = "testing")]
        crate::testing::before_handler::<M>();
        // SAFETY: the caller's promise.
        let (actor, context) =
            unsafe { (&mut *actor.cast::<A>(), &mut *context.cast::<Context<A>>()) };
        // Without a deadline the scope is not entered: a port without one returns a constant.
        let deadline_ns = taken.reply.deadline_ns();
        let _scope = (deadline_ns != NO_DEADLINE_NS).then(|| DeadlineScope::enter(deadline_ns));
        // SAFETY: they are the cell's own, lent by its run.
        unsafe { actor.receive(taken.message, context, taken.reply) };
        Handled::Done
    }

    /// # Safety
    /// As the field of [`Route`].
    unsafe fn into_message(payload: *mut PayloadSlot) -> Box<dyn Any + Send> {
        // SAFETY: as in `handle`.
        let taken = unsafe { take::<Payload<M, P>>(payload) };
        taken.reply.shed();
        Box::new(taken.message)
    }

    /// # Safety
    /// As the field of [`Route`].
    unsafe fn discard(payload: *mut PayloadSlot) {
        // SAFETY: as in `handle`.
        let taken = unsafe { take::<Payload<M, P>>(payload) };
        drop(taken.message);
        taken.reply.shed();
    }

    /// # Safety
    /// As the field of [`Route`].
    unsafe fn message(payload: *const PayloadSlot) -> *const () {
        // SAFETY: the route was made for this type; the caller sees to it that the payload is there.
        unsafe { (&raw const (*payload_at::<Payload<M, P>>(payload)).message).cast() }
    }

    /// # Safety
    /// As the field of [`Route`].
    unsafe fn coalesce_key(payload: *const PayloadSlot) -> Option<u64> {
        if !P::IS_TELL {
            return None;
        }
        // SAFETY: as in `message`.
        A::coalesce_key_of(unsafe { &(*payload_at::<Payload<M, P>>(payload)).message })
    }
}

/// The route of a function call on the actor, which is not a message.
struct ActionRoute<A>(PhantomData<fn(A)>);

type Action<A> = fn(&mut A, &mut Context<A>);

impl<A: Actor> ActionRoute<A> {
    const ROUTE: &Route = &Route {
        is_short: is_short::<Action<A>>(),
        handle: Self::handle,
        into_message: |_| Box::new(()),
        discard: |_| (),
        message: |payload| payload.cast(),
        coalesce_key: |_| None,
        #[cfg(feature = "spans")]
        take_span: |_| SenderSpan::none(),
        message_type: TypeId::of::<Action<A>>,
        message_type_name: std::any::type_name::<Action<A>>,
    };

    /// # Safety
    /// As [`Route::handle`].
    unsafe fn handle(payload: *mut PayloadSlot, actor: *mut (), context: *mut ()) -> Handled {
        // SAFETY: the route was made for this type, and the caller keeps the promises of a route.
        let (action, actor, context) = unsafe {
            (
                take::<Action<A>>(payload),
                &mut *actor.cast::<A>(),
                &mut *context.cast::<Context<A>>(),
            )
        };
        action(actor, context);
        Handled::Done
    }
}

/// The envelope of a call on the actor itself.
pub(crate) fn action<A: Actor>(action: Action<A>) -> Envelope {
    // SAFETY: the route is that of this payload.
    unsafe { Envelope::new(ActionRoute::<A>::ROUTE, action) }
}

/// Pointers to the actor and its context, kept by a suspended future.
struct Borrowed<A: Actor> {
    actor: *mut A,
    cx: *mut Context<A>,
}

// SAFETY: the pointers are used by one thread at a time, the one that polls the future, which is
// the one that runs the actor; `A` is `Send`.
unsafe impl<A: Actor> Send for Borrowed<A> {}

/// Handles a message by a future, which is stored in the context.
///
/// # Safety
/// As [`Receives::receive`].
pub(crate) unsafe fn suspend<M: Message, A: AsyncHandler<M>>(
    actor: &mut A,
    msg: M,
    cx: &mut Context<A>,
    reply: impl ReplyPort<<A as AsyncHandler<M>>::Reply>,
) {
    let borrowed = Borrowed::<A> {
        actor,
        cx: &raw mut *cx,
    };
    let deadline_ns = reply.deadline_ns();
    let future = async move {
        let borrowed = borrowed;
        // SAFETY: the caller promises that actor and context are a cell's own. They are not moved for as long
        // as the cell holds this future, which it drops before either; while it holds it, nothing else borrows them:
        // the run loop polls the future and handles no message.
        let (actor, cx) = unsafe { (&mut *borrowed.actor, &mut *borrowed.cx) };
        reply.reply(AsyncHandler::handle(actor, msg, cx).await);
    };
    if deadline_ns == NO_DEADLINE_NS {
        cx.suspend(future);
    } else {
        cx.suspend(within_deadline(deadline_ns, future));
    }
}

/// Sets the deadline around each poll of `future`, until the future clears it.
async fn within_deadline<F: Future>(mut deadline_ns: u64, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(move |context| {
        let _scope = DeadlineScope::enter(deadline_ns);
        let polled = future.as_mut().poll(context);
        deadline_ns = current::deadline_ns();
        polled
    })
    .await
}

/// No message: it has no values, and is not `Send`.
///
/// Every actor receives two types of it, for the compiler's errors alone. The compiler resolves the message type of
/// `actor.tell(msg)` before it reads `msg`: it takes the only type that the actor receives, and reports the type `_` if
/// there is none. With these two the type is ambiguous until `msg` is read, so that an error names the type of `msg`.
struct Unknown<const N: u8>(&'static dyn NoValue);

/// Local, because only of a `dyn` of a local trait the compiler knows that it is never `Send`, nor `Unknown` a
/// message. Nothing implements it.
trait NoValue {
    fn absurd(&self) -> !;
}

macro_rules! receives_unknown {
    ($($number:literal)*) => {$(
        #[doc(hidden)]
        impl<A: Actor> Receives<Unknown<$number>> for A {
            type Reply = ();

            /// # Safety
            /// As [`Receives::receive`]; no such message exists.
            unsafe fn receive<P: ReplyPort<()>>(
                &mut self,
                msg: Unknown<$number>,
                _cx: &mut Context<Self>,
                _reply: P,
            ) {
                msg.0.absurd()
            }

            fn coalesce_key_of(msg: &Unknown<$number>) -> Option<u64> {
                msg.0.absurd()
            }
        }
    )*};
}

receives_unknown!(0 1);
