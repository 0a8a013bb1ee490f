//! Asking: a message whose reply comes back through a one-shot slot of its own.

use std::{
    fmt,
    future::{Future, IntoFuture},
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use freeboard_meter::clock;
use freeboard_queue::oneshot;

use crate::{
    actor::{Actor, Message},
    actor_ref::{ActorRef, OnFull},
    alarm::Alarm,
    block::{self, GaveUp},
    current,
    envelope::{Envelope, Payload},
    error::{AskError, TellError},
    id::ActorKey,
    receives::{self, Receives},
    registry,
    reply::{
        NO_DEADLINE_NS, NoAnswer, NoReply, NoReplyUntil, ReplySlot, deadline_after, has_passed,
    },
    send::PendingSend,
    wait_graph,
};

/// The functions that send a message of type `M` with its reply slot to an actor.
struct AskRoute<A: Actor, M, R> {
    push: PushFn<A, M, R>,
    envelope: fn(M, ReplySlot<R>) -> Envelope,
    /// Tells on a lane, with a deadline or [`NO_DEADLINE_NS`].
    tell: TellFn<A, M>,
}

type TellFn<A, M> = fn(&ActorRef<A>, usize, M, u64) -> Result<(), TellError<M>>;

type PushFn<A, M, R> = fn(&ActorRef<A>, usize, M, ReplySlot<R>) -> Result<(), (M, ReplySlot<R>)>;

struct AskRouteOf<A, M>(PhantomData<fn(A, M)>);

impl<A: Receives<M>, M: Message> AskRouteOf<A, M> {
    const ROUTE: AskRoute<A, M, A::Reply> = AskRoute {
        push: ActorRef::try_push::<M, ReplySlot<A::Reply>>,
        envelope: receives::envelope::<A, M, ReplySlot<A::Reply>>,
        tell: |to, lane, msg, deadline_ns| match deadline_ns {
            NO_DEADLINE_NS => to.offer(lane, msg, NoReply, OnFull::Wait),
            deadline_ns => to.offer(lane, msg, NoReplyUntil { deadline_ns }, OnFull::Wait),
        },
    };
}

/// The time limit that the caller of an ask has set.
#[derive(Clone, Copy, Default)]
pub(crate) enum TimeLimit {
    /// None: the system's default applies.
    #[default]
    Unset,
    /// From when it is sent.
    After(Duration),
    /// On the [`freeboard_meter::clock`].
    AtNs(u64),
}

impl TimeLimit {
    pub(crate) fn at(deadline: Instant) -> Self {
        Self::AtNs(clock::from_instant(deadline))
    }

    /// The deadline on that clock of a message that is sent now, with the limit `unset` if this is none.
    #[inline]
    pub(crate) fn deadline_ns(self, unset: Option<Duration>) -> u64 {
        match self {
            Self::Unset => deadline_after(unset),
            Self::After(timeout) => deadline_after(Some(timeout)),
            Self::AtNs(deadline_ns) => deadline_ns,
        }
    }
}

/// An ask that is not sent yet: `.await` it, or call [`Ask::wait`].
///
/// Without a deadline it waits as long as the actor lives; if the actor terminates or sheds the message, the ask
/// fails at once. So does an ask in a handler that closes a circle of asks. A message whose asker is gone, or whose
/// deadline has passed, is not handled.
///
/// The deadline is the earlier one of its own ([`Ask::timeout`] or [`Ask::deadline`]; if neither is set,
/// [`crate::SystemBuilder::ask_timeout`]) and that of the message which the current handler handles
/// ([`crate::Context::deadline`]).
#[must_use = "nothing is sent before `.await`, `.wait()` or `.tell()`"]
pub struct Ask<A: Actor, M: 'static, R: 'static> {
    to: ActorRef<A>,
    msg: M,
    lane: usize,
    limit: TimeLimit,
    route: &'static AskRoute<A, M, R>,
}

impl<A: Actor, M, R> fmt::Debug for Ask<A, M, R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Ask({:?})", self.to)
    }
}

