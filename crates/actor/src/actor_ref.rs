//! References to actors: what senders hold.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
    time::Instant,
};

use freeboard_flow::ShedReason;
use freeboard_sched::TimerKey;

use crate::{
    actor::{Actor, Message},
    arrival::arrival_mark,
    ask::Ask,
    cell::{self, Unaccepted},
    cell_ref::{CellRef, WeakCell},
    current,
    ended::Ended,
    envelope::Envelope,
    error::TellError,
    id::ActorId,
    outbox,
    receives::Receives,
    recipient::Recipient,
    relations::OnEnd,
    reply::{NoReply, ReplyPort},
    room::is_room_soon,
    send::Send as SendFuture,
    waiters::{ThreadGate, Waiter},
};

/// A reference to an actor: cheap to clone, usable from any thread and any async runtime. It does
/// not keep the actor from ending.
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
        self.cell.is_same(&other.cell)
    }
}

impl<A: Actor> Eq for ActorRef<A> {}

impl<A: Actor> Hash for ActorRef<A> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

/// How long a sender may block at a full lane.
#[derive(Clone, Copy)]
pub(crate) enum Patience {
    Endless,
    None,
    /// Blocks the thread, also in a handler, whose outbox would not leave before it returns.
    Block(Option<Instant>),
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
    /// When the lane is full, its policy decides. Under [`freeboard_flow::Overload::Wait`] a thread
    /// blocks until there is room; an actor's handler goes on, its messages are kept in order in its
    /// outbox, and the actor is muted afterwards until they are through. In async code use
    /// [`ActorRef::send`], which does not block the executor.
    ///
    /// # Errors
    /// [`TellError::Full`] if the lane refuses it, or an actor's outbox is full too;
    /// [`TellError::Closed`] if the actor takes no further messages. Both return the message. A
    /// message that the policy sheds silently is no error.
    #[inline]
    pub fn tell<M: Message, K>(&self, msg: M) -> Result<(), TellError<M>>
    where
        A: Receives<M, K>,
    {
        self.tell_lane(0, msg)
    }

    /// [`ActorRef::tell`] on another lane; 0 is the most urgent.
    ///
    /// # Errors
    /// As [`ActorRef::tell`], and [`TellError::NoLane`] if the mailbox has no such lane.
    #[inline]
    pub fn tell_lane<M: Message, K>(&self, lane: usize, msg: M) -> Result<(), TellError<M>>
    where
        A: Receives<M, K>,
    {
        self.offer(lane, msg, NoReply, Patience::Endless)
    }

    /// [`ActorRef::tell`] that never waits: a full lane refuses, also under
    /// [`freeboard_flow::Overload::Wait`].
    ///
    /// # Errors
    /// As [`ActorRef::tell`].
    #[inline]
    pub fn try_tell<M: Message, K>(&self, msg: M) -> Result<(), TellError<M>>
    where
        A: Receives<M, K>,
    {
        self.try_tell_lane(0, msg)
    }

    /// [`ActorRef::try_tell`] on another lane; 0 is the most urgent.
    ///
    /// # Errors
    /// As [`ActorRef::tell_lane`].
    #[inline]
    pub fn try_tell_lane<M: Message, K>(&self, lane: usize, msg: M) -> Result<(), TellError<M>>
    where
        A: Receives<M, K>,
    {
        self.offer(lane, msg, NoReply, Patience::None)
    }

    /// [`ActorRef::tell`] that blocks the thread while the lane is full and its policy is to wait,
    /// also in a handler, where [`ActorRef::tell`] would put the message into the actor's outbox. What
    /// the handler's actor has in its outbox may be overtaken by it.
    ///
    /// # Errors
    /// As [`ActorRef::tell`].
    #[inline]
    pub fn tell_blocking<M: Message, K>(&self, msg: M) -> Result<(), TellError<M>>
    where
        A: Receives<M, K>,
    {
        self.tell_blocking_lane(0, msg)
    }

    /// [`ActorRef::tell_blocking`] on another lane; 0 is the most urgent.
    ///
    /// # Errors
    /// As [`ActorRef::tell_lane`].
    #[inline]
    pub fn tell_blocking_lane<M: Message, K>(&self, lane: usize, msg: M) -> Result<(), TellError<M>>
    where
        A: Receives<M, K>,
    {
        self.offer(lane, msg, NoReply, Patience::Block(None))
    }

    /// Sends a message; the future waits while the lane is full and its policy is to wait. Dropped
    /// before it is done, it has sent nothing.
    ///
    /// An async handler that awaits this holds its own mailbox: actors that await room in each other,
    /// in a circle, wait for ever. [`ActorRef::tell`] does not: it mutes without closing circles.
    pub fn send<M: Message, K>(&self, msg: M) -> SendFuture<A, M>
    where
        A: Receives<M, K>,
    {
        self.send_lane(0, msg)
    }

