//! The options for spawning a group.

use std::sync::Arc;

use freeboard_flow::{AdaptiveLimit, ConfigError};

use super::{Group, limiter::Limiter, resize::Spawner, router::Router};
use crate::{
    actor::Actor, actor_ref::ActorRef, context::Context, options::SpawnOptions, run::Factory,
    spawn::SpawnError, system::System,
};

/// The maximum number of members of a group.
pub const GROUP_MEMBERS_MAX: usize = 65_536;

/// Number of members of a group, its router, and how each member is spawned. The default router is
/// [`Router::RoundRobin`].
#[derive(Debug, Clone)]
#[must_use = "options alone spawn nothing"]
pub struct GroupOptions {
    members: usize,
    router: Router,
    member: SpawnOptions,
    name: Option<String>,
    limit: Option<AdaptiveLimit>,
}

/// Why a group could not be spawned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// The number of members is out of range.
    #[error("a group has 1 to {GROUP_MEMBERS_MAX} members, not {0}")]
    Members(usize),
    /// The number of bytes of [`Router::FirstBytesOfKey`] is out of range.
    #[error("a router goes by the first 1 to {max} bytes of a key, not {0}", max = Router::FIRST_BYTES_MAX)]
    FirstBytes(usize),
    /// The adaptive limit is out of range.
    #[error("a group's limit: {0}")]
    Limit(ConfigError),
    /// A member could not be spawned; the others were stopped.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

impl GroupOptions {
    /// A group of `members` members, 1 to [`GROUP_MEMBERS_MAX`].
    pub fn new(members: usize) -> Self {
        Self {
            members,
            router: Router::default(),
            member: SpawnOptions::default(),
            name: None,
            limit: None,
        }
    }

    /// The router that chooses a member for each message.
    pub fn router(mut self, router: Router) -> Self {
        self.router = router;
        self
    }

    /// Mailbox, supervision and outbox of each member. With [`crate::Supervision::restart`] a member
    /// that panics keeps its index, mailbox and keys; the default stops it. A name given here is the
    /// group's name, unless [`GroupOptions::name`] sets another.
    pub fn member(mut self, options: SpawnOptions) -> Self {
        self.member = options;
        self
    }

    /// The group's name in snapshots. Its members are registered as `name/0`, `name/1` and so on, see
    /// [`System::whereis`].
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Limits the messages and asks in flight, sent by [`Group::route`] or [`Group::any`], by their latency: the group
    /// refuses what would only queue. A message counts until it is handled or shed; an ask until its caller takes the
    /// reply or gives up. So a caller that keeps the future of an ask without polling it keeps its place in flight, also
    /// after the reply and the deadline: poll it, or drop it. Beyond the limit a message comes back at once
    /// ([`crate::TellError::Full`], [`crate::AskError::Full`]).
    ///
    /// Lane 0 may use the whole limit, each lower lane half of what the lane above it may use, at least 1: urgent
    /// messages are refused last. No sender waits: [`crate::Route::send`] is refused by a full lane, too.
    ///
    /// [`Group::broadcast`], [`Group::ask_all`], [`Group::send_any`], [`Group::tell_any`] and messages to a member
    /// directly are neither limited nor counted: the first two go to all members or fail in part, and the next two wait
    /// for capacity by design.
    pub fn adaptive(mut self, limit: AdaptiveLimit) -> Self {
        self.limit = Some(limit);
        self
    }

    fn validate(&self) -> Result<(), GroupError> {
        if !(1..=GROUP_MEMBERS_MAX).contains(&self.members) {
            return Err(GroupError::Members(self.members));
        }
        if let Some(limit) = &self.limit {
            limit.validate().map_err(GroupError::Limit)?;
        }
        match self.router {
            Router::FirstBytesOfKey { bytes }
                if !(1..=Router::FIRST_BYTES_MAX).contains(&bytes) =>
            {
                Err(GroupError::FirstBytes(bytes))
            }
            _ => Ok(()),
        }
    }

    fn spawn<A: Actor>(
        mut self,
        factory: impl Fn(usize) -> A + Send + Sync + 'static,
        spawn_member: impl Fn(SpawnOptions, Factory<A>) -> Result<ActorRef<A>, SpawnError>,
    ) -> Result<Group<A>, GroupError> {
        self.validate()?;
        let name = self.member.name.take().map(|name| name.to_string());
        let name = self.name.or(name);
        let spawner = Spawner::new(self.member, Arc::new(factory));
        let mut members: Vec<ActorRef<A>> = Vec::with_capacity(self.members);
        for index in 0..self.members {
            match spawner.spawn(name.as_deref(), index, &spawn_member) {
                Ok(member) => members.push(member),
                Err(error) => {
                    members.iter().for_each(ActorRef::stop);
                    return Err(error.into());
                }
            }
        }
        let limiter = self.limit.map(Limiter::new);
        Ok(Group::new(name, self.router, members, spawner, limiter))
    }
}

impl System {
    /// Spawns a group of actors. The factory gets the member's index; it runs on a worker, and runs again for each
    /// restart of the member.
    ///
    /// # Errors
    /// [`GroupError`] for numbers out of range, or if a member cannot be spawned.
    pub fn spawn_group<A: Actor>(
        &self,
        options: GroupOptions,
        factory: impl Fn(usize) -> A + Send + Sync + 'static,
    ) -> Result<Group<A>, GroupError> {
        options.spawn(factory, |member, make| self.spawn_with(member, make))
    }
}

impl<P: Actor> Context<P> {
    /// Spawns a group whose members are children of this actor, as [`System::spawn_group`].
    ///
    /// # Errors
    /// As [`System::spawn_group`].
    pub fn spawn_group<A: Actor>(
        &self,
        options: GroupOptions,
        factory: impl Fn(usize) -> A + Send + Sync + 'static,
    ) -> Result<Group<A>, GroupError> {
        options.spawn(factory, |member, make| self.spawn_with(member, make))
    }
}
