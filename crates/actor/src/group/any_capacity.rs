//! Sending to the first member that has capacity.
//!
//! ```text
//!   sender:  all members full ──> queue of the group ──────────────────────────> offers to that member
//!                                      │ a scout at each member                       ▲ grant
//!   member:  has capacity ──> grants its scout ──> the first sender of the queue ─────┘
//!                                              └──> senders are left: a new scout
//! ```
//!
//! While senders wait, each open member has at most one *scout* among the waiters of its first lane (`waiters`). A
//! grant to a scout goes to the sender that has waited longest, and wakes only that one. If every sender registered
//! with every member, each would hold the capacity of several members until it ran, and each registration would cost a
//! step per member and sender.
//!
//! **No capacity is lost.** Claim: while a sender is in the queue, each open member has a scout, or the wake-up of its
//! scout is on its way. A sender enters the queue and places the missing scouts under one lock. A scout's wake-up, under
//! the same lock, takes a sender out and leaves a new scout if others are left. A sender that has been granted capacity
//! uses it, or, when it is dropped, passes it on. If it is never polled again, the grant lapses as every grant does,
//! and others get the capacity. A resize places scouts at the new members under the same lock, after the new table can
//! be read. A member that closes meanwhile gets no scout. So each of these steps ends by taking all senders out of a queue
//! without scouts, as no member is open.
//!
//! Scouts that are left when the queue becomes empty return their grant when it comes.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll, Wake, Waker},
};

use freeboard_flow::Overload;

use super::{Group, GroupInner};
use crate::{
    actor::{Actor, Message},
    block, catch_panic,
    core::{self, Core, Unaccepted},
    core_ref::CoreRef,
    current,
    envelope::{Envelope, Payload},
    error::TellError,
    id::ActorId,
    receives::{self, Receives},
    reply::{NO_DEADLINE_NS, NoReplyUntil},
    waiters::{Wait, WaitKey, Waiter},
};

/// The lane of the messages.
const LANE: usize = 0;

/// A registration with a member's waiters.
struct Registration {
    member: CoreRef,
    key: WaitKey,
}

impl Registration {
    /// Returns the grant, if there is one.
    fn finish(self) {
        if self.member.waiters.finish(&self.member, self.key) {
            self.member.signal(core::WAITERS);
        }
    }
}

#[derive(Default)]
struct Queue {
    /// By arrival.
    waiting: BTreeMap<u64, Waker>,
    /// Senders that have left the queue with capacity and have not run yet.
    granted: HashMap<u64, Registration>,
    /// In the order of spawning, so that a seeded test repeats it.
    scouts: BTreeMap<ActorId, Registration>,
    next_number: u64,
}

impl Queue {
    /// If no member is left to wait for, takes all senders out: they try all members, and find them closed. Call after
    /// scouts were placed or have returned.
    fn wake_all_unserved(&mut self, effects: &mut Effects) {
        if self.scouts.is_empty() {
            let waiting = std::mem::take(&mut self.waiting);
            effects.woken.extend(waiting.into_values());
        }
    }
}

/// The senders of a group that wait for the capacity of any member.
#[derive(Default)]
pub(super) struct AnyCapacity(Mutex<Queue>);

