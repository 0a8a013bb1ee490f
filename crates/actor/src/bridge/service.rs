//! Actors and groups as a `tower::Service`.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use crate::{
    actor::{Actor, Message},
    actor_ref::ActorRef,
    core_ref::CoreRef,
    error::AskError,
    group::{Group, LimitedAsk},
    receives::Receives,
    reserve::Reservation,
};

/// An actor or a group as a `tower::Service` for messages of type `M`: the response is the handler's reply, the error
/// an [`AskError`]. Made by [`ActorRef::service`] and [`Group::service`].
///
/// Ready means that capacity in the lane is reserved for the next call. The reservation is returned when the service is
/// dropped; a clone has none. If a plain `tell` or `ask` takes the slot first, the call waits for the next one. A
/// reservation that is not used expires a tenth of a second after the lane became empty; the call then waits like a
/// new sender.
///
/// While the lane is full the service is pending, whatever the lane's policy is: `tower::load_shed` then refuses at
/// once, and other callers wait. So a full lane never fails a call before its deadline. A service whose
/// actor has terminated is ready, and its calls fail with [`AskError::Closed`].
///
/// The service of a group is ready when any member has capacity. The router chooses where the search begins. While all
/// members are full, the service waits at each of them; it finds members that a resize adds when it is polled again.
/// The adaptive limit of a group is not a part of readiness: a call beyond it fails with [`AskError::Full`] at once.
///
/// ```
/// use freeboard_actor::{Actor, Context, Handler, System};
/// use tower::{Service, ServiceExt};
///
/// struct Doubler;
///
/// impl Actor for Doubler {}
///
/// impl Handler<u64> for Doubler {
///     type Reply = u64;
///     fn handle(&mut self, number: u64, _cx: &mut Context<Self>) -> u64 {
///         2 * number
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let system = System::builder().workers(1).build()?;
/// let mut service = system.spawn(Doubler).service::<u64>();
/// assert_eq!(service.ready().await?.call(21).await?, 42);
/// # Ok(())
/// # }
/// ```
pub struct ActorService<A: Actor, M> {
    to: Target<A>,
    lane: usize,
    /// The member for the next call.
    ready: Option<Candidate<A>>,
    /// Members whose capacity it waits for.
    waiting: Vec<Candidate<A>>,
    timeout: Option<Duration>,
    timeout_of: Option<fn(&M) -> Option<Duration>>,
}

enum Target<A: Actor> {
    Actor(ActorRef<A>),
    Group(Group<A>),
}

impl<A: Actor> Clone for Target<A> {
    fn clone(&self) -> Self {
        match self {
            Self::Actor(actor) => Self::Actor(actor.clone()),
            Self::Group(group) => Self::Group(group.clone()),
        }
    }
}

struct Candidate<A: Actor> {
    member: ActorRef<A>,
    capacity: Reservation,
}

impl<A: Actor> Candidate<A> {
    fn new(member: &ActorRef<A>, lane: usize) -> Self {
        Self {
            capacity: Reservation::new(CoreRef::of(member.cell().core()), lane),
            member: member.clone(),
        }
    }
}

impl<A: Actor, M> Clone for ActorService<A, M> {
    /// The clone is not ready.
    fn clone(&self) -> Self {
        Self {
            to: self.to.clone(),
            ready: None,
            waiting: Vec::new(),
            ..*self
        }
    }
}

impl<A: Actor, M> fmt::Debug for ActorService<A, M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.to {
            Target::Actor(actor) => write!(formatter, "ActorService({actor:?})"),
            Target::Group(group) => write!(formatter, "ActorService({group:?})"),
        }
    }
}

impl<A: Actor> ActorRef<A> {
    /// This actor as a `tower::Service` for messages of type `M`.
    pub fn service<M: Message>(&self) -> ActorService<A, M>
    where
        A: Receives<M>,
    {
        ActorService::new(Target::Actor(self.clone()))
    }
}

impl<A: Actor> Group<A> {
    /// This group as a `tower::Service` for messages of type `M`.
    pub fn service<M: Message>(&self) -> ActorService<A, M>
    where
        A: Receives<M>,
    {
        ActorService::new(Target::Group(self.clone()))
    }
}

impl<A: Actor, M> ActorService<A, M> {
    const fn new(to: Target<A>) -> Self {
        Self {
            to,
            lane: 0,
            ready: None,
            waiting: Vec::new(),
            timeout: None,
            timeout_of: None,
        }
    }