    /// [`ActorRef::send`] on another lane.
    pub fn send_lane<M: Message, K>(&self, lane: usize, msg: M) -> SendFuture<A, M>
    where
        A: Receives<M, K>,
    {
        let envelope = Envelope::new::<A, M, K, NoReply>(msg, NoReply);
        SendFuture::new(self.clone(), lane, envelope)
    }

    /// Asks: sends a message and gets what its handler returns. `.await` it, or
    /// [`Ask::wait`] for it; see [`Ask`] for a deadline.
    pub fn ask<M: Message, K>(&self, msg: M) -> Ask<A, M, K>
    where
        A: Receives<M, K>,
    {
        Ask::new(self.clone(), msg)
    }

    #[inline]
    pub(crate) fn offer<M: Message, K, P: ReplyPort<A::Reply>>(
        &self,
        lane: usize,
        msg: M,
        reply: P,
        patience: Patience,
    ) -> Result<(), TellError<M>>
    where
        A: Receives<M, K>,
    {
        let core = self.cell.core();
        if !current::has_outbox()
            && let Some(place) = core.mailbox.reserve(lane)
        {
            let mark = arrival_mark(place.index());
            // SAFETY: `write` makes the envelope, and only a failing allocation could keep it from
            // it, which ends the process.
            unsafe {
                place.fill(mark, |slot| Envelope::write::<A, M, K, P>(slot, msg, reply));
            }
            core.announce();
            return Ok(());
        }
        if !current::has_outbox()
            && let Some(place) = core.mailbox.reserve_in_ring(lane)
        {
            let mark = arrival_mark(place.index());
            // SAFETY: as above.
            unsafe {
                place.fill(mark, |slot| Envelope::write::<A, M, K, P>(slot, msg, reply));
            }
            core.announce();
            return Ok(());
        }
        self.offer_slowly(lane, msg, reply, patience)
    }

    #[cold]
    fn offer_slowly<M: Message, K, P: ReplyPort<A::Reply>>(
        &self,
        lane: usize,
        msg: M,
        reply: P,
        patience: Patience,
    ) -> Result<(), TellError<M>>
    where
        A: Receives<M, K>,
    {
        if lane >= self.cell.core().mailbox.lane_count() {
            return Err(TellError::NoLane(msg));
        }
        let envelope = Envelope::new::<A, M, K, P>(msg, reply);
        let outcome = if current::has_outbox() && !matches!(patience, Patience::Block(_)) {
            self.offer_behind_outbox(lane, envelope)
        } else {
            self.cell.core().offer(lane, envelope)
        };
        let Err(unaccepted) = outcome else {
            return Ok(());
        };
        self.persist(lane, unaccepted, patience).map_err(|refused| {
            // SAFETY: made above with these types.
            let open = |it: Envelope| unsafe { it.open::<M, P>() }.message;
            match refused {
                Unaccepted::Wait(it) | Unaccepted::Full(it) => TellError::Full(open(it)),
                Unaccepted::Closed(it) => TellError::Closed(open(it)),
            }
        })
    }

    /// What this actor told before and waits in its outbox goes first.
    #[cold]
    fn offer_behind_outbox(&self, lane: usize, envelope: Envelope) -> Result<(), Unaccepted> {
        let core = self.cell.core();
        let must_queue = current::with(|sender| outbox::has_letters_for(sender, core, lane));
        if must_queue == Some(true) {
            Err(Unaccepted::Wait(envelope))
        } else {
            core.offer(lane, envelope)
        }
    }

    /// A lane did not accept: does what its policy asks of the sender.
    #[cold]
    fn persist(
        &self,
        lane: usize,
        unaccepted: Unaccepted,
        patience: Patience,
    ) -> Result<(), Unaccepted> {
        let envelope = match (unaccepted, patience) {
            (Unaccepted::Wait(envelope), Patience::None) => {
                self.cell.core().count_shed(lane, ShedReason::Full);
                return Err(Unaccepted::Full(envelope));
            }
            (Unaccepted::Wait(envelope), _) => envelope,
            (refused, _) => return Err(refused),
        };
        if let Patience::Block(deadline) = patience {
            return self.block_until_accepted(lane, envelope, deadline);
        }
        let mut envelope = Some(envelope);
        let kept = current::with(|sender| {
            let envelope = envelope.take().expect("called once");
            outbox::keep(sender, self.cell.core(), lane, envelope)
        });
        match kept {
            Some(Ok(())) => Ok(()),
            Some(Err(envelope)) => {
                self.cell.core().count_shed(lane, ShedReason::OutboxFull);
                Err(Unaccepted::Full(envelope))
            }
            None => {
                let envelope = envelope.take().expect("nobody took it");
                self.block_until_accepted(lane, envelope, None)
            }
        }
    }

