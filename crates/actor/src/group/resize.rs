//! Resizing a group while it runs.
//!
//! ```text
//!   grow:    spawn the new members ──> publish the table
//!   shrink:  publish the table ──> mark as retiring ──> no outbox holds messages for it ──> close and drain
//! ```
//!
//! **Nothing accepted is lost.** Senders that have read the old table deliver to a removed member until its mailbox
//! closes; then the message comes back, and the delivery chooses again among the new members. Messages that the
//! mailbox has accepted are handled before the member terminates. Messages for it in an outbox count as accepted, too:
//! see `retire`.

use std::sync::{Arc, Mutex, PoisonError};

use super::{GROUP_MEMBERS_MAX, Group, GroupError, GroupInner};
use crate::{
    actor::Actor, actor_ref::ActorRef, options::SpawnOptions, retire::retire, run::Factory,
    spawn::SpawnError, start,
};

/// How a group spawns its members. The lock is held while a resize is under way.
pub(super) struct Spawner<A> {
    member: SpawnOptions,
    factory: Arc<dyn Fn(usize) -> A + Send + Sync>,
    is_resizing: Mutex<()>,
}

impl<A: Actor> Spawner<A> {
    pub(super) fn new(
        member: SpawnOptions,
        factory: Arc<dyn Fn(usize) -> A + Send + Sync>,
    ) -> Self {
        Self {
            member,
            factory,
            is_resizing: Mutex::new(()),
        }
    }

    /// Spawns a member by `spawn`, which gets its options and factory.
    pub(super) fn spawn(
        &self,
        group_name: Option<&str>,
        index: usize,
        spawn: impl FnOnce(SpawnOptions, Factory<A>) -> Result<ActorRef<A>, SpawnError>,
    ) -> Result<ActorRef<A>, SpawnError> {
        let mut options = self.member.clone();
        options.name = group_name.map(|name| format!("{name}/{index}").into());
        let factory = self.factory.clone();
        spawn(options, Box::new(move || factory(index)))
    }
}

impl<A: Actor> Group<A> {
    /// Changes the number of members, while messages are routed. Returns the removed members, those with the highest
    /// indices: each handles all that it has accepted and then terminates; [`ActorRef::join`] waits for it. New members
    /// come from the group's factory, with the next indices, as children of the same parent.
    ///
    /// Which keys move: under [`crate::Router::HashOfKey`] only as many as must. Growing from n to m members moves
    /// (m - n) / m of the keys, all to new members; shrinking moves the keys of the removed members, evenly to all
    /// others. The mapping depends on the first and the current number of members alone, so growing back restores it.
    /// Under [`crate::Router::FirstBytesOfKey`] it is the number modulo the members, so most keys move. The state that
    /// a member holds for a key does not move. For a key that moves, the old member may still handle messages while
    /// the new one handles later ones.
    ///
    /// Calls at the same time run one after the other. Each index keeps its counters. A removed member gives up its
    /// name.
    ///
    /// # Errors
    /// [`GroupError`] if the number is out of range or a member cannot be spawned; then the group is unchanged.
    pub fn resize(&self, members: usize) -> Result<Vec<ActorRef<A>>, GroupError> {
        if !(1..=GROUP_MEMBERS_MAX).contains(&members) {
            return Err(GroupError::Members(members));
        }
        let group = &*self.inner;
        let resizing = group.spawner.is_resizing.lock();
        let resizing = resizing.unwrap_or_else(PoisonError::into_inner);
        let mut actors = group.members().to_vec();
        for index in actors.len()..members {
            match group.spawn_like(&actors[0], index) {
                Ok(member) => actors.push(member),
                Err(error) => {
                    let kept = group.members().len();
                    actors[kept..].iter().for_each(release_name);
                    actors[kept..].iter().for_each(ActorRef::stop);
                    return Err(error.into());
                }
            }
        }
        let removed = actors.split_off(members);
        group.membership.replace(actors);
        // Before the next resize, which may claim them.
        removed.iter().for_each(release_name);
        drop(resizing);
        let cores = removed.iter().map(|it| it.cell().core_ref().clone());
        retire(cores.collect());
        self.inner.members_changed();
        Ok(removed)
    }
}

impl<A: Actor> GroupInner<A> {
    /// Spawns the member with this index, with the system and the parent of `sibling`.
    fn spawn_like(&self, sibling: &ActorRef<A>, index: usize) -> Result<ActorRef<A>, SpawnError> {
        let core = sibling.cell().core();
        let spawn = |options, factory: Factory<A>| {
            let parent = core.parent().cloned();
            core.system
                .spawn_with(options, parent, None, Some(start::infallible(factory)))
        };
        self.spawner.spawn(self.name.as_deref(), index, spawn)
    }
}

/// Another member may get the name, although this one has not terminated yet.
fn release_name<A: Actor>(member: &ActorRef<A>) {
    if let Some(name) = member.name() {
        let core = member.cell().core();
        core.system.names.release(name, core.id());
    }
}
