//! References to actors, and the sender's side of the message path.
//!
//! ```text
//!   tell ──> offer ──> try_push: builds the envelope in its slot, schedules the actor      (fast path)
//!                │
//!                └──> offer_slowly ──> deliver ──> Core::offer: applies the lane's policy
//!                                         │ the lane is full and its policy is to wait
//!                                         ├──> outbox::keep    in a handler
//!                                         └──> PendingSend     on other threads: blocks
//! ```

use std::{
    fmt,
    hash::{Hash, Hasher},
    time::Instant,
};

use freeboard_flow::ShedReason;
use freeboard_meter::clock;

use crate::{
    actor::{Actor, Message},
    ask::Ask,
    catch_panic,
    cell::{CellRef, WeakCell},
    core::{self, Core, Unaccepted},
    credit::CreditWindow,
    current,
    envelope::{Envelope, Payload},
    error::TellError,
    id::ActorId,
    outbox::{self, NotKept},
    receives::{self, Receives, RouteOf},
    recipient::Recipient,
    reply::{NO_DEADLINE_NS, NoReply, NoReplyUntil, ReplyPort},
    send::{PendingSend, SendFuture},
    termination::Terminated,
};

/// A reference to an actor: cheap to clone, usable from any thread and any async runtime. It does
/// not keep the actor alive.
pub struct ActorRef<A: Actor> {
    cell: CellRef<A>,
}

impl<A: Actor> Clone for ActorRef<A> {
    fn clone(&self) -> Self {
        Self::new(self.cell.clone())
    }
}

impl<A: Actor> fmt::Debug for ActorRef<A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let core = self.cell.core();
        write!(formatter, "ActorRef({} {})", core.type_name(), core.id())
    }
}

impl<A: Actor> PartialEq for ActorRef<A> {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl<A: Actor> Eq for ActorRef<A> {}

impl<A: Actor> Hash for ActorRef<A> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

/// The reaction of a sender to a full lane whose policy is to wait.
#[derive(Clone, Copy)]
pub(crate) enum OnFull {
    /// A handler's message goes into its actor's outbox; elsewhere the thread blocks.
    Wait,
    GiveBack,
    /// Blocks the thread, also in a handler.
    Block,
}

impl<A: Actor> ActorRef<A> {
    pub(crate) const fn new(cell: CellRef<A>) -> Self {
        Self { cell }
    }

    pub(crate) fn cell(&self) -> &CellRef<A> {
        &self.cell
    }

    /// Sends a message on the first lane, without waiting for it to be handled.
    ///
    /// A full lane applies its policy. Under [`freeboard_flow::Overload::Wait`] a thread blocks until there is
    /// capacity. A handler does not block: its messages are kept in order in the actor's outbox, and the actor is
    /// muted after the handler until they are sent. Messages in the outbox are delivered even if the actor stops,
    /// panics or is restarted. In async code use [`ActorRef::send`], which does not block the executor.
    ///
    /// In a handler, an error means that the receiver has terminated, that its policy refuses, or that the outbox is
    /// full. [The right reaction](crate#the-result-of-a-tell) depends on the message; if nobody can act on the
    /// error, use [`ActorRef::tell_or_log`].
    ///
    /// A handler whose message has a deadline passes it on: see [`crate::Context::deadline`].
    ///
    /// A stopping actor that sends to itself gets `Ok`, and the message becomes a dead letter: nobody is left to act
    /// on the error.
    ///
    /// # Errors
    /// [`TellError::Full`] if the lane refuses it; [`TellError::OutboxFull`] if the sending actor's outbox is
    /// full; [`TellError::Closed`] if the actor takes no further messages. Each returns the message. A
    /// message that the policy sheds silently is not an error.
    #[inline]
    pub fn tell<M: Message>(&self, msg: M) -> Result<(), TellError<M>>
    where
        A: Receives<M>,
    {
        self.offer(0, msg, NoReply, OnFull::Wait)
    }

    /// [`ActorRef::tell`] for a sender that cannot use the error. A refused message becomes a dead letter
    /// ([`crate::SystemBuilder::on_dead_letter`] receives it) and a `tracing` warning. Every refused message logs
    /// one: if a lane refuses by design, use [`ActorRef::tell`] and read the lane's counters.
    pub fn tell_or_log<M: Message>(&self, msg: M)
    where
        A: Receives<M>,
    {
        let Err(error) = self.tell(msg) else { return };
        let core = self.cell.core();
        let reason = match error {
            TellError::OutboxFull(_) => ShedReason::OutboxFull,
            TellError::Full(_) => ShedReason::Full,
            _ => ShedReason::Stopped,
        };
        catch_panic::call(|| {
            tracing::warn!(
                actor = core.id().get(),
                actor_type = core.type_name(),
                message_type = std::any::type_name::<M>(),
                "a message was not accepted: {error}"
            );
        });
        let envelope = receives::envelope::<A, M, NoReply>(error.into_inner(), NoReply);
        core.bury(envelope, reason);
    }