    fn block_until_accepted(
        &self,
        lane: usize,
        mut envelope: Envelope,
        deadline: Option<Instant>,
    ) -> Result<(), Unaccepted> {
        let core = self.cell.core();
        loop {
            if is_room_soon(core, lane) {
                match core.offer(lane, envelope) {
                    Err(Unaccepted::Wait(refused)) => envelope = refused,
                    outcome => return outcome,
                }
            }
            let gate = Arc::new(ThreadGate::default());
            let waiter = Waiter::Thread(gate.clone());
            // If it cannot be registered the actor has just ended, and the next offer says so.
            if let Some(key) = core.waiters.register(core, lane, waiter) {
                core.signal(cell::WAITERS);
                if !gate.wait_until(deadline) {
                    if !core.waiters.unregister(key) {
                        // Let go at the last moment: another one may have our place.
                        core.signal(cell::WAITERS);
                    }
                    core.count_shed(lane, ShedReason::Full);
                    return Err(Unaccepted::Full(envelope));
                }
            }
            match core.offer(lane, envelope) {
                Err(Unaccepted::Wait(refused)) => envelope = refused,
                outcome => return outcome,
            }
        }
    }

    /// A timer's delivery: never waits, and nobody is there to take a refused message back.
    pub(crate) fn tell_from_timer<M: Message, K>(&self, msg: M)
    where
        A: Receives<M, K>,
    {
        let core = self.cell.core();
        let envelope = Envelope::new::<A, M, K, NoReply>(msg, NoReply);
        if let Err(refused) = core.offer(0, envelope) {
            core.shed_refused(0, refused);
        }
    }

    pub(crate) fn forget_timer(&self, key: TimerKey) {
        if let Some(relations) = self.cell.core().lock_relations().as_mut() {
            relations.timers.remove(&key);
        }
    }

    /// Ends the actor after the message it is handling; what is queued is shed as stopped.
    pub fn stop(&self) {
        self.cell.core().signal(cell::STOP);
    }

    /// Ends the actor once everything accepted so far is handled; from here on nothing more is, also
    /// not from the actor itself.
    pub fn stop_when_drained(&self) {
        self.cell.core().drain();
    }

    /// Whether the actor has not ended yet.
    pub fn is_alive(&self) -> bool {
        self.cell.core().end_reason().is_none()
    }

    /// Blocks until the actor has ended. Not for handlers: in an actor, use
    /// [`crate::Context::watch`].
    pub fn wait_ended(&self) -> Ended {
        let (sender, receiver) = oneshot::channel();
        self.on_end(None, Box::new(move |ended| drop(sender.send(ended))));
        receiver.recv().expect("each actor's end is told")
    }

    /// Blocks until the actor has ended or the deadline has come.
    pub fn wait_ended_until(&self, deadline: Instant) -> Option<Ended> {
        let (sender, receiver) = oneshot::channel();
        self.on_end(None, Box::new(move |ended| drop(sender.send(ended))));
        receiver.recv_deadline(deadline).ok()
    }

    pub(crate) fn on_end(&self, watcher: Option<ActorId>, on_end: OnEnd) {
        let core = self.cell.core();
        let mut relations = core.lock_relations();
        match core.end_reason() {
            None => {
                let relations = relations.get_or_insert_default();
                relations.watchers.push((watcher, on_end));
            }
            Some(reason) => {
                drop(relations);
                on_end(core.ended(reason));
            }
        }
    }

    pub(crate) fn forget_watcher(&self, watcher: ActorId) {
        if let Some(relations) = self.cell.core().lock_relations().as_mut() {
            relations.watchers.retain(|(id, _)| *id != Some(watcher));
        }
    }

    /// Messages queued in all lanes. While the actor is handling a batch, what it has handled of it
    /// is still counted.
    pub fn depth(&self) -> u64 {
        self.cell.core().mailbox.depth()
    }

    /// The actor's number.
    pub fn id(&self) -> ActorId {
        self.cell.core().id()
    }

    /// The name it was spawned with.
    pub fn name(&self) -> Option<&str> {
        self.cell.core().options().name.as_deref()
    }

    /// Its gauges as of now.
    pub fn snapshot(&self) -> freeboard_meter::ActorSnapshot {
        self.cell.core().snapshot()
    }

    /// A reference that does not keep the ended actor's memory.
    pub fn downgrade(&self) -> WeakActorRef<A> {
        WeakActorRef {
            cell: self.cell.downgrade(),
        }
    }

    /// A reference for one message type, whatever the actor. Where the type is not clear from its use,
    /// write `recipient::<M, _>()`.
    pub fn recipient<M: Message, K: 'static>(&self) -> Recipient<M>
    where
        A: Receives<M, K>,
    {
        Recipient::new::<A, K>(self.clone())
    }
}

/// The weak form of an [`ActorRef`].
pub struct WeakActorRef<A: Actor> {
    cell: WeakCell<A>,
}

impl<A: Actor> WeakActorRef<A> {
    /// The reference, unless the actor has ended and nobody else holds one.
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
