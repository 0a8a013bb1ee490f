//! The way of one message through a group: to the chosen member, or past members that have ended to
//! one that lives. All counting is done here.

use super::GroupInner;
use crate::{actor::Actor, actor_ref::ActorRef, error::TellError};

/// Counts the message when it begins, and when it is dropped where the message came to.
pub(super) struct Delivery<'g, A: Actor> {
    group: &'g GroupInner<A>,
    chosen: usize,
    /// Members that were found to have ended.
    passed: usize,
    is_accepted: bool,
}

impl<'g, A: Actor> Delivery<'g, A> {
    #[inline]
    pub(super) fn begin(group: &'g GroupInner<A>, chosen: usize) -> Self {
        group.gauges[chosen].routed.add(1);
        Self {
            group,
            chosen,
            passed: 0,
            is_accepted: false,
        }
    }

    #[inline]
    fn index(&self) -> usize {
        let index = self.chosen + self.passed;
        let members = self.group.actors.len();
        if index < members {
            index
        } else {
            index - members
        }
    }

    /// The member whose turn it is to accept.
    #[inline]
    pub(super) fn member(&self) -> &'g ActorRef<A> {
        &self.group.actors[self.index()]
    }

    /// The present member has ended: goes on to the next one. `false` if there is none left; then the
    /// message stays with the one that was chosen.
    #[cold]
    pub(super) fn pass(&mut self) -> bool {
        self.passed += 1;
        if self.passed == self.group.actors.len() {
            self.passed = 0;
            return false;
        }
        true
    }

    #[inline]
    pub(super) fn set_accepted(&mut self, is_accepted: bool) {
        self.is_accepted = is_accepted;
    }

    /// Offers the message to one member after the other, until one answers that has not ended.
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
        if self.passed > 0 {
            self.group.gauges[self.chosen].redirected.add(1);
            self.group.gauges[self.index()].taken_over.add(1);
        }
        if !self.is_accepted {
            self.group.gauges[self.index()].refused.add(1);
        }
    }
}
