//! Asking a group: an [`Ask`] that moves on to the next member if the chosen one has terminated.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use super::{
    limiter::Admitted,
    route::{Delivery, Limited, Route},
};
use crate::{
    actor::{Actor, Message},
    ask::{Ask, AskFuture, TimeLimit},
    error::AskError,
    metered::InFlight,
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
    /// The terms of an ask that begins now: one deadline, however many members it is offered to.
    fn begun<A: Actor>(self, delivery: &Delivery<'_, A>) -> Self {
        let unset = delivery.member().cell().core().system.ask_timeout;
        Self {
            limit: TimeLimit::AtNs(self.limit.deadline_ns(unset)),
            ..self
        }
    }

    /// The ask to the delivery's current member.
    fn ask<A: Receives<M>, M: Message>(
        self,
        delivery: &Delivery<'_, A>,
        msg: M,
    ) -> Ask<A, M, A::Reply> {
        let ask = delivery.member().ask(msg).lane(self.lane);
        ask.limited(self.limit)
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
        let mut delivery = self.route.begin();
        let terms = self.terms.begun(&delivery);
        let mut msg = self.msg;
        let Ok(admitted) = self.route.admit(self.terms.lane) else {
            return Err(AskError::Full(msg));
        };
        loop {
            match terms.ask(&delivery, msg).wait() {
                Err(AskError::Closed(refused)) if delivery.pass() => msg = refused,
                outcome => {
                    measure(admitted.as_ref(), &outcome);
                    delivery.set_accepted(!is_refusal(&outcome));
                    return outcome;
                }
            }
        }
    }
}

/// The latency of a reply counts, and that of a deadline: the reply would have taken longer.
fn measure<R, M>(admitted: Option<&Admitted>, outcome: &Result<R, AskError<M>>) {
    if let Some(admitted) = admitted
        && matches!(outcome, Ok(_) | Err(AskError::Expired))
    {
        admitted.measure();
    }
}

/// Whether no mailbox has accepted the message.
fn is_refusal<R, M>(outcome: &Result<R, AskError<M>>) -> bool {
    matches!(
        outcome,
        Err(AskError::Full(_)
            | AskError::Closed(_)
            | AskError::NoLane(_)
            | AskError::NoThread(_)
            | AskError::Circle {
                unsent: Some(_),
                ..
            })
    )
}

impl<'g, A: Receives<M>, M: Message> IntoFuture for GroupAsk<'g, A, M> {
    type Output = Result<A::Reply, AskError<M>>;
    type IntoFuture = GroupAskFuture<'g, A, M>;

    fn into_future(self) -> Self::IntoFuture {
        let delivery = self.route.begin();
        let terms = self.terms.begun(&delivery);
        let limited = match self.route.admit(self.terms.lane) {
            Ok(admitted) => {
                let ask = terms.ask(&delivery, self.msg);
                LimitedAsk::new(ask.into_future(), admitted)
            }
            Err(Limited) => LimitedAsk::refused(self.msg),
        };
        GroupAskFuture {
            limited,
            delivery,
            terms,
        }
    }
}

/// The future of a [`GroupAsk`].
#[must_use = "nothing is asked before the future is polled"]
pub struct GroupAskFuture<'g, A: Receives<M>, M: Message> {
    limited: LimitedAsk<A, M>,
    delivery: Delivery<'g, A>,
    terms: Terms,
}

/// An ask to a member of a group that may have a limit.
pub(crate) struct LimitedAsk<A: Receives<M>, M: Message> {
    asking: Asking<A, M>,
    /// Until the reply, in a group with a limit.
    admitted: Option<Admitted>,
}

impl<A: Receives<M>, M: Message> LimitedAsk<A, M> {
    /// Of an actor, or of a group without a limit.
    #[cfg(feature = "tower")]
    pub(crate) const fn unlimited(ask: AskFuture<A, M, A::Reply>) -> Self {
        Self::new(ask, None)
    }

    pub(super) const fn new(ask: AskFuture<A, M, A::Reply>, admitted: Option<Admitted>) -> Self {
        Self {
            asking: Asking::Sent(ask),
            admitted,
        }
    }

    /// The group's limit has refused the message.
    pub(super) const fn refused(msg: M) -> Self {
        Self {
            asking: Asking::Refused(Some(msg)),
            admitted: None,
        }
    }

    /// The outcome. Its latency counts for the limit.
    pub(crate) fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<A::Reply, AskError<M>>> {
        let asking = match &mut self.asking {
            Asking::Sent(asking) => asking,
            Asking::Refused(msg) => {
                let msg = msg.take().expect("polled after its result");
                return Poll::Ready(Err(AskError::Full(msg)));
            }
        };
        let polled = Pin::new(asking).poll(context);
        if let Poll::Ready(outcome) = &polled {
            measure(self.admitted.as_ref(), outcome);
        }
        polled
    }

    /// It is in flight no longer.
    pub(crate) fn leave(&mut self) {
        self.admitted = None;
    }

    /// Whether the mailbox has accepted or refused the message.
    fn is_settled(&self) -> bool {
        matches!(&self.asking, Asking::Sent(asking) if asking.is_settled())
    }
}

enum Asking<A: Receives<M>, M: Message> {
    Sent(AskFuture<A, M, A::Reply>),
    /// By the group's limit; the message until the first poll.
    Refused(Option<M>),
}

// Nothing in it is pinned, as in an ask's future.
impl<A: Receives<M>, M: Message> Unpin for GroupAskFuture<'_, A, M> {}

impl<A: Receives<M>, M: Message> fmt::Debug for GroupAskFuture<'_, A, M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.limited.asking {
            Asking::Sent(asking) => write!(formatter, "GroupAskFuture({asking:?})"),
            Asking::Refused(_) => formatter.write_str("GroupAskFuture(refused)"),
        }
    }
}

impl<A: Receives<M>, M: Message> Future for GroupAskFuture<'_, A, M> {
    type Output = Result<A::Reply, AskError<M>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            match this.limited.poll(context) {
                Poll::Ready(Err(AskError::Closed(msg))) if this.delivery.pass() => {
                    let ask = this.terms.ask(&this.delivery, msg);
                    this.limited.asking = Asking::Sent(ask.into_future());
                }
                Poll::Ready(outcome) => {
                    this.delivery
                        .set_accepted(this.limited.is_settled() && !is_refusal(&outcome));
                    this.limited.leave();
                    return Poll::Ready(outcome);
                }
                Poll::Pending => {
                    this.delivery.set_accepted(this.limited.is_settled());
                    return Poll::Pending;
                }
            }
        }
    }
}