    /// [`ActorRef::tell`] on another lane; 0 is the most urgent.
    ///
    /// # Errors
    /// As [`ActorRef::tell`], and [`TellError::NoLane`] if the mailbox has no such lane.
    #[inline]
    pub fn tell_lane<M: Message>(&self, lane: usize, msg: M) -> Result<(), TellError<M>>
    where
        A: Receives<M>,
    {
        self.offer(lane, msg, NoReply, OnFull::Wait)
    }

    /// [`ActorRef::tell`] that never waits: a full lane refuses, also under
    /// [`freeboard_flow::Overload::Wait`].
    ///
    /// # Errors
    /// As [`ActorRef::tell`].
    #[inline]
    pub fn try_tell<M: Message>(&self, msg: M) -> Result<(), TellError<M>>
    where
        A: Receives<M>,
    {
        self.offer(0, msg, NoReply, OnFull::GiveBack)
    }

    /// [`ActorRef::try_tell`] on another lane; 0 is the most urgent.
    ///
    /// # Errors
    /// As [`ActorRef::tell_lane`].
    #[inline]
    pub fn try_tell_lane<M: Message>(&self, lane: usize, msg: M) -> Result<(), TellError<M>>
    where
        A: Receives<M>,
    {
        self.offer(lane, msg, NoReply, OnFull::GiveBack)
    }

    /// [`ActorRef::tell`] that blocks the thread while the lane is full and its policy is to wait, also in a
    /// handler. It may overtake messages in the outbox of the handler's actor. While a handler blocks, another
    /// thread runs the worker's other actors.
    ///
    /// # Errors
    /// As [`ActorRef::tell`]; in a handler [`TellError::NoThread`], at once, if no thread would be left to run
    /// other actors.
    #[inline]
    pub fn tell_blocking<M: Message>(&self, msg: M) -> Result<(), TellError<M>>
    where
        A: Receives<M>,
    {
        self.offer(0, msg, NoReply, OnFull::Block)
    }

    /// [`ActorRef::tell_blocking`] on another lane; 0 is the most urgent.
    ///
    /// # Errors
    /// As [`ActorRef::tell_lane`].
    #[inline]
    pub fn tell_blocking_lane<M: Message>(&self, lane: usize, msg: M) -> Result<(), TellError<M>>
    where
        A: Receives<M>,
    {
        self.offer(lane, msg, NoReply, OnFull::Block)
    }

    /// [`ActorRef::tell_lane`] of a message that carries one credit, which the caller has taken from the window. The credit
    /// returns when the message was handled or shed, also if it is refused here. The message ends with `deadline`, if there
    /// is one, and not with that of the current handler.
    ///
    /// # Errors
    /// As [`ActorRef::tell_lane`].
    pub fn tell_credited<M: Message>(
        &self,
        lane: usize,
        msg: M,
        credit: &CreditWindow,
        deadline: Option<Instant>,
    ) -> Result<(), TellError<M>>
    where
        A: Receives<M>,
    {
        let deadline_ns = deadline.map_or(NO_DEADLINE_NS, clock::from_instant);
        self.offer(lane, msg, credit.receipt(deadline_ns), OnFull::Wait)
    }

    /// Sends a message; the future waits while the lane is full and its policy is to wait. A future that is
    /// dropped early has sent nothing.
    ///
    /// An async handler that awaits this blocks its own mailbox: actors that await capacity of each other in a
    /// circle wait for ever. [`ActorRef::tell`] cannot deadlock: muting never closes a circle.
    pub fn send<M: Message>(&self, msg: M) -> SendFuture<A, M>
    where
        A: Receives<M>,
    {
        self.send_lane(0, msg)
    }

    /// [`ActorRef::send`] on another lane.
    pub fn send_lane<M: Message>(&self, lane: usize, msg: M) -> SendFuture<A, M>
    where
        A: Receives<M>,
    {
        SendFuture::new(self.clone(), lane, msg)
    }

    /// Sends a message and receives the handler's reply. `.await` it, or call [`Ask::wait`]; see [`Ask`] for a
    /// deadline.
    pub fn ask<M: Message>(&self, msg: M) -> Ask<A, M, A::Reply>
    where
        A: Receives<M>,
    {
        Ask::new(self.clone(), msg)
    }