impl<A: Actor, M: Message, R: Send + 'static> Ask<A, M, R> {
    #[inline]
    pub(crate) fn new(to: ActorRef<A>, msg: M) -> Self
    where
        A: Receives<M, Reply = R>,
    {
        Self {
            to,
            msg,
            lane: 0,
            limit: TimeLimit::Unset,
            route: const { &AskRouteOf::<A, M>::ROUTE },
        }
    }

    /// The deadline, counted from when it is sent. It replaces an earlier [`Ask::deadline`].
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.limit = TimeLimit::After(timeout);
        self
    }

    /// The deadline as a point in time. It replaces an earlier [`Ask::timeout`].
    pub fn deadline(self, deadline: Instant) -> Self {
        self.limited(TimeLimit::at(deadline))
    }

    pub(crate) fn limited(mut self, limit: TimeLimit) -> Self {
        self.limit = limit;
        self
    }

    /// Asks on another lane; 0 is the most urgent.
    pub fn lane(mut self, lane: usize) -> Self {
        self.lane = lane;
        self
    }

    /// Blocks this thread until the reply arrives. While a handler blocks, another thread runs the worker's other
    /// actors. Prefer an async handler.
    ///
    /// # Errors
    /// [`AskError`]; a message that was not accepted comes back in it. In a handler it is
    /// [`AskError::NoThread`], at once, if no thread would be left to run other actors: see
    /// [`crate::SystemBuilder::threads_max`].
    pub fn wait(self) -> Result<R, AskError<M>> {
        let Ok(_section) = freeboard_sched::enter_blocking() else {
            return Err(AskError::NoThread(self.msg));
        };
        let deadline_ns = self.deadline_ns();
        let mut asking = self.begin(deadline_ns, true);
        let reply = block::until(deadline_ns, |context| asking.poll_reply(context));
        reply.unwrap_or_else(|why| Err(asking.give_up(why)))
    }

    /// Sends the message without asking for its reply, as [`ActorRef::tell_lane`]. With a deadline of its own it is not
    /// handled after the deadline, and then counts as expired.
    ///
    /// # Errors
    /// As [`ActorRef::tell_lane`].
    pub fn tell(self) -> Result<(), TellError<M>> {
        let deadline_ns = self
            .limit
            .deadline_ns(None)
            .min(current::inherited_deadline_ns::<A>());
        (self.route.tell)(&self.to, self.lane, self.msg, deadline_ns)
    }

    /// The deadline of an ask that starts now, in the handler that this thread runs, if any.
    #[inline]
    pub(crate) fn deadline_ns(&self) -> u64 {
        let unset = self.to.cell().core().system.ask_timeout;
        self.limit.deadline_ns(unset).min(current::deadline_ns())
    }

    /// [`Ask::deadline_ns`] of an ask to this actor without a deadline of its own.
    #[inline]
    pub(crate) fn deadline_unset_ns(to: &ActorRef<A>) -> u64 {
        let unset = to.cell().core().system.ask_timeout;
        deadline_after(unset).min(current::deadline_ns())
    }

    pub(crate) fn into_parts(self) -> (ActorRef<A>, usize, M) {
        (self.to, self.lane, self.msg)
    }

    /// The future of an ask whose thread blocks until it is ready, or drops it.
    pub(crate) fn into_blocking_future(self) -> AskFuture<A, M, R> {
        let deadline_ns = self.deadline_ns();
        self.begin(deadline_ns, true)
    }

    fn begin(self, deadline_ns: u64, is_blocking: bool) -> AskFuture<A, M, R> {
        AskFuture {
            stage: Stage::Unsent(self.msg, self.route, self.lane),
            to: self.to,
            receiver: oneshot::Receiver::ended(),
            deadline_ns,
            alarm: None,
            is_blocking,
            noted_by: None,
        }
    }
}

#[cfg(feature = "tower")]
impl<A: Actor, M: Message, R: Send + 'static> Ask<A, M, R> {
    /// The future of an ask with a grant of capacity, if any. It waits at a full lane whatever the lane's policy is.
    pub(crate) fn begin_reserved(
        self,
        grant: Option<crate::waiters::WaitKey>,
    ) -> AskFuture<A, M, R> {
        let deadline_ns = self.deadline_ns();
        let mut asking = self.begin(deadline_ns, false);
        let Stage::Unsent(msg, route, lane) = std::mem::replace(&mut asking.stage, Stage::Settled)
        else {
            unreachable!("an ask begins unsent");
        };
        let (sender, receiver) = oneshot::channel();
        asking.receiver = receiver;
        let slot = ReplySlot::new(sender, deadline_ns);
        let (to, envelope) = (asking.to.clone(), (route.envelope)(msg, slot));
        asking.stage =
            Stage::Waiting(PendingSend::new(to, lane, envelope, false).with_grant(grant));
        asking
    }
}

