//! Sending to a lane that may be full: a future, and a thread that blocks, wait for capacity.

use std::{
    future::Future,
    hint, mem,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use freeboard_flow::{Overload, ShedReason};
use freeboard_platform::thread;

use crate::{
    actor::{Actor, Message},
    actor_ref::ActorRef,
    block,
    core::{self, Core, Unaccepted},
    current,
    envelope::{Envelope, Payload},
    error::TellError,
    outbox,
    receives::{self, Receives},
    reply::{NO_DEADLINE_NS, NoReply, NoReplyUntil, ReplyPort},
    waiters::{Wait, WaitKey, Waiter},
};

/// The future of [`crate::Recipient::send`].
pub type RecipientSendFuture<M> = Pin<Box<dyn Future<Output = Result<(), TellError<M>>> + Send>>;

/// The future of [`ActorRef::send`].
#[must_use = "nothing is sent before the future is polled"]
pub struct SendFuture<A: Actor, M> {
    pending: PendingSend<A>,
    /// Takes the message out of the envelope.
    open: fn(Envelope) -> M,
}

impl<A: Actor, M> std::fmt::Debug for SendFuture<A, M> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "SendFuture({:?})", self.pending.to)
    }
}

impl<A: Receives<M>, M: Message> SendFuture<A, M> {
    pub(crate) fn new(to: ActorRef<A>, lane: usize, msg: M) -> Self {
        match current::inherited_deadline_ns::<A>() {
            NO_DEADLINE_NS => Self::with_port(to, lane, msg, NoReply),
            deadline_ns => Self::with_port(to, lane, msg, NoReplyUntil { deadline_ns }),
        }
    }

    fn with_port<P: ReplyPort<A::Reply>>(to: ActorRef<A>, lane: usize, msg: M, port: P) -> Self {
        let envelope = receives::envelope::<A, M, P>(msg, port);
        Self {
            pending: PendingSend::new(to, lane, envelope, false),
            // SAFETY: it is called with the envelope made above, which has this payload.
            open: |envelope| unsafe { envelope.open::<Payload<M, P>>() }.message,
        }
    }
}

#[cfg(feature = "futures")]
impl<A: Actor, M> SendFuture<A, M> {
    /// As [`PendingSend::with_grant`], for a message whose sender has given it away.
    pub(crate) fn with_grant(self, grant: Option<WaitKey>) -> Self {
        let mut pending = self.pending.with_grant(grant);
        pending.is_committed = true;
        Self { pending, ..self }
    }
}

impl<A: Actor, M: Message> Future for SendFuture<A, M> {
    type Output = Result<(), TellError<M>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let open = self.open;
        let outcome = self.pending.poll(context);
        outcome.map(|outcome| outcome.map_err(|refused| refused.map(open)))
    }
}

/// An envelope on its way into a lane that may be full.
pub(crate) struct PendingSend<A: Actor> {
    to: ActorRef<A>,
    lane: usize,
    envelope: Option<Envelope>,
    /// The sender's key among the receiver's waiters.
    waiting: Option<WaitKey>,
    /// A blocked thread polls it, and always polls again.
    is_blocking: bool,
    /// It waits at a full lane whatever the lane's policy is.
    is_patient: bool,
    /// Its sender has given it away: if it is dropped before it is accepted, it becomes a dead letter.
    is_committed: bool,
}

impl<A: Actor> PendingSend<A> {
    /// `is_blocking`: a thread blocks until it is complete, or drops it.
    pub(crate) fn new(to: ActorRef<A>, lane: usize, envelope: Envelope, is_blocking: bool) -> Self {
        Self {
            to,
            lane,
            envelope: Some(envelope),
            waiting: None,
            is_blocking,
            is_patient: false,
            is_committed: false,
        }
    }