    /// Sends a message with its reply port; `on_full` says what to do at a full lane whose policy is to wait.
    #[inline]
    pub(crate) fn offer<M: Message, P: ReplyPort<A::Reply>>(
        &self,
        lane: usize,
        msg: M,
        reply: P,
        on_full: OnFull,
    ) -> Result<(), TellError<M>>
    where
        A: Receives<M>,
    {
        match self.try_push(lane, msg, reply) {
            Ok(()) => Ok(()),
            Err((msg, reply)) => self.offer_slowly(lane, msg, reply, on_full),
        }
    }

    /// [`ActorRef::offer`] that returns a refused reply port, too.
    #[inline]
    pub(crate) fn offer_with<M: Message, P: ReplyPort<A::Reply>>(
        &self,
        lane: usize,
        msg: M,
        reply: P,
        on_full: OnFull,
    ) -> Result<(), TellError<Payload<M, P>>>
    where
        A: Receives<M>,
    {
        match self.try_push(lane, msg, reply) {
            Ok(()) => Ok(()),
            Err((message, reply)) => {
                let payload = Payload::new(message, reply);
                self.offer_payload(lane, payload, on_full)
            }
        }
    }

    /// The fast path: builds the envelope in its slot of a lane that accepts by its bound alone.
    ///
    /// # Errors
    /// Message and reply port, if the lane is full, closed, missing, or has a policy to apply, if this thread's
    /// actor has messages in its outbox, which may have to go first, or if its handler has a deadline to inherit.
    #[inline]
    pub(crate) fn try_push<M: Message, P: ReplyPort<A::Reply>>(
        &self,
        lane: usize,
        msg: M,
        reply: P,
    ) -> Result<(), (M, P)>
    where
        A: Receives<M>,
    {
        let slow = if P::INHERITS_DEADLINE && A::TELLS_EXPIRE {
            current::OUTBOX | current::DEADLINE
        } else {
            current::OUTBOX
        };
        if current::flags() & slow != 0 {
            return Err((msg, reply));
        }
        let core = self.cell.core();
        let Some(lane) = core.mailbox.get(lane) else {
            return Err((msg, reply));
        };
        let payload = Payload::new(msg, reply);
        let write = |slot, payload| {
            // SAFETY: the route is the payload's.
            unsafe { Envelope::write(slot, RouteOf::<A, M, P>::ROUTE, payload) };
        };
        // SAFETY: `write` fails only if an allocation fails, which aborts the process.
        match unsafe { lane.fill(payload, write) } {
            Ok(()) => {
                core.announce();
                Ok(())
            }
            Err(payload) => Err((payload.message, payload.reply)),
        }
    }

    #[cold]
    fn offer_slowly<M: Message, P: ReplyPort<A::Reply>>(
        &self,
        lane: usize,
        msg: M,
        reply: P,
        on_full: OnFull,
    ) -> Result<(), TellError<M>>
    where
        A: Receives<M>,
    {
        let deadline_ns = current::inherited_deadline_ns::<A>();
        if P::INHERITS_DEADLINE && deadline_ns != NO_DEADLINE_NS {
            return self.offer(lane, msg, NoReplyUntil { deadline_ns }, on_full);
        }
        let payload = Payload::new(msg, reply);
        self.offer_payload(lane, payload, on_full)
            .map_err(|refused| refused.map(|payload| payload.message))
    }

    fn offer_payload<M: Message, P: ReplyPort<A::Reply>>(
        &self,
        lane: usize,
        payload: Payload<M, P>,
        on_full: OnFull,
    ) -> Result<(), TellError<Payload<M, P>>>
    where
        A: Receives<M>,
    {
        if lane >= self.cell.core().mailbox.lane_count() {
            return Err(TellError::NoLane(payload));
        }
        // SAFETY: the route is the payload's.
        let envelope = unsafe { Envelope::new(RouteOf::<A, M, P>::ROUTE, payload) };
        let delivered = current::with(|sender| self.deliver(sender, lane, envelope, on_full));
        // SAFETY: made above with this payload.
        delivered.map_err(|refused| refused.map(|it| unsafe { it.open::<Payload<M, P>>() }))
    }