impl AnyCapacity {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AnyCapacity {
    fn drop(&mut self) {
        let scouts = std::mem::take(&mut self.lock().scouts);
        scouts.into_values().for_each(Registration::finish);
    }
}

/// Wakes the group when its member grants capacity, or closes.
struct Scout<A: Actor> {
    group: Weak<GroupInner<A>>,
    member: ActorId,
}

impl<A: Actor> Wake for Scout<A> {
    fn wake(self: Arc<Self>) {
        // Without the group, its drop has given the registration up.
        if let Some(group) = self.group.upgrade() {
            group.scout_returns(self.member);
        }
    }
}

impl<A: Actor> Group<A> {
    /// Sends the message to the first member that has capacity: the future is pending only while the first lanes of
    /// all members are full. The router chooses where the search begins. Waiting senders get capacity in the order of
    /// their arrival, and each capacity wakes one of them. A future that is dropped early has sent nothing.
    ///
    /// It works on any executor; for threads and handlers see [`Group::tell_any`]. In an async handler it may overtake
    /// messages in the actor's outbox. If the policy of a full lane is not to wait, the chosen member's policy applies.
    ///
    /// ```
    /// # use freeboard_actor::{Actor, Context, GroupOptions, Handler, System};
    /// # struct Worker;
    /// # struct Job;
    /// # impl Actor for Worker {}
    /// # impl Handler<Job> for Worker {
    /// #     type Reply = ();
    /// #     fn handle(&mut self, _job: Job, _cx: &mut Context<Self>) {}
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let system = System::builder().workers(1).build()?;
    /// let workers = system.spawn_group(GroupOptions::new(4), |_index| Worker)?;
    /// workers.send_any(Job).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn send_any<M: Message>(&self, msg: M) -> SendAny<A, M>
    where
        A: Receives<M>,
    {
        let reply = NoReplyUntil {
            deadline_ns: current::inherited_deadline_ns::<A>(),
        };
        SendAny {
            group: self.clone(),
            envelope: Some(receives::envelope::<A, M, NoReplyUntil>(msg, reply)),
            number: None,
            message: PhantomData,
        }
    }

    /// Tells the first member that has capacity. If all are full, a thread blocks until one has capacity. A handler
    /// does not block: the router chooses a member, and its actor is muted until that member has capacity.
    ///
    /// # Errors
    /// As [`crate::Route::tell`].
    pub fn tell_any<M: Message>(&self, msg: M) -> Result<(), TellError<M>>
    where
        A: Receives<M>,
    {
        if current::with(|actor| actor.is_some()) {
            let members = self.members();
            let start = self.any().index();
            // A terminated member's lane is empty.
            let has_capacity = |index: &usize| {
                let lane = first_lane(members[*index].cell().core());
                !lane.is_closed() && lane.has_capacity()
            };
            let found = indices_from(start, members.len()).find(has_capacity);
            let index = found.unwrap_or(start.min(members.len() - 1));
            return match members[index].tell(msg) {
                Ok(()) => {
                    members.gauges()[index].routed.add(1);
                    Ok(())
                }
                // Terminated: from here on as any other route.
                Err(TellError::Closed(msg)) => self.any().tell(msg),
                Err(refused) => Err(refused),
            };
        }
        let mut sending = self.send_any(msg);
        let outcome = block::until(NO_DEADLINE_NS, |context| {
            Pin::new(&mut sending).poll(context)
        });
        // There is no deadline, and this is no handler.
        outcome.unwrap_or_else(|_| unreachable!("only handlers give up"))
    }
}

fn first_lane(core: &Core) -> &crate::mailbox::MailboxLane {
    core.mailbox.lane(LANE)
}

/// All indices below `members`, beginning with `start`, which may be out of range.
fn indices_from(start: usize, members: usize) -> impl Iterator<Item = usize> {
    let start = start.min(members);
    (start..members).chain(0..start)
}

/// What a granted scout leads to, once the lock is released.
#[derive(Default)]
struct Effects {
    woken: Vec<Waker>,
    finished: Option<Registration>,
    /// Members with a new scout: they run, and grant their capacity.
    signalled: Vec<CoreRef>,
}

impl Effects {
    fn apply(self) {
        if let Some(registration) = self.finished {
            registration.finish();
        }
        for member in self.signalled {
            member.signal(core::WAITERS);
        }
        for waker in self.woken {
            catch_panic::call(|| waker.wake());
        }
    }
}

impl<A: Actor> GroupInner<A> {
    /// The table of members was replaced.
    pub(super) fn members_changed(self: &Arc<Self>) {
        let mut effects = Effects::default();
        {
            let mut queue = self.any_capacity.lock();
            if !queue.waiting.is_empty() {
                self.place_scouts(&mut queue, &mut effects);
                queue.wake_all_unserved(&mut effects);
            }
        }
        effects.apply();
    }