    /// It has waited and got this grant, if any. If the lane is full again, it waits further, whatever the lane's policy
    /// is.
    #[cfg(any(feature = "futures", feature = "tower"))]
    pub(crate) fn with_grant(mut self, grant: Option<WaitKey>) -> Self {
        self.waiting = grant;
        self.is_patient = true;
        self
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
        let mut is_granted = false;
        match self.waiting {
            Some(key) => match core.waiters.poll(key, Some(context.waker())) {
                Wait::Waiting => return Poll::Pending,
                Wait::Granted(messages) => is_granted = messages > 0,
            },
            // A sender that waits already is ahead of later messages.
            None => {
                if !self.is_blocking && is_behind_outbox(core, self.lane, context.waker()) {
                    return Poll::Pending;
                }
            }
        }
        let mut envelope = self.envelope.take().expect("polled after it was ready");
        if self.lane >= core.mailbox.lane_count() {
            return Poll::Ready(Err(TellError::NoLane(envelope)));
        }
        let mut config = *core.lane_config(self.lane);
        if self.is_patient {
            config = config.overload(Overload::Wait);
        }
        loop {
            let outcome = match core.offer_by(&config, self.lane, envelope, is_granted) {
                Ok(()) => Ok(()),
                Err(Unaccepted::Full(it)) => Err(TellError::Full(it)),
                Err(Unaccepted::Closed(it)) => Err(TellError::Closed(it)),
                Err(Unaccepted::Wait(it)) => {
                    envelope = it;
                    if self.waiting.is_none() {
                        self.waiting = core.waiters.try_grant(core, self.lane, self.is_blocking);
                        is_granted = self.waiting.is_some();
                        if is_granted {
                            continue;
                        }
                    }
                    let waiter = self.waiter(context.waker());
                    let waiting = match self.waiting.take() {
                        Some(key) => core.waiters.requeue(core, key, waiter, 1).map(|()| key),
                        None => core.waiters.register(core, self.lane, waiter, 1),
                    };
                    if waiting.is_none() {
                        // The actor has just terminated; the next offer fails with `Closed`.
                        continue;
                    }
                    self.waiting = waiting;
                    self.envelope = Some(envelope);
                    // The signal makes the actor run and grant capacity to its waiters.
                    core.signal(core::WAITERS);
                    return Poll::Pending;
                }
            };
            if let Some(key) = self.waiting.take()
                && core.waiters.finish(core, key)
            {
                // The actor may be idle again while other senders wait.
                core.signal(core::WAITERS);
            }
            return Poll::Ready(outcome);
        }
    }

    fn waiter(&self, waker: &Waker) -> Waiter {
        if self.is_blocking {
            Waiter::Thread(waker.clone())
        } else {
            Waiter::Future(waker.clone())
        }
    }

    /// Gives up at the deadline: counts the message as shed and returns the envelope.
    pub(crate) fn give_up(mut self) -> Envelope {
        let core = self.to.cell().core();
        core.count_shed(self.lane, ShedReason::Full);
        self.take_back()
    }

    /// The envelope, which was not accepted yet.
    pub(crate) fn take_back(&mut self) -> Envelope {
        self.envelope.take().expect("not accepted yet")
    }

    /// Blocks this thread until the lane has accepted the envelope or refused it for good.
    pub(crate) fn block(mut self) -> Result<(), TellError<Envelope>> {
        spin_for_capacity(self.to.cell().core(), self.lane);
        let outcome = block::until(NO_DEADLINE_NS, |context| self.poll(context));
        // There is no deadline, so this is the end of the system: no thread is left.
        outcome.unwrap_or_else(|_| Err(TellError::NoThread(self.take_back())))
    }
}

/// Whether the actor whose future is polled here has messages for this lane in its outbox: those go first. Plain
/// handlers do not wait for the outbox, which settles only after they return.
fn is_behind_outbox(target: &Core, lane: usize, waker: &Waker) -> bool {
    if !current::has_outbox() || !current::polls_future() {
        return false;
    }
    current::with(|sender| {
        let is_behind = |sender: &&Core| outbox::has_messages_for(sender, target, lane);
        let sender = sender.filter(is_behind);
        if let Some(sender) = sender {
            outbox::hasten(sender, target, lane, waker);
        }
        sender.is_some()
    })
}

impl<A: Actor> Drop for PendingSend<A> {
    fn drop(&mut self) {
        let core = self.to.cell().core();
        if let Some(key) = self.waiting
            && core.waiters.finish(core, key)
        {
            // The grant goes to the next waiting sender.
            core.signal(core::WAITERS);
        }
        if let Some(envelope) = self.envelope.take().filter(|_| self.is_committed) {
            core.bury(envelope, ShedReason::SenderStopped);
        }
    }
}

/// A thread that blocks in a tell polls the full lane before it sleeps: to wake a thread takes longer than a quick actor needs for half
/// of a lane. These are the polls without a change of the lane's depth, first with short spins, then with yields. So at a slow
/// actor each wait costs 16 polls: some 10 us of processor time a message in a lane of 2.
const SPINS_MAX: u32 = 8;
const YIELDS_MAX: u32 = 8;
/// The most polls, also of a lane that drains.
const POLLS_MAX: u32 = 128;

fn spin_for_capacity(core: &Core, lane: usize) {
    let Some(lane) = core.mailbox.get(lane) else {
        return;
    };
    let (mut depth, mut in_vain) = (lane.depth(), 0);
    for _ in 0..POLLS_MAX {
        if lane.has_capacity() || lane.is_closed() || in_vain == SPINS_MAX + YIELDS_MAX {
            return;
        }
        if in_vain < SPINS_MAX {
            (0..16).for_each(|_| hint::spin_loop());
        } else {
            thread::yield_now();
        }
        let before = mem::replace(&mut depth, lane.depth());
        in_vain = if before == depth { in_vain + 1 } else { 0 };
    }
}