impl<A: Actor, M: Message, R: Send + 'static> IntoFuture for Ask<A, M, R> {
    type Output = Result<R, AskError<M>>;
    type IntoFuture = AskFuture<A, M, R>;

    fn into_future(self) -> Self::IntoFuture {
        let deadline_ns = self.deadline_ns();
        self.begin(deadline_ns, false)
    }
}

/// The progress of an ask.
enum Stage<A: Actor, M: 'static, R: 'static> {
    Unsent(M, &'static AskRoute<A, M, R>, usize),
    /// It waits for capacity.
    Waiting(PendingSend<A>),
    /// The mailbox has accepted or refused it.
    Settled,
}

/// The future of an [`Ask`].
#[must_use = "nothing is asked before the future is polled"]
pub struct AskFuture<A: Actor, M: 'static, R: 'static> {
    to: ActorRef<A>,
    /// Ended until the slot is made: at the first poll, or in `begin_reserved`. Dropped before the stage: an unsent sender
    /// would wake this task.
    receiver: oneshot::Receiver<R>,
    stage: Stage<A, M, R>,
    deadline_ns: u64,
    /// Set when the ask first has to wait.
    alarm: Option<Alarm>,
    is_blocking: bool,
    /// The actor whose handler awaits it, as in the wait-for graph.
    noted_by: Option<ActorKey>,
}

// Nothing in it is pinned: the stages are moved out by `replace`.
impl<A: Actor, M, R> Unpin for AskFuture<A, M, R> {}

impl<A: Actor, M, R> fmt::Debug for AskFuture<A, M, R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "AskFuture({:?})", self.to)
    }
}

impl<A: Actor, M: Message, R: Send + 'static> Future for AskFuture<A, M, R> {
    type Output = Result<R, AskError<M>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.poll_reply(context) {
            Poll::Ready(reply) => Poll::Ready(reply),
            Poll::Pending if self.deadline_ns == NO_DEADLINE_NS => Poll::Pending,
            Poll::Pending => self.poll_deadline(context.waker()),
        }
    }
}

