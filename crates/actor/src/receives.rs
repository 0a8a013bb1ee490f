//! The bridge between the two handler traits and the mailbox: an actor *receives* a message type if
//! it has a [`Handler`] or an [`AsyncHandler`] for it.
//!
//! `K` tells the two apart. It is always inferred: an actor implements one of the two per message
//! type, so only one [`Receives`] fits.

use crate::{
    actor::{Actor, AsyncHandler, Handler, Message},
    context::Context,
    reply::ReplyPort,
};

/// By a [`Handler`].
#[derive(Debug)]
pub enum ByHandler {}

/// By an [`AsyncHandler`].
#[derive(Debug)]
pub enum ByAsyncHandler {}

/// An actor that handles messages of type `M`. Implement [`Handler`] or [`AsyncHandler`] instead.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle messages of type `{M}`",
    note = "implement `Handler<{M}>` or `AsyncHandler<{M}>` for it"
)]
pub trait Receives<M: Message, K>: Actor {
    /// What an ask gets.
    type Reply: Send + 'static;

    /// # Safety
    /// `self` and `cx` are an actor and its context in their cell, of which the caller is the run: a
    /// future that is held keeps pointers to both.
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

impl<M: Message, A: Handler<M>> Receives<M, ByHandler> for A {
    type Reply = <A as Handler<M>>::Reply;

    /// # Safety
    /// As [`Receives::receive`]; nothing is kept here.
    #[inline]
    unsafe fn receive<P: ReplyPort<Self::Reply>>(
        &mut self,
        msg: M,
        cx: &mut Context<Self>,
        reply: P,
    ) {
        reply.reply(self.handle(msg, cx));
    }

    fn coalesce_key_of(msg: &M) -> Option<u64> {
        <A as Handler<M>>::coalesce_key(msg)
    }
}

/// Pointers to the actor and its context that a held future keeps.
struct Borrowed<A: Actor> {
    actor: *mut A,
    cx: *mut Context<A>,
}

// SAFETY: the pointers are used by one thread at a time, the one that polls the future, which is
// the one that runs the actor; `A` is `Send`.
unsafe impl<A: Actor> Send for Borrowed<A> {}

impl<M: Message, A: AsyncHandler<M>> Receives<M, ByAsyncHandler> for A {
    type Reply = <A as AsyncHandler<M>>::Reply;

    /// # Safety
    /// As [`Receives::receive`].
    unsafe fn receive<P: ReplyPort<Self::Reply>>(
        &mut self,
        msg: M,
        cx: &mut Context<Self>,
        reply: P,
    ) {
        let borrowed = Borrowed::<A> {
            actor: self,
            cx: &raw mut *cx,
        };
        let future = async move {
            let borrowed = borrowed;
            // SAFETY: the caller of `receive` promises that actor and context are a cell's own. They
            // stay at their place for as long as the cell holds this future, which it drops before
            // either; while it holds it, nothing else borrows them: the run loop polls the future
            // and handles no message.
            let (actor, cx) = unsafe { (&mut *borrowed.actor, &mut *borrowed.cx) };
            reply.reply(AsyncHandler::handle(actor, msg, cx).await);
        };
        cx.hold(future);
    }

    fn coalesce_key_of(msg: &M) -> Option<u64> {
        <A as AsyncHandler<M>>::coalesce_key(msg)
    }
}