    /// Calls on another lane; 0 is the most urgent. If the mailbox has no such lane, calls fail with
    /// [`AskError::NoLane`].
    #[must_use]
    pub fn lane(self, lane: usize) -> Self {
        Self {
            lane,
            ready: None,
            waiting: Vec::new(),
            ..self
        }
    }

    /// The deadline of each call, counted from the call.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// A deadline from the message, such as that of the request in it. If [`ActorService::timeout`] is set too, the
    /// shorter one counts.
    #[must_use]
    pub fn timeout_by(mut self, timeout_of: fn(&M) -> Option<Duration>) -> Self {
        self.timeout_of = Some(timeout_of);
        self
    }

    /// Reserves capacity of a member for which it waits. Members that have terminated are left out.
    fn poll_waiting(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.waiting.extend(self.ready.take());
        let mut index = 0;
        while let Some(candidate) = self.waiting.get_mut(index) {
            match candidate.capacity.poll(context) {
                Poll::Ready(true) => {
                    self.ready = Some(self.waiting.swap_remove(index));
                    self.waiting.clear();
                    return Poll::Ready(());
                }
                Poll::Ready(false) => drop(self.waiting.swap_remove(index)),
                Poll::Pending => index += 1,
            }
        }
        Poll::Pending
    }

    /// Reserves capacity of a member that has some now; otherwise waits at each member. Ready without a reservation if
    /// all have terminated.
    fn poll_members(
        &mut self,
        members: &[ActorRef<A>],
        start: usize,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        let start = start.min(members.len());
        let others = || {
            (start..members.len())
                .chain(0..start)
                .map(|it| &members[it])
        };
        for member in others() {
            let mut candidate = Candidate::new(member, self.lane);
            let is_waiting = self.waiting.iter().any(|it| it.member == *member);
            if !is_waiting && candidate.capacity.try_reserve() {
                self.ready = Some(candidate);
                self.waiting.clear();
                return Poll::Ready(());
            }
        }
        for member in others() {
            if !self.waiting.iter().any(|it| it.member == *member) {
                self.waiting.push(Candidate::new(member, self.lane));
            }
        }
        match self.poll_waiting(context) {
            Poll::Pending if self.waiting.is_empty() => Poll::Ready(()),
            polled => polled,
        }
    }
}

impl<A: Receives<M>, M: Message> tower_service::Service<M> for ActorService<A, M> {
    type Response = A::Reply;
    type Error = AskError<M>;
    type Future = ServiceFuture<A, M>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), AskError<M>>> {
        if self.poll_waiting(context).is_ready() {
            return Poll::Ready(Ok(()));
        }
        match self.to.clone() {
            Target::Actor(actor) => self.poll_members(&[actor], 0, context),
            Target::Group(group) => {
                let start = group.any().index();
                self.poll_members(&group.members(), start, context)
            }
        }
        .map(Ok)
    }

    /// Asks with the reserved capacity. Without a reservation it waits for capacity. The message is sent when the
    /// future is first polled; the deadline counts from the call.
    fn call(&mut self, msg: M) -> Self::Future {
        let of_message = self.timeout_of.and_then(|timeout_of| timeout_of(&msg));
        let timeout = self.timeout.into_iter().chain(of_message).min();
        let grant = self.ready.as_mut().and_then(|it| it.capacity.take());
        let ready = self.ready.take().map(|it| it.member);
        let lane = self.lane;
        let ask = move |member: &ActorRef<A>, msg| {
            let mut ask = member.ask(msg).lane(lane);
            if let Some(timeout) = timeout {
                ask = ask.timeout(timeout);
            }
            ask.begin_reserved(grant)
        };
        ServiceFuture(match &self.to {
            Target::Actor(actor) => LimitedAsk::unlimited(ask(actor, msg)),
            Target::Group(group) => group.limit_ask(lane, msg, |msg| {
                let member = ready.unwrap_or_else(|| group.any().member().clone());
                group.count_routed(&member);
                ask(&member, msg)
            }),
        })
    }
}

/// The future of a call of an [`ActorService`].
#[must_use = "nothing is asked before the future is polled"]
pub struct ServiceFuture<A: Receives<M>, M: Message>(LimitedAsk<A, M>);

// Nothing in it is pinned, as in an ask's future.
impl<A: Receives<M>, M: Message> Unpin for ServiceFuture<A, M> {}

impl<A: Receives<M>, M: Message> fmt::Debug for ServiceFuture<A, M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ServiceFuture")
    }
}

impl<A: Receives<M>, M: Message> Future for ServiceFuture<A, M> {
    type Output = Result<A::Reply, AskError<M>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.0.poll(context);
        if polled.is_ready() {
            self.0.leave();
        }
        polled
    }
}
