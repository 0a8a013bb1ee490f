//! A route: the member that the router chose, and the ways to send to it.

use std::fmt;

use super::{GroupInner, ask::GroupAsk, delivery::Delivery};
use crate::{
    actor::{Actor, Message},
    actor_ref::ActorRef,
    error::TellError,
    receives::Receives,
};

/// One choice of a member, by [`crate::Group::route`] or [`crate::Group::any`]. Messages sent by the
/// same route go to the same member, in order.
///
/// A message whose member has ended goes to the next living one (by index, the first after the last),
/// and only if all have ended it comes back. A full lane of the chosen member does what its policy
/// says; the message is not taken elsewhere.
#[must_use = "a choice alone sends nothing"]
pub struct Route<'g, A: Actor> {
    group: &'g GroupInner<A>,
    index: usize,
}

impl<A: Actor> Clone for Route<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A: Actor> Copy for Route<'_, A> {}

impl<A: Actor> fmt::Debug for Route<'_, A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Route({} of {:?})", self.index, self.group)
    }
}

impl<'g, A: Actor> Route<'g, A> {
    #[inline]
    pub(super) const fn new(group: &'g GroupInner<A>, index: usize) -> Self {
        Self { group, index }
    }

    /// The chosen member, whether it lives or not. What is sent to it past the group is not counted
    /// in the group's gauges.
    pub fn member(self) -> &'g ActorRef<A> {
        &self.group.actors[self.index]
    }

    /// The chosen member's index among [`crate::Group::members`].
    pub fn index(self) -> usize {
        self.index
    }

    #[inline]
    pub(super) fn begin(self) -> Delivery<'g, A> {
        Delivery::begin(self.group, self.index)
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
        self.begin()
            .deliver(msg, |member, msg| member.tell_lane(lane, msg))
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
        self.begin().deliver(msg, ActorRef::try_tell)
    }

    /// [`ActorRef::send`] to the chosen member: waits for room without blocking the executor.
    ///
    /// # Errors
    /// As [`Route::tell`].
    pub async fn send<M: Message>(self, mut msg: M) -> Result<(), TellError<M>>
    where
        A: Receives<M>,
    {
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
