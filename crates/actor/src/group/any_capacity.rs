//! Sending to the first member that has capacity.
//!
//! [`any_queue`](freeboard_queue::any_queue) has the queue of the senders that wait, its protocol with the members, and its
//! proof. Here a *scout* is a registration among the waiters of a member's first lane (`waiters`), whose lock is taken
//! after the queue's. A granted sender that is never polled again keeps its capacity no longer than any grant: the grant
//! lapses. A resize places scouts at the new members after the new table can be read.
//!
//! Scouts that are left when the queue becomes empty return their grant when it comes.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll, Wake, Waker},
};

use freeboard_flow::Overload;
use freeboard_queue::any_queue::{AnyQueue, Effects, Members, Turn};

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
pub(super) struct Registration {
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

/// The senders of a group that wait for the capacity of any member.
#[derive(Default)]
pub(super) struct AnyCapacity(AnyQueue<ActorId, Registration>);

impl Drop for AnyCapacity {
    fn drop(&mut self) {
        self.0.take_scouts().for_each(Registration::finish);
    }
}

/// The members of a group, in one step of its queue.
struct Scouting<'g, A: Actor> {
    group: &'g Arc<GroupInner<A>>,
    /// Members with a new scout: they run, and grant their capacity.
    signalled: Vec<CoreRef>,
}

type Scouts = BTreeMap<ActorId, Registration>;

impl<A: Actor> Scouting<'_, A> {
    fn place(&mut self, member: &Core, scouts: &mut Scouts) {
        if member.mailbox.is_closed() || scouts.contains_key(&member.id()) {
            return;
        }
        let scout = Arc::new(Scout {
            group: Arc::downgrade(self.group),
            member: member.id(),
        });
        let waiter = Waiter::Future(scout.into());
        if let Some(key) = member.waiters.register(member, LANE, waiter, 1) {
            let member = CoreRef::of(member);
            self.signalled.push(member.clone());
            scouts.insert(member.id(), Registration { member, key });
        }
    }
}

impl<A: Actor> Members for Scouting<'_, A> {
    type Id = ActorId;
    type Scout = Registration;

    fn place_missing(&mut self, scouts: &mut Scouts) {
        // Read under the lock: see `members_changed`.
        for member in &self.group.members() {
            self.place(member.cell().core(), scouts);
        }
    }

    fn place_again(&mut self, at: &Registration, scouts: &mut Scouts) {
        self.place(&at.member, scouts);
    }

    fn has_closed(&self, scout: &Registration) -> bool {
        scout.member.mailbox.is_closed()
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

impl<A: Actor> GroupInner<A> {
    /// Makes a step of the queue, and then what it leads to.
    fn step(
        self: &Arc<Self>,
        step: impl FnOnce(
            &AnyQueue<ActorId, Registration>,
            &mut Scouting<'_, A>,
        ) -> Effects<Registration>,
    ) {
        let mut scouting = Scouting {
            group: self,
            signalled: Vec::new(),
        };
        let effects = step(&self.any_capacity.0, &mut scouting);
        if let Some(registration) = effects.returned {
            registration.finish();
        }
        for member in scouting.signalled {
            member.signal(core::WAITERS);
        }
        for waker in effects.woken {
            catch_panic::call(|| waker.wake());
        }
    }

    /// The table of members was replaced.
    pub(super) fn members_changed(self: &Arc<Self>) {
        self.step(|queue, members| queue.members_changed(members));
    }

    /// The scout of this member was granted capacity, or the member has closed.
    fn scout_returns(self: &Arc<Self>, member: ActorId) {
        self.step(|queue, members| queue.scout_returns(&member, members));
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
        let mut fresh = waker.clone();
        let mut envelope = self.envelope.take().expect("polled after it was ready");
        let group = &self.group.inner;
        let queue = &group.any_capacity.0;
        let turn = self.number.map(|number| queue.poll(number, &mut fresh));
        match turn {
            Some(Turn::Waiting) => {
                self.envelope = Some(envelope);
                return Poll::Pending;
            }
            Some(Turn::Granted(Registration { member, key })) => {
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
            Some(Turn::Unserved) | None => {}
        }
        // Newcomers do not overtake senders that wait.
        if self.number.is_some() || queue.is_empty() {
            match group.offer_to_any(envelope) {
                Ok(outcome) => return Poll::Ready(outcome),
                Err(refused) => envelope = refused,
            }
        }
        self.envelope = Some(envelope);
        let number = &mut self.number;
        group.step(|queue, members| queue.enter(number, fresh, members));
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
        // The capacity goes to the next sender.
        let group = &self.group.inner;
        group.step(|queue, members| queue.leave(number, members));
    }
}
