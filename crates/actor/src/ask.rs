//! Asking: a message whose sender gets what the handler returns, through a slot of its own.

use std::{
    fmt,
    future::{Future, IntoFuture},
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use freeboard_meter::clock;
use freeboard_sched::TimerKey;

use crate::{
    actor::Message,
    actor_ref::{ActorRef, Patience},
    envelope::Envelope,
    error::AskError,
    receives::Receives,
    reply::ReplySlot,
    send::Delivery,
    supervision::saturating_ns,
};

/// A question that has not been sent yet: `.await` it, or [`Ask::wait`] for it.
///
/// Without a deadline it waits for as long as the actor lives; if that ends, or sheds the message,
/// the asker is told at once. A message whose asker has gone, or whose deadline has passed, is not
/// handled.
#[must_use = "nothing is asked before it is awaited"]
pub struct Ask<A: Receives<M, K>, M: Message, K> {
    to: ActorRef<A>,
    msg: M,
    lane: usize,
    timeout: Option<Duration>,
    kind: PhantomData<fn(K)>,
}

impl<A: Receives<M, K>, M: Message, K> fmt::Debug for Ask<A, M, K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Ask({:?})", self.to)
    }
}

impl<A: Receives<M, K>, M: Message, K> Ask<A, M, K> {
    pub(crate) fn new(to: ActorRef<A>, msg: M) -> Self {
        Self {
            to,
            msg,
            lane: 0,
            timeout: None,
            kind: PhantomData,
        }
    }

    /// Waits no longer than this, from when it is sent.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Asks on another lane; 0 is the most urgent.
    pub fn lane(mut self, lane: usize) -> Self {
        self.lane = lane;
        self
    }

    /// Blocks this thread until the reply is there. In a handler this blocks a worker, and for ever
    /// if the actor that is asked waits for this one: prefer an async handler there.
    ///
    /// # Errors
    /// [`AskError`]; a message that was not accepted comes back in it.
    pub fn wait(self) -> Result<A::Reply, AskError<M>> {
        let deadline = self.timeout.and_then(deadline_after);
        let (slot, receiver) = reply_slot(self.timeout);
        self.to
            .offer(self.lane, self.msg, slot, Patience::Block(deadline))?;
        match deadline {
            None => receiver.recv().map_err(|_| AskError::Shed),
            Some(deadline) => receiver.recv_deadline(deadline).map_err(|error| {
                // The actor may have seen the deadline pass a moment earlier than we did.
                if error == oneshot::RecvTimeoutError::Disconnected && Instant::now() < deadline {
                    AskError::Shed
                } else {
                    AskError::Expired
                }
            }),
        }
    }
}

/// `None` for a time beyond what the clock can tell: that is no deadline.
fn deadline_after(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}

fn reply_slot<R>(timeout: Option<Duration>) -> (ReplySlot<R>, oneshot::Receiver<R>) {
    let (sender, receiver) = oneshot::channel();
    let deadline_ns = timeout.map_or(u64::MAX, |timeout| {
        clock::now_ns().saturating_add(saturating_ns(timeout))
    });
    let slot = ReplySlot {
        sender,
        deadline_ns,
    };
    (slot, receiver)
}

impl<A: Receives<M, K>, M: Message, K> IntoFuture for Ask<A, M, K> {
    type Output = Result<A::Reply, AskError<M>>;
    type IntoFuture = Asking<A, M, A::Reply>;

    fn into_future(self) -> Self::IntoFuture {
        // Before the slot's: the asker must not be more patient than the one it asks.
        let deadline = self.timeout.and_then(deadline_after);
        let (slot, receiver) = reply_slot(self.timeout);
        let envelope = Envelope::new::<A, M, K, _>(self.msg, slot);
        Asking {
            delivery: Some(Delivery::new(self.to.clone(), self.lane, envelope)),
            to: self.to,
            receiver: receiver.into_future(),
            deadline,
            alarm: None,
            message: PhantomData,
        }
    }
}

/// The future of an [`Ask`].
#[must_use = "nothing is asked before the future is polled"]
pub struct Asking<A: crate::Actor, M, R> {
    to: ActorRef<A>,
    /// `None` once the message is accepted.
    delivery: Option<Delivery<A>>,
    receiver: oneshot::AsyncReceiver<R>,
    deadline: Option<Instant>,
    alarm: Option<TimerKey>,
    message: PhantomData<fn() -> M>,
}

impl<A: crate::Actor, M, R> fmt::Debug for Asking<A, M, R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Asking({:?})", self.to)
    }
}

impl<A: crate::Actor, M: Message, R: Send + 'static> Future for Asking<A, M, R> {
    type Output = Result<R, AskError<M>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(delivery) = this.delivery.as_mut() {
            match delivery.poll(context) {
                Poll::Ready(outcome) => {
                    this.delivery = None;
                    if let Err(refused) = outcome {
                        // SAFETY: `into_future` made the envelope with these types.
                        let refused =
                            refused.map(|it| unsafe { it.open::<M, ReplySlot<R>>() }.message);
                        return Poll::Ready(Err(refused.into()));
                    }
                }
                Poll::Pending => return this.poll_deadline(context),
            }
        }
        match Pin::new(&mut this.receiver).poll(context) {
            Poll::Ready(reply) => Poll::Ready(reply.map_err(|_| {
                // The actor may have seen the deadline pass a moment earlier than we did.
                if this
                    .deadline
                    .is_some_and(|deadline| Instant::now() >= deadline)
                {
                    AskError::Expired
                } else {
                    AskError::Shed
                }
            })),
            Poll::Pending => this.poll_deadline(context),
        }
    }
}

impl<A: crate::Actor, M, R> Asking<A, M, R> {
    /// Whether the mailbox has accepted or refused the message.
    pub(crate) fn is_settled(&self) -> bool {
        self.delivery.is_none()
    }

    fn poll_deadline<T>(&mut self, context: &Context<'_>) -> Poll<Result<T, AskError<M>>> {
        let Some(deadline) = self.deadline else {
            return Poll::Pending;
        };
        self.cancel_alarm();
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Poll::Ready(Err(AskError::Expired));
        }
        let waker = context.waker().clone();
        let timers = &self.to.cell().core().system.timers;
        let set = timers.after(left, move |_| {
            waker.wake_by_ref();
            None
        });
        match set {
            Ok(key) => {
                self.alarm = Some(key);
                Poll::Pending
            }
            // Without a timer nobody would wake us at the deadline.
            Err(_) => Poll::Ready(Err(AskError::Expired)),
        }
    }

    fn cancel_alarm(&mut self) {
        if let Some(alarm) = self.alarm.take() {
            self.to.cell().core().system.timers.cancel(alarm);
        }
    }
}

impl<A: crate::Actor, M, R> Drop for Asking<A, M, R> {
    fn drop(&mut self) {
        self.cancel_alarm();
    }
}
