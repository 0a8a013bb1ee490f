//! A route: the member that the router chose, and how messages are delivered to it.

use std::fmt;

use super::{GroupInner, ask::GroupAsk, limiter::Admitted, members::Members, router::Choice};
use crate::{
    actor::{Actor, Message},
    actor_ref::{ActorRef, OnFull},
    current,
    error::TellError,
    metered::Metered,
    receives::Receives,
    reply::NoReply,
};

/// One choice of a member, by [`crate::Group::route`] or [`crate::Group::any`]. Messages sent by the
/// same route go to the same member, in order.
///
/// If the member has terminated, the message goes to the next living one (by index, wrapping around); if all have
/// terminated, it is refused. A full lane of the chosen member applies its policy; the message is not redirected.
/// If the group is resized, later messages of the route go where the router would send them now.
#[must_use = "a choice alone sends nothing"]
pub struct Route<'g, A: Actor> {
    group: &'g GroupInner<A>,
    choice: Choice,
}

impl<A: Actor> Clone for Route<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A: Actor> Copy for Route<'_, A> {}

impl<A: Actor> fmt::Debug for Route<'_, A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Route({} of {:?})", self.index(), self.group)
    }
}

impl<'g, A: Actor> Route<'g, A> {
    #[inline]
    pub(super) const fn new(group: &'g GroupInner<A>, choice: Choice) -> Self {
        Self { group, choice }
    }

    #[inline]
    fn index_in(&self, members: &Members<'_, A>) -> usize {
        let sizes = self.group.membership.sizes(members.len());
        self.choice.index_in(sizes)
    }

    /// The chosen member, living or not. The group's counters ignore messages sent to it directly.
    pub fn member(self) -> ActorRef<A> {
        let members = self.group.members();
        members[self.index_in(&members)].clone()
    }

    /// The chosen member's index among [`crate::Group::members`].
    pub fn index(self) -> usize {
        self.index_in(&self.group.members())
    }

    #[inline]
    pub(super) fn begin(self) -> Delivery<'g, A> {
        Delivery::begin(self)
    }

    /// [`ActorRef::tell`] to the chosen member.
    ///
    /// # Errors
    /// As [`ActorRef::tell`]; [`TellError::Closed`] if no member takes messages any more.
    #[inline]
    pub fn tell<M: Message>(self, msg: M) -> Result<(), TellError<M>>
    where
        A: Receives<M>,
    {
        self.tell_lane(0, msg)
    }

    /// [`ActorRef::tell_lane`] to the chosen member.
    ///
    /// # Errors
    /// As [`ActorRef::tell_lane`]; [`TellError::Closed`] if no member takes messages any more.
    #[inline]
    pub fn tell_lane<M: Message>(self, lane: usize, msg: M) -> Result<(), TellError<M>>
    where
        A: Receives<M>,
    {
        if self.is_limited() {
            return self.tell_limited(lane, msg, OnFull::Wait);
        }
        self.deliver(msg, |member, msg| member.tell_lane(lane, msg))
    }

    /// [`ActorRef::try_tell`] to the chosen member: never waits.
    ///
    /// # Errors
    /// As [`ActorRef::try_tell`]; [`TellError::Closed`] if no member takes messages any more.
    #[inline]
    pub fn try_tell<M: Message>(self, msg: M) -> Result<(), TellError<M>>
    where
        A: Receives<M>,
    {
        if self.is_limited() {
            return self.tell_limited(0, msg, OnFull::GiveBack);
        }
        self.deliver(msg, ActorRef::try_tell)
    }

    /// As [`Delivery::deliver`]. In a group that was never resized, an accepted message needs no [`Delivery`].
    #[inline(always)]
    fn deliver<M>(
        self,
        msg: M,
        tell: impl Fn(&ActorRef<A>, M) -> Result<(), TellError<M>>,
    ) -> Result<(), TellError<M>> {
        let Some(table) = self.group.membership.unresized() else {
            return self.deliver_resized(msg, &tell);
        };
        let chosen = self.choice.index;
        table.gauges[chosen].routed.add(1);
        match tell(&table.actors[chosen], msg) {
            Ok(()) => Ok(()),
            Err(refused) => self.deliver_refused(chosen, refused, &tell),
        }
    }

    #[cold]
    #[inline(never)]
    fn deliver_resized<M>(self, msg: M, tell: &Tell<'_, A, M>) -> Result<(), TellError<M>> {
        self.begin().deliver(msg, tell)
    }

    /// The chosen member of a group that was not resized has refused the message.
    #[cold]
    #[inline(never)]
    fn deliver_refused<M>(
        self,
        chosen: usize,
        refused: TellError<M>,
        tell: &Tell<'_, A, M>,
    ) -> Result<(), TellError<M>> {
        let members = Members::first(self.group.membership.first());
        let mut delivery = Delivery::counted(self, members, chosen);
        match refused {
            TellError::Closed(msg) if delivery.pass() => delivery.deliver(msg, tell),
            refused => Err(refused),
        }
    }

    #[inline]
    fn is_limited(self) -> bool {
        self.group.limiter.is_some()
    }

    /// As [`GroupInner::admit`].
    pub(super) fn admit(self, lane: usize) -> Result<Option<Admitted>, Limited> {
        self.group.admit(lane)
    }

    /// As [`Route::tell_lane`], in a group with a limit.
    #[cold]
    fn tell_limited<M: Message>(
        self,
        lane: usize,
        msg: M,
        on_full: OnFull,
    ) -> Result<(), TellError<M>>
    where
        A: Receives<M>,
    {
        self.begin()
            .deliver(msg, |member, msg| match self.admit(lane) {
                Ok(Some(admitted)) => member.offer(lane, msg, Metered(admitted), on_full),
                Ok(None) => member.offer(lane, msg, NoReply, on_full),
                Err(Limited) => Err(TellError::Full(msg)),
            })
    }

    /// [`ActorRef::send`] to the chosen member: waits for capacity without blocking the executor.
    ///
    /// # Errors
    /// As [`Route::tell`].
    pub async fn send<M: Message>(self, mut msg: M) -> Result<(), TellError<M>>
    where
        A: Receives<M>,
    {
        if self.is_limited() {
            return self.tell_limited(0, msg, OnFull::GiveBack);
        }
        let mut delivery = self.begin();
        loop {
            match delivery.member().send(msg).await {
                Err(TellError::Closed(refused)) if delivery.pass() => msg = refused,
                outcome => {
                    delivery.set_accepted(outcome.is_ok());
                    return outcome;
                }
            }
        }
    }

    /// [`ActorRef::ask`] to the chosen member. `.await` it, or [`GroupAsk::wait`] for it.
    pub fn ask<M: Message>(self, msg: M) -> GroupAsk<'g, A, M>
    where
        A: Receives<M>,
    {
        GroupAsk::new(self, msg)
    }
}