impl<A: Actor, M: Message, R: Send + 'static> AskFuture<A, M, R> {
    /// Whether the mailbox has accepted or refused the message.
    pub(crate) fn is_settled(&self) -> bool {
        matches!(self.stage, Stage::Settled)
    }

    fn poll_reply(&mut self, context: &mut Context<'_>) -> Poll<Result<R, AskError<M>>> {
        self.forget();
        match self.poll_delivery(context) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(refused)) => return Poll::Ready(Err(refused)),
            Poll::Pending => {
                return self.note();
            }
        }
        match self.receiver.poll_recv(context) {
            Poll::Ready(Ok(reply)) => Poll::Ready(Ok(reply)),
            Poll::Ready(Err(why)) => Poll::Ready(Err(NoAnswer::of_reason(why).into_error())),
            Poll::Pending => self.note(),
        }
    }

    #[inline]
    fn poll_delivery(&mut self, context: &mut Context<'_>) -> Poll<Result<(), AskError<M>>> {
        // Most polls: nothing is moved.
        if self.is_settled() {
            return Poll::Ready(Ok(()));
        }
        match std::mem::replace(&mut self.stage, Stage::Settled) {
            Stage::Settled => {}
            Stage::Unsent(msg, route, lane) => {
                let (sender, receiver) = oneshot::channel_polled_by(context.waker());
                self.receiver = receiver;
                let slot = ReplySlot::new(sender, self.deadline_ns);
                let Err((msg, slot)) = (route.push)(&self.to, lane, msg, slot) else {
                    return Poll::Ready(Ok(()));
                };
                let envelope = (route.envelope)(msg, slot);
                let to = self.to.clone();
                let pending = PendingSend::new(to, lane, envelope, self.is_blocking);
                self.stage = Stage::Waiting(pending);
            }
            waiting @ Stage::Waiting(_) => self.stage = waiting,
        }
        let Stage::Waiting(pending) = &mut self.stage else {
            return Poll::Ready(Ok(()));
        };
        pending.poll(context).map(|outcome| {
            self.stage = Stage::Settled;
            outcome.map_err(|refused| refused.map(|envelope| self.take_message(envelope)).into())
        })
    }

    /// Takes the message back if it waits for capacity. It counts as shed if its deadline has passed.
    fn take_unsent(&mut self, is_late: bool) -> Option<M> {
        let Stage::Waiting(mut pending) = std::mem::replace(&mut self.stage, Stage::Settled) else {
            return None;
        };
        let envelope = if is_late {
            pending.give_up()
        } else {
            pending.take_back()
        };
        Some(self.take_message(envelope))
    }

    /// The message of an envelope that was not accepted. The receiver ends first: the unsent sender would wake this task.
    fn take_message(&mut self, envelope: Envelope) -> M {
        self.receiver.close();
        // SAFETY: the route made the envelope with these types.
        unsafe { envelope.open::<Payload<M, ReplySlot<R>>>() }.message
    }

    /// Gives up: a message that found no capacity comes back.
    fn give_up(&mut self, why: GaveUp) -> AskError<M> {
        self.forget();
        let is_late = why == GaveUp::DeadlinePassed;
        match self.take_unsent(is_late) {
            Some(msg) if is_late => AskError::Full(msg),
            Some(msg) => AskError::NoThread(msg),
            None => AskError::Expired,
        }
    }

    /// Pending: if a handler awaits it, the handler's actor now waits for the asked one. If that closes a circle, gives
    /// up at once: an accepted message is not handled any more.
    fn note(&mut self) -> Poll<Result<R, AskError<M>>> {
        let Some(slot) = self.receiver.head() else {
            return Poll::Pending;
        };
        // A plain handler that polls a future awaits nothing: it may keep the future.
        if !self.is_blocking && !current::polls_future() {
            return Poll::Pending;
        }
        let target = self.to.cell().core();
        let circle = current::with(|asker| {
            let asker = asker?;
            self.receiver.set_note(target.own().as_ptr().cast());
            self.noted_by = Some(asker.key());
            // SAFETY: slot and target are valid until `forget`, which comes before the receiver is polled or dropped.
            unsafe { wait_graph::add_ask(asker, target, slot) }
        });
        let Some(circle) = circle else {
            return Poll::Pending;
        };
        self.forget();
        self.receiver.close();
        let unsent = self.take_unsent(false);
        Poll::Ready(Err(AskError::Circle { circle, unsent }))
    }

    fn is_expired(&self) -> bool {
        has_passed(self.deadline_ns)
    }

    fn poll_deadline(&mut self, waker: &Waker) -> Poll<Result<R, AskError<M>>> {
        // The clock is not read the first time: an expired alarm fires at once.
        if self.alarm.is_some() && self.is_expired() {
            return Poll::Ready(Err(self.give_up(GaveUp::DeadlinePassed)));
        }
        let (system, deadline_ns) = (&*self.to.cell().core().system, self.deadline_ns);
        let timers = &system.timers;
        if let Some(alarm) = self.alarm.take() {
            if alarm.serves(timers, waker, deadline_ns) {
                self.alarm = Some(alarm);
                return Poll::Pending;
            }
            alarm.cancel(timers);
        } else if current::polls_future_of(system) {
            self.alarm = Alarm::take_over(timers, waker, deadline_ns);
        }
        if self.alarm.is_none() {
            self.alarm = Alarm::set(timers, waker, deadline_ns);
        }
        if self.alarm.is_none() {
            // Without a timer nothing would wake the asker at the deadline.
            return Poll::Ready(Err(self.give_up(GaveUp::DeadlinePassed)));
        }
        Poll::Pending
    }
}

impl<A: Actor, M, R> AskFuture<A, M, R> {
    /// The actor that awaited it no longer does.
    #[inline]
    fn forget(&mut self) {
        let (Some(key), Some(slot)) = (self.noted_by.take(), self.receiver.head()) else {
            return;
        };
        current::with(|asker| match asker {
            Some(asker) if asker.id() == key.actor_id() => asker.asking.remove(slot),
            // The handler has moved it elsewhere. If its actor is not found, it has removed its edge before it ended.
            _ => {
                if let Some(asker) = registry::find_anywhere(key) {
                    asker.asking.forget(slot);
                }
            }
        });
    }

    fn release_alarm(&mut self) {
        let Some(alarm) = self.alarm.take() else {
            return;
        };
        let system = &*self.to.cell().core().system;
        if current::polls_future_of(system) {
            alarm.spare(&system.timers);
        } else {
            alarm.cancel(&system.timers);
        }
    }
}

impl<A: Actor, M, R> Drop for AskFuture<A, M, R> {
    fn drop(&mut self) {
        self.release_alarm();
        self.forget();
    }
}
