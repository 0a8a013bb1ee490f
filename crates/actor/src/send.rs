//! Sending from async code: a future that waits for room.

use std::{
    future::Future,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
};

use crate::{
    actor::{Actor, Message},
    actor_ref::ActorRef,
    cell::{self, Unaccepted},
    current,
    envelope::Envelope,
    error::TellError,
    outbox,
    reply::NoReply,
    waiters::Waiter,
};

/// What [`crate::Recipient::send`] returns.
pub type Sending<M> = Pin<Box<dyn Future<Output = Result<(), TellError<M>>> + std::marker::Send>>;

/// The future of [`ActorRef::send`].
#[must_use = "nothing is sent before the future is polled"]
pub struct Send<A: Actor, M> {
    delivery: Delivery<A>,
    message: PhantomData<fn() -> M>,
}

impl<A: Actor, M> std::fmt::Debug for Send<A, M> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Send({:?})", self.delivery.to)
    }
}

impl<A: Actor, M> Send<A, M> {
    pub(crate) fn new(to: ActorRef<A>, lane: usize, envelope: Envelope) -> Self {
        Self {
            delivery: Delivery::new(to, lane, envelope),
            message: PhantomData,
        }
    }
}

impl<A: Actor, M: Message> Future for Send<A, M> {
    type Output = Result<(), TellError<M>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.delivery.poll(context).map(|outcome| {
            outcome.map_err(|refused| {
                // SAFETY: `ActorRef::send_lane` made the envelope with these types.
                refused.map(|envelope| unsafe { envelope.open::<M, NoReply>() }.message)
            })
        })
    }
}

/// An envelope on its way into a lane that may be full.
pub(crate) struct Delivery<A: Actor> {
    to: ActorRef<A>,
    lane: usize,
    envelope: Option<Envelope>,
    /// Our key among the actor's waiters.
    waiting: Option<u64>,
}

impl<M> TellError<M> {
    pub(crate) fn map<N>(self, change: impl FnOnce(M) -> N) -> TellError<N> {
        match self {
            Self::Full(msg) => TellError::Full(change(msg)),
            Self::Closed(msg) => TellError::Closed(change(msg)),
            Self::NoLane(msg) => TellError::NoLane(change(msg)),
        }
    }
}

impl<A: Actor> Delivery<A> {
    pub(crate) fn new(to: ActorRef<A>, lane: usize, envelope: Envelope) -> Self {
        Self {
            to,
            lane,
            envelope: Some(envelope),
            waiting: None,
        }
    }

    /// Ready when the lane has accepted the envelope, or refused it for good.
    ///
    /// # Panics
    /// If polled again after it was ready.
    pub(crate) fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), TellError<Envelope>>> {
        let core = self.to.cell().core();
        if let Some(key) = self.waiting {
            if core.waiters.renew(key, context.waker()) {
                return Poll::Pending;
            }
            self.waiting = None;
        }
        let mut envelope = self.envelope.take().expect("polled after it was ready");
        if self.lane >= core.mailbox.lane_count() {
            return Poll::Ready(Err(TellError::NoLane(envelope)));
        }
        let is_behind_outbox = current::has_outbox()
            && current::with(|sender| {
                let is_behind = outbox::has_letters_for(sender, core, self.lane);
                if is_behind {
                    outbox::wake_when_settled(sender, context.waker());
                }
                is_behind
            }) == Some(true);
        if is_behind_outbox {
            // What this actor told before goes first.
            self.envelope = Some(envelope);
            return Poll::Pending;
        }
        loop {
            envelope = match core.offer(self.lane, envelope) {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(Unaccepted::Full(it)) => return Poll::Ready(Err(TellError::Full(it))),
                Err(Unaccepted::Closed(it)) => return Poll::Ready(Err(TellError::Closed(it))),
                Err(Unaccepted::Wait(it)) => it,
            };
            let waiter = Waiter::Task(context.waker().clone());
            // If it cannot be registered the actor has just ended, and the next offer says so.
            if let Some(key) = core.waiters.register(core, self.lane, waiter) {
                self.waiting = Some(key);
                self.envelope = Some(envelope);
                // The signal makes the actor look at its waiters, however little room it made since.
                core.signal(cell::WAITERS);
                return Poll::Pending;
            }
        }
    }
}

impl<A: Actor> Drop for Delivery<A> {
    fn drop(&mut self) {
        if let Some(key) = self.waiting
            && !self.to.cell().core().waiters.unregister(key)
        {
            // We had been let go: another one may have our place.
            self.to.cell().core().signal(cell::WAITERS);
        }
    }
}