impl<A: Actor> GroupInner<A> {
    /// Lets a message of this lane through, if the group has no limit or it is not reached.
    pub(super) fn admit(&self, lane: usize) -> Result<Option<Admitted>, Limited> {
        let Some(limiter) = &self.limiter else {
            return Ok(None);
        };
        let deadline_ns = current::inherited_deadline_ns::<A>();
        limiter.admit(lane, deadline_ns).map(Some).ok_or(Limited)
    }
}

/// The group's limit is reached.
pub(super) struct Limited;

/// Offers a message to a member.
type Tell<'t, A, M> = dyn Fn(&ActorRef<A>, M) -> Result<(), TellError<M>> + 't;

/// The delivery of one message: to the chosen member, or past terminated members to a living one. It counts the
/// message when it begins, and its outcome when it is dropped.
pub(super) struct Delivery<'g, A: Actor> {
    route: Route<'g, A>,
    members: Members<'g, A>,
    /// The index that the message was counted for.
    routed: usize,
    chosen: usize,
    /// Members that were found terminated.
    passed: usize,
    is_accepted: bool,
}

impl<'g, A: Actor> Delivery<'g, A> {
    #[inline]
    pub(super) fn begin(route: Route<'g, A>) -> Self {
        let members = route.group.members();
        let chosen = route.index_in(&members);
        members.gauges()[chosen].routed.add(1);
        Self::counted(route, members, chosen)
    }

    /// The delivery of a message that is counted as routed.
    #[inline]
    fn counted(route: Route<'g, A>, members: Members<'g, A>, chosen: usize) -> Self {
        Self {
            route,
            members,
            routed: chosen,
            chosen,
            passed: 0,
            is_accepted: false,
        }
    }

    #[inline]
    fn index(&self) -> usize {
        let index = self.chosen + self.passed;
        let members = self.members.len();
        if index < members {
            index
        } else {
            index - members
        }
    }

    /// The member that the message is offered to next.
    #[inline]
    pub(super) fn member(&self) -> &ActorRef<A> {
        &self.members[self.index()]
    }

    /// The current member has terminated, or was removed: moves on to the next one, or to the choice among the new
    /// members. `false` if none is left; then the chosen member counts as the receiver.
    #[cold]
    pub(super) fn pass(&mut self) -> bool {
        let present = self.route.group.members();
        if !present.is_same(&self.members) {
            self.chosen = self.route.index_in(&present);
            self.members = present;
            self.passed = 0;
            return true;
        }
        self.passed += 1;
        if self.passed == self.members.len() {
            self.passed = 0;
            return false;
        }
        true
    }

    #[inline]
    pub(super) fn set_accepted(&mut self, is_accepted: bool) {
        self.is_accepted = is_accepted;
    }

    /// Offers the message to one member after the other, until one is found that has not terminated.
    #[inline]
    pub(super) fn deliver<M>(
        mut self,
        mut msg: M,
        tell: impl Fn(&ActorRef<A>, M) -> Result<(), TellError<M>>,
    ) -> Result<(), TellError<M>> {
        loop {
            match tell(self.member(), msg) {
                Err(TellError::Closed(refused)) if self.pass() => msg = refused,
                outcome => {
                    self.set_accepted(outcome.is_ok());
                    return outcome;
                }
            }
        }
    }
}

impl<A: Actor> Drop for Delivery<'_, A> {
    #[inline]
    fn drop(&mut self) {
        let (gauges, index) = (self.members.gauges(), self.index());
        if index != self.routed {
            gauges[self.routed].redirected.add(1);
            gauges[index].taken_over.add(1);
        }
        if !self.is_accepted {
            gauges[index].refused.add(1);
        }
    }
}