    /// Places a scout at each open member that has none.
    fn place_scouts(self: &Arc<Self>, queue: &mut Queue, effects: &mut Effects) {
        for member in &self.members() {
            self.place_scout(queue, member.cell().core(), effects);
        }
    }

    fn place_scout(self: &Arc<Self>, queue: &mut Queue, member: &Core, effects: &mut Effects) {
        if member.mailbox.is_closed() || queue.scouts.contains_key(&member.id()) {
            return;
        }
        let scout = Arc::new(Scout {
            group: Arc::downgrade(self),
            member: member.id(),
        });
        let waiter = Waiter::Future(scout.into());
        if let Some(key) = member.waiters.register(member, LANE, waiter, 1) {
            let member = CoreRef::of(member);
            effects.signalled.push(member.clone());
            let registration = Registration { member, key };
            queue.scouts.insert(registration.member.id(), registration);
        }
    }

    /// The scout of this member was granted capacity, or the member has closed.
    fn scout_returns(self: &Arc<Self>, member: ActorId) {
        let mut effects = Effects::default();
        {
            let mut queue = self.any_capacity.lock();
            let Some(registration) = queue.scouts.remove(&member) else {
                return;
            };
            if registration.member.mailbox.is_closed() {
                effects.finished = Some(registration);
                queue.wake_all_unserved(&mut effects);
            } else {
                self.grant_next(&mut queue, registration, &mut effects);
            }
        }
        effects.apply();
    }

    /// Gives capacity to the sender that has waited longest.
    fn grant_next(
        self: &Arc<Self>,
        queue: &mut Queue,
        registration: Registration,
        effects: &mut Effects,
    ) {
        let Some((number, waker)) = queue.waiting.pop_first() else {
            effects.finished = Some(registration);
            return;
        };
        effects.woken.push(waker);
        let member = registration.member.clone();
        queue.granted.insert(number, registration);
        if !queue.waiting.is_empty() {
            self.place_scout(queue, &member, effects);
            queue.wake_all_unserved(effects);
        }
    }

    /// Offers the envelope to each member that has capacity; if none has, by the policy of the first open one. `Err`
    /// with the envelope if it has to wait.
    fn offer_to_any(
        &self,
        mut envelope: Envelope,
    ) -> Result<Result<(), TellError<Envelope>>, Envelope> {
        let members = self.members();
        let sizes = self.membership.sizes(members.len());
        let turn = || self.turns.next();
        let start = self
            .router
            .choose(sizes, None, turn, |index| super::load(&members[index]));
        let mut first_open = None;
        let offer = |index: usize, envelope| {
            let offered = members[index].cell().core().offer(LANE, envelope, false);
            if offered.is_ok() {
                members.gauges()[index].routed.add(1);
            }
            offered
        };
        for index in indices_from(start.index, members.len()) {
            let lane = first_lane(members[index].cell().core());
            if lane.is_closed() {
                continue;
            }
            first_open.get_or_insert(index);
            // An offer to a full lane could be counted as shed.
            if !lane.has_capacity() {
                continue;
            }
            match offer(index, envelope) {
                Ok(()) => return Ok(Ok(())),
                Err(Unaccepted::Full(refused)) => return Ok(Err(TellError::Full(refused))),
                Err(Unaccepted::Wait(refused) | Unaccepted::Closed(refused)) => envelope = refused,
            }
        }
        let Some(index) = first_open else {
            return Ok(Err(TellError::Closed(envelope)));
        };
        let core = members[index].cell().core();
        if core.lane_config(LANE).overload_policy() == Overload::Wait {
            return Err(envelope);
        }
        match offer(index, envelope) {
            Ok(()) => Ok(Ok(())),
            Err(Unaccepted::Full(refused)) => Ok(Err(TellError::Full(refused))),
            Err(Unaccepted::Wait(refused) | Unaccepted::Closed(refused)) => Err(refused),
        }
    }
}

/// The future of [`Group::send_any`].
#[must_use = "nothing is sent before the future is polled"]
pub struct SendAny<A: Actor, M> {
    group: Group<A>,
    envelope: Option<Envelope>,
    /// Its number in the queue, once it has waited.
    number: Option<u64>,
    message: PhantomData<fn() -> M>,
}

impl<A: Actor, M> fmt::Debug for SendAny<A, M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SendAny({:?})", self.group)
    }
}