    /// Offers an envelope of the actor `sender`, if one sends it, to a lane below the lane count. If the lane's policy
    /// is to wait, does what `on_full` says.
    fn deliver(
        &self,
        sender: Option<&Core>,
        lane: usize,
        envelope: Envelope,
        on_full: OnFull,
    ) -> Result<(), TellError<Envelope>> {
        let core = self.cell.core();
        // Earlier messages of this actor in its outbox go first.
        let is_behind_outbox = !matches!(on_full, OnFull::Block)
            && current::has_outbox()
            && sender.is_some_and(|sender| outbox::has_messages_for(sender, core, lane));
        let envelope = if is_behind_outbox {
            envelope
        } else {
            match core.offer(lane, envelope, false) {
                Ok(()) => return Ok(()),
                Err(Unaccepted::Wait(envelope)) => envelope,
                Err(Unaccepted::Full(envelope)) => return Err(TellError::Full(envelope)),
                // A message of a stopped actor to itself is shed: nobody is left to take it back.
                Err(Unaccepted::Closed(envelope)) => {
                    if sender.is_none_or(|sender| sender.id() != core.id()) {
                        return Err(TellError::Closed(envelope));
                    }
                    core.shed(lane, envelope, ShedReason::Stopped);
                    return Ok(());
                }
            }
        };
        match (on_full, sender) {
            (OnFull::GiveBack, _) => {
                core.count_shed(lane, ShedReason::Full);
                Err(TellError::Full(envelope))
            }
            (OnFull::Wait, Some(sender)) => {
                outbox::keep(sender, core, lane, envelope).map_err(|not_kept| match not_kept {
                    NotKept::Retiring(envelope) => TellError::Closed(envelope),
                    NotKept::Full(envelope) => {
                        core.count_shed(lane, ShedReason::OutboxFull);
                        TellError::OutboxFull(envelope)
                    }
                })
            }
            (OnFull::Block, _) | (OnFull::Wait, None) => {
                let Ok(_section) = freeboard_sched::enter_blocking() else {
                    return Err(TellError::NoThread(envelope));
                };
                PendingSend::new(self.clone(), lane, envelope, true).block()
            }
        }
    }

    /// Delivers a timer's message: never waits, and sheds a refused message.
    pub(crate) fn tell_from_timer<M: Message>(&self, msg: M)
    where
        A: Receives<M>,
    {
        let core = self.cell.core();
        let envelope = receives::envelope::<A, M, NoReply>(msg, NoReply);
        if let Err(refused) = core.offer(0, envelope, false) {
            core.shed_refused(0, refused);
        }
    }

    /// Stops the actor after its current message; queued messages are shed as stopped.
    pub fn stop(&self) {
        self.cell.core().signal(core::STOP);
    }

    /// Stops the actor once it has handled everything accepted so far. The mailbox closes now, also for the actor
    /// itself.
    pub fn stop_gracefully(&self) {
        self.cell.core().drain();
    }

    /// Whether the actor has not terminated yet.
    pub fn is_alive(&self) -> bool {
        self.cell.core().end_reason().is_none()
    }

    /// Blocks until the actor has terminated. Do not call it in a handler: use [`crate::Context::watch`] there.
    pub fn join(&self) -> Terminated {
        let ended = self.cell.core().block_until_ended(NO_DEADLINE_NS);
        ended.expect("every termination is announced")
    }

    /// Blocks until the actor has terminated or the deadline has passed.
    pub fn wait_ended_until(&self, deadline: Instant) -> Option<Terminated> {
        let deadline_ns = clock::from_instant(deadline);
        self.cell.core().block_until_ended(deadline_ns)
    }

    /// Messages queued in all lanes. Messages that were handled in the current batch still count.
    pub fn depth(&self) -> u64 {
        self.cell.core().mailbox.depth()
    }

    /// The actor's id.
    pub fn id(&self) -> ActorId {
        self.cell.core().id()
    }

    /// The name it was spawned with.
    pub fn name(&self) -> Option<&str> {
        self.cell.core().options().name.as_deref()
    }

    /// The current values of its counters.
    pub fn snapshot(&self) -> freeboard_meter::ActorSnapshot {
        self.cell.core().snapshot()
    }

    /// A reference that does not keep the memory of a terminated actor.
    pub fn downgrade(&self) -> WeakActorRef<A> {
        WeakActorRef {
            cell: self.cell.downgrade(),
        }
    }

    /// A reference for one message type that hides the actor's type. If the message type cannot be inferred, write
    /// `recipient::<M>()`.
    pub fn recipient<M: Message>(&self) -> Recipient<M>
    where
        A: Receives<M>,
    {
        Recipient::new(self.clone())
    }
}

/// The weak form of an [`ActorRef`].
pub struct WeakActorRef<A: Actor> {
    cell: WeakCell<A>,
}

impl<A: Actor> WeakActorRef<A> {
    /// The reference, unless the actor has terminated and no other reference is left.
    pub fn upgrade(&self) -> Option<ActorRef<A>> {
        self.cell.upgrade().map(ActorRef::new)
    }
}

impl<A: Actor> Clone for WeakActorRef<A> {
    fn clone(&self) -> Self {
        Self {
            cell: self.cell.clone(),
        }
    }
}

impl<A: Actor> fmt::Debug for WeakActorRef<A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "WeakActorRef({})", std::any::type_name::<A>())
    }
}
