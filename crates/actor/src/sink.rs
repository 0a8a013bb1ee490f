//! An actor as a `futures_sink::Sink`.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};

use futures_sink::Sink;

use crate::{
    actor::{Actor, Message},
    actor_ref::ActorRef,
    error::TellError,
    receives::Receives,
    recipient::Recipient,
    reserve::Reservation,
    send::RecipientSendFuture,
};

/// An actor as a `Sink` of messages, made by [`ActorRef::sink`] and [`Recipient::sink`]. A combinator such as
/// `StreamExt::forward` pulls an item only when the lane has capacity.
///
/// Ready means that capacity in the lane is reserved for the next message. The reservation is returned when the sink is
/// dropped, and expires a tenth of a second after the lane became empty. A sink waits at a full lane whatever the
/// lane's policy is. It holds at most one message that is not accepted yet, if a plain `tell` took the
/// slot; a flush waits for that. Such a message becomes a dead letter when the sink is dropped. Closing flushes, and
/// does not stop the actor.
///
/// The error is [`TellError::Closed`] if the actor has terminated, and [`TellError::NoLane`].
pub struct MessageSink<M: Message> {
    to: Recipient<M>,
    lane: usize,
    capacity: Reservation,
    /// A message that is not accepted yet.
    sending: Option<RecipientSendFuture<M>>,
}

impl<M: Message> fmt::Debug for MessageSink<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "MessageSink({})", self.to.id())
    }
}

impl<A: Actor> ActorRef<A> {
    /// This actor as a `Sink` for messages of type `M`.
    pub fn sink<M: Message>(&self) -> MessageSink<M>
    where
        A: Receives<M>,
    {
        self.recipient().sink()
    }
}

impl<M: Message> Recipient<M> {
    /// The actor as a `Sink`.
    pub fn sink(&self) -> MessageSink<M> {
        MessageSink {
            to: self.clone(),
            lane: 0,
            capacity: self.reservation(0),
            sending: None,
        }
    }
}

impl<M: Message> MessageSink<M> {
    /// Sends to another lane; 0 is the most urgent.
    #[must_use]
    pub fn lane(mut self, lane: usize) -> Self {
        self.lane = lane;
        self.capacity = self.to.reservation(lane);
        self
    }

    fn poll_sent(&mut self, context: &mut Context<'_>) -> Poll<Result<(), TellError<M>>> {
        let Some(sending) = &mut self.sending else {
            return Poll::Ready(Ok(()));
        };
        let outcome = ready!(sending.as_mut().poll(context));
        self.sending = None;
        Poll::Ready(outcome)
    }
}

impl<M: Message> Sink<M> for MessageSink<M> {
    type Error = TellError<M>;

    fn poll_ready(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), TellError<M>>> {
        ready!(self.poll_sent(context))?;
        self.capacity.poll(context).map(|_| Ok(()))
    }

    /// # Panics
    /// If the last message is not accepted yet: call it after `poll_ready`.
    fn start_send(mut self: Pin<&mut Self>, msg: M) -> Result<(), TellError<M>> {
        assert!(self.sending.is_none(), "the sink was not ready");
        let Err(msg) = self.to.try_push(self.lane, msg) else {
            self.capacity.give_back();
            return Ok(());
        };
        let grant = self.capacity.take();
        self.sending = Some(self.to.send_granted(self.lane, msg, grant));
        // A later poll replaces the waker.
        match self.poll_sent(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => Ok(()),
        }
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), TellError<M>>> {
        self.poll_sent(context)
    }

    fn poll_close(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), TellError<M>>> {
        self.poll_flush(context)
    }
}