impl<A: Actor, M: Message> SendAny<A, M> {
    fn poll_envelope(&mut self, waker: &Waker) -> Poll<Result<(), TellError<Envelope>>> {
        // Cloned and dropped without the lock: a waker may run user code.
        let mut fresh = Some(waker.clone());
        let mut envelope = self.envelope.take().expect("polled after it was ready");
        let group = &self.group.inner;
        let granted = self.number.and_then(|number| {
            let mut queue = group.any_capacity.lock();
            if let Some(known) = queue.waiting.get_mut(&number) {
                let fresh = fresh.take().expect("taken here or at the end");
                return Some(Err(std::mem::replace(known, fresh)));
            }
            queue.granted.remove(&number).map(Ok)
        });
        match granted {
            Some(Err(_replaced)) => {
                self.envelope = Some(envelope);
                return Poll::Pending;
            }
            Some(Ok(Registration { member, key })) => {
                let granted = member.waiters.poll(key, None);
                let is_granted = matches!(granted, Wait::Granted(messages) if messages > 0);
                let offered = member.offer(LANE, envelope, is_granted);
                let id = member.id();
                Registration { member, key }.finish();
                match offered {
                    Ok(()) => {
                        let members = group.members();
                        if let Some(index) = members.iter().position(|it| it.id() == id) {
                            members.gauges()[index].routed.add(1);
                        }
                        return Poll::Ready(Ok(()));
                    }
                    Err(Unaccepted::Full(refused)) => {
                        return Poll::Ready(Err(TellError::Full(refused)));
                    }
                    Err(Unaccepted::Wait(refused) | Unaccepted::Closed(refused)) => {
                        envelope = refused;
                    }
                }
            }
            None => {}
        }
        // Newcomers do not overtake senders that wait.
        if self.number.is_some() || group.any_capacity.lock().waiting.is_empty() {
            match group.offer_to_any(envelope) {
                Ok(outcome) => return Poll::Ready(outcome),
                Err(refused) => envelope = refused,
            }
        }
        self.envelope = Some(envelope);
        let mut effects = Effects::default();
        {
            let mut queue = group.any_capacity.lock();
            let number = *self.number.get_or_insert(queue.next_number);
            queue.next_number = queue.next_number.max(number + 1);
            queue.waiting.extend(fresh.map(|it| (number, it)));
            // The members are read under the lock: see `members_changed`.
            group.place_scouts(&mut queue, &mut effects);
            queue.wake_all_unserved(&mut effects);
        }
        effects.apply();
        Poll::Pending
    }
}

impl<A: Actor, M: Message> Future for SendAny<A, M> {
    type Output = Result<(), TellError<M>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_envelope(context.waker()).map(|outcome| {
            outcome.map_err(|refused| {
                // SAFETY: `Group::send_any` made the envelope with these types.
                refused.map(|it| unsafe { it.open::<Payload<M, NoReplyUntil>>() }.message)
            })
        })
    }
}

impl<A: Actor, M> Drop for SendAny<A, M> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let group = &self.group.inner;
        let mut effects = Effects::default();
        let _waker = {
            let mut queue = group.any_capacity.lock();
            // The capacity goes to the next sender.
            if let Some(registration) = queue.granted.remove(&number) {
                group.grant_next(&mut queue, registration, &mut effects);
            }
            queue.waiting.remove(&number)
        };
        effects.apply();
    }
}
