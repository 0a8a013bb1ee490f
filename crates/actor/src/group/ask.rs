//! Asking a group: an [`Ask`] that moves on to the next member if the chosen one has terminated.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use freeboard_meter::clock;

use super::route::{Delivery, Route};
use crate::{
    actor::Message,
    ask::{Ask, AskFuture, TimeLimit},
    error::AskError,
    receives::Receives,
};

/// An ask to a member of a group that is not sent yet: `.await` it, or call [`GroupAsk::wait`]. Otherwise as [`Ask`].
///
/// It moves on to the next member only while none has accepted it: if a member terminates with the message in its
/// mailbox, the ask fails with [`AskError::Shed`].
#[must_use = "nothing is asked before `.await` or `.wait()`"]
pub struct GroupAsk<'g, A: Receives<M>, M: Message> {
    route: Route<'g, A>,
    msg: M,
    terms: Terms,
}

/// The settings of the ask, for any member.
#[derive(Clone, Copy, Default)]
struct Terms {
    lane: usize,
    limit: TimeLimit,
}

impl Terms {
    /// The ask to the delivery's current member, with the remaining time.
    fn ask<A: Receives<M>, M: Message>(
        self,
        delivery: &Delivery<'_, A>,
        msg: M,
        started: Instant,
    ) -> Ask<A, M, A::Reply> {
        let ask = delivery.member().ask(msg).lane(self.lane);
        ask.limited(match self.limit {
            TimeLimit::After(timeout) => {
                TimeLimit::After(timeout.saturating_sub(clock::now() - started))
            }
            limit => limit,
        })
    }
}

impl<A: Receives<M>, M: Message> fmt::Debug for GroupAsk<'_, A, M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "GroupAsk({:?})", self.route)
    }
}

impl<'g, A: Receives<M>, M: Message> GroupAsk<'g, A, M> {
    pub(super) fn new(route: Route<'g, A>, msg: M) -> Self {
        Self {
            route,
            msg,
            terms: Terms::default(),
        }
    }

    /// The deadline, counted from when it is sent.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.terms.limit = TimeLimit::After(timeout);
        self
    }

    /// The deadline as a point in time.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.terms.limit = TimeLimit::at(deadline);
        self
    }

    /// Asks on another lane; 0 is the most urgent.
    pub fn lane(mut self, lane: usize) -> Self {
        self.terms.lane = lane;
        self
    }

    /// Blocks this thread until the reply arrives, as [`Ask::wait`].
    ///
    /// # Errors
    /// [`AskError`]; a message that was not accepted comes back in it.
    pub fn wait(self) -> Result<A::Reply, AskError<M>> {
        let started = clock::now();
        let mut delivery = self.route.begin();
        let mut msg = self.msg;
        loop {
            match self.terms.ask(&delivery, msg, started).wait() {
                Err(AskError::Closed(refused)) if delivery.pass() => msg = refused,
                outcome => {
                    delivery.set_accepted(!is_refusal(&outcome));
                    return outcome;
                }
            }
        }
    }
}

/// Whether no mailbox has accepted the message.
fn is_refusal<R, M>(outcome: &Result<R, AskError<M>>) -> bool {
    matches!(
        outcome,
        Err(AskError::Full(_) | AskError::Closed(_) | AskError::NoLane(_) | AskError::NoThread(_))
    )
}

impl<'g, A: Receives<M>, M: Message> IntoFuture for GroupAsk<'g, A, M> {
    type Output = Result<A::Reply, AskError<M>>;
    type IntoFuture = GroupAskFuture<'g, A, M>;

    fn into_future(self) -> Self::IntoFuture {
        let started = clock::now();
        let delivery = self.route.begin();
        let asking = self.terms.ask(&delivery, self.msg, started).into_future();
        GroupAskFuture {
            asking,
            delivery,
            terms: self.terms,
            started,
        }
    }
}

/// The future of a [`GroupAsk`].
#[must_use = "nothing is asked before the future is polled"]
pub struct GroupAskFuture<'g, A: Receives<M>, M: Message> {
    asking: AskFuture<A, M, A::Reply>,
    delivery: Delivery<'g, A>,
    terms: Terms,
    started: Instant,
}

impl<A: Receives<M>, M: Message> fmt::Debug for GroupAskFuture<'_, A, M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "GroupAskFuture({:?})", self.asking)
    }
}

impl<A: Receives<M>, M: Message> Future for GroupAskFuture<'_, A, M> {
    type Output = Result<A::Reply, AskError<M>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            match Pin::new(&mut this.asking).poll(context) {
                Poll::Ready(Err(AskError::Closed(msg))) if this.delivery.pass() => {
                    this.asking = this
                        .terms
                        .ask(&this.delivery, msg, this.started)
                        .into_future();
                }
                Poll::Ready(outcome) => {
                    this.delivery
                        .set_accepted(this.asking.is_settled() && !is_refusal(&outcome));
                    return Poll::Ready(outcome);
                }
                Poll::Pending => {
                    this.delivery.set_accepted(this.asking.is_settled());
                    return Poll::Pending;
                }
            }
        }
    }
}
