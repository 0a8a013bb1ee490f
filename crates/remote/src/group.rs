//! A group over nodes: each message goes to one of the actors that are published under one name.
//!
//! ```text
//!                      ┌─ local member, while it has capacity
//!   RemoteGroup::tell ─┼─ else the remote member with the most credit ──▶ its lane: bound, policy ──▶ credit, frames
//!                      └─ nobody found yet: a reference that finds one by itself
//! ```
//!
//! NATS queue groups choose at random, without regard to credit. So there is a reference per member, and the choice is made
//! here, on the caller's thread.

use std::{
    any::Any,
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use freeboard_actor::{Actor, ActorRef, Ask, AskError, Receives, TellError};

use crate::{
    error::{NodeError, RemoteAskError, RemoteTellError},
    find::{Finder, FoundList},
    message::RemoteMessage,
    node::{Node, NodeInner, check_name},
    port::failure_of,
    remote_ref::{Limit, RemoteAsk, RemoteAskFuture, RemoteOptions, RemoteRef},
    wire::NodeId,
};

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A published actor, for senders of its own node.
pub(crate) trait LocalMember<M: RemoteMessage>: Send + Sync {
    fn has_capacity(&self) -> bool;
    fn tell(&self, msg: M, waits: bool) -> Result<(), TellError<M>>;
    fn send(&self, msg: M) -> Boxed<Result<(), TellError<M>>>;
    fn ask(&self, msg: M, limit: Limit) -> Boxed<Result<M::Reply, AskError<M>>>;
    fn ask_blocking(&self, msg: M, limit: Limit) -> Result<M::Reply, AskError<M>>;
}

pub(crate) struct Local<A: Actor> {
    pub(crate) actor: ActorRef<A>,
    pub(crate) lane: usize,
    /// Messages of the window.
    pub(crate) window: u64,
}

impl<A: Actor> Local<A> {
    fn ask_with<M: RemoteMessage>(&self, msg: M, limit: Limit) -> Ask<A, M, M::Reply>
    where
        A: Receives<M, Reply = M::Reply>,
    {
        limit.of(self.actor.ask(msg).lane(self.lane))
    }
}

impl<M: RemoteMessage, A: Receives<M, Reply = M::Reply>> LocalMember<M> for Local<A> {
    fn has_capacity(&self) -> bool {
        self.actor.depth() < self.window
    }

    fn tell(&self, msg: M, waits: bool) -> Result<(), TellError<M>> {
        match waits {
            true => self.actor.tell_lane(self.lane, msg),
            false => self.actor.try_tell_lane(self.lane, msg),
        }
    }

    fn send(&self, msg: M) -> Boxed<Result<(), TellError<M>>> {
        Box::pin(self.actor.send_lane(self.lane, msg))
    }

    fn ask(&self, msg: M, limit: Limit) -> Boxed<Result<M::Reply, AskError<M>>> {
        Box::pin(self.ask_with(msg, limit).into_future())
    }

    fn ask_blocking(&self, msg: M, limit: Limit) -> Result<M::Reply, AskError<M>> {
        self.ask_with(msg, limit).wait()
    }
}

/// The published actor, if it takes messages of this type.
fn as_local<M: RemoteMessage>(local: &(dyn Any + Send + Sync)) -> Option<Arc<dyn LocalMember<M>>> {
    local.downcast_ref::<Arc<dyn LocalMember<M>>>().cloned()
}

impl Node {
    /// A group of all actors that nodes publish under this name: [`Node::publish`] makes an actor a member. Make it once and
    /// clone it: each one has its own references to the members, until the node leaves.
    ///
    /// # Errors
    /// [`NodeError::Name`], or [`NodeError::Closed`].
    pub fn group<M: RemoteMessage>(&self, name: &str) -> Result<RemoteGroup<M>, NodeError> {
        self.group_with(name, RemoteOptions::new())
    }

    /// [`Node::group`] with options: of the lane of each member.
    ///
    /// # Errors
    /// As there, or an option that is out of range.
    pub fn group_with<M: RemoteMessage>(
        &self,
        name: &str,
        options: RemoteOptions,
    ) -> Result<RemoteGroup<M>, NodeError> {
        let subject = self.inner.name_subject(&check_name(name)?);
        let any = self.remote_with::<M>(name, options.clone())?;
        let found = Finder::start(self, name.to_owned(), subject, options, Some(any.clone()))?;
        Ok(RemoteGroup {
            node: self.inner.clone(),
            any,
            found,
        })
    }
}

/// A group over nodes: each message goes to one member. Cheap to clone, usable from any thread and any async runtime.
///
/// A member on this node is preferred while its mailbox has fewer messages than the window that it was published with; then
/// nothing crosses NATS. Otherwise the member with the most credit gets the message. If none has credit, the message waits
/// in the lane of one of them. A member that is down gets no new messages. What its lane holds is sent if it comes back
/// before it counts as down; otherwise it fails, and [`crate::RemoteCounters::undelivered`] counts it.
///
/// A group has no keys: one actor per key is a [`crate::RemoteDirectory`].
pub struct RemoteGroup<M> {
    node: Arc<NodeInner>,
    any: RemoteRef<M>,
    found: Arc<FoundList<M>>,
}

impl<M> Clone for RemoteGroup<M> {
    fn clone(&self) -> Self {
        Self {
            node: self.node.clone(),
            any: self.any.clone(),
            found: self.found.clone(),
        }
    }
}

impl<M> fmt::Debug for RemoteGroup<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RemoteGroup({})", self.any.shared.name)
    }
}

/// Where a message goes.
enum Chosen<M: RemoteMessage> {
    Local(Arc<dyn LocalMember<M>>),
    Remote(RemoteRef<M>),
}

impl<M: RemoteMessage> RemoteGroup<M> {
    /// Sends a message to one member without waiting for it to be handled. If no member has capacity, the policy of the
    /// chosen member's lane applies, as in [`RemoteRef::tell`].
    ///
    /// # Errors
    /// [`RemoteTellError`], with the message.
    pub fn tell(&self, msg: M) -> Result<(), RemoteTellError<M>> {
        self.deliver(msg, true)
    }

    /// [`RemoteGroup::tell`] that never waits.
    ///
    /// # Errors
    /// As there; [`RemoteTellError::Full`] also under [`freeboard_flow::Overload::Wait`].
    pub fn try_tell(&self, msg: M) -> Result<(), RemoteTellError<M>> {
        self.deliver(msg, false)
    }

    fn deliver(&self, msg: M, waits: bool) -> Result<(), RemoteTellError<M>> {
        let to = |it: &RemoteRef<M>, msg| match waits {
            true => it.tell(msg),
            false => it.try_tell(msg),
        };
        match self.choose() {
            Chosen::Local(local) => match local.tell(msg, waits) {
                Ok(()) => Ok(()),
                Err(TellError::Closed(msg)) => to(&self.elsewhere(), msg),
                Err(error) => Err(RemoteTellError::Full(error.into_inner())),
            },
            Chosen::Remote(it) => match to(&it, msg) {
                // It went down just now.
                Err(RemoteTellError::Down(msg) | RemoteTellError::Unknown(msg, _)) => {
                    to(&self.any, msg)
                }
                told => told,
            },
        }
    }

    /// [`RemoteGroup::tell`] that waits for capacity without blocking the executor.
    ///
    /// # Errors
    /// As there.
    pub async fn send(&self, msg: M) -> Result<(), RemoteTellError<M>> {
        match self.choose() {
            Chosen::Local(local) => match local.send(msg).await {
                Ok(()) => Ok(()),
                Err(TellError::Closed(msg)) => self.elsewhere().send(msg).await,
                Err(error) => Err(RemoteTellError::Full(error.into_inner())),
            },
            Chosen::Remote(it) => match it.send(msg).await {
                Err(RemoteTellError::Down(msg) | RemoteTellError::Unknown(msg, _)) => {
                    self.any.send(msg).await
                }
                sent => sent,
            },
        }
    }

    /// Sends a message to one member and receives its reply. `.await` it, or call [`RemoteGroupAsk::wait`].
    pub fn ask(&self, msg: M) -> RemoteGroupAsk<M> {
        RemoteGroupAsk {
            group: self.clone(),
            msg,
            limit: Limit::None,
        }
    }

    /// The nodes of the members that can be reached now: this one first, if it has a member.
    pub fn nodes(&self) -> Vec<NodeId> {
        let local = self.local().map(|_| self.node.id.clone());
        let found = self.found.get();
        let found = found.iter().filter(|it| it.to.is_connected());
        let found = found.map(|it| it.node.clone()).chain(self.any.node());
        let mut nodes: Vec<_> = local.into_iter().collect();
        for node in found {
            if !nodes.contains(&node) {
                nodes.push(node);
            }
        }
        nodes
    }

    fn choose(&self) -> Chosen<M> {
        let local = self.local();
        if let Some(local) = local.as_ref().filter(|it| it.has_capacity()) {
            return Chosen::Local(local.clone());
        }
        match (self.most_credit(), local) {
            (Some(to), _) => Chosen::Remote(to),
            (None, Some(local)) => Chosen::Local(local),
            (None, None) => Chosen::Remote(self.any.clone()),
        }
    }

    /// The local member has terminated.
    fn elsewhere(&self) -> RemoteRef<M> {
        self.most_credit().unwrap_or_else(|| self.any.clone())
    }

    fn local(&self) -> Option<Arc<dyn LocalMember<M>>> {
        let published = self.node.published.lock();
        let member = published.get(self.any.name())?;
        member.is_published().then(|| as_local(&*member.local))?
    }

    /// The member of another node with the most credit that waiting messages will not use.
    fn most_credit(&self) -> Option<RemoteRef<M>> {
        let found = self.found.get();
        let is_away = |it: &&RemoteRef<M>| it.shared.peer.lock().as_ref() != Some(&self.node.id);
        let any = Some(&self.any).filter(is_away);
        let free = |it: &&RemoteRef<M>| {
            let credit = i64::try_from(it.credit()).unwrap_or(i64::MAX);
            credit.saturating_sub_unsigned(it.depth())
        };
        let members = found.iter().map(|it| &it.to).chain(any);
        let members = members.filter(|it| it.is_connected());
        members.max_by_key(free).cloned()
    }
}

/// An ask of a group over nodes that is not sent yet.
#[must_use = "nothing is sent before `.await` or `.wait()`"]
pub struct RemoteGroupAsk<M> {
    group: RemoteGroup<M>,
    msg: M,
    limit: Limit,
}

impl<M> fmt::Debug for RemoteGroupAsk<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RemoteGroupAsk({:?})", self.group)
    }
}

impl<M: RemoteMessage> RemoteGroupAsk<M> {
    /// The deadline, counted from when it is sent. The time that is left travels with the message.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.limit = Limit::After(timeout);
        self
    }

    /// The deadline as a point in time.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.limit = Limit::At(deadline);
        self
    }

    /// Blocks until the reply is here. Do not call it in a handler that others wait for.
    ///
    /// # Errors
    /// [`RemoteAskError`].
    pub fn wait(self) -> Result<M::Reply, RemoteAskError> {
        let Self { group, msg, limit } = self;
        match group.choose() {
            Chosen::Local(local) => match local.ask_blocking(msg, limit) {
                Err(AskError::Closed(msg)) => {
                    RemoteAsk::with_limit(group.elsewhere(), msg, limit).wait()
                }
                outcome => outcome.map_err(local_error),
            },
            Chosen::Remote(to) => RemoteAsk::with_limit(to, msg, limit).wait(),
        }
    }
}

fn local_error<M>(error: AskError<M>) -> RemoteAskError {
    failure_of(error).into()
}

impl<M: RemoteMessage> IntoFuture for RemoteGroupAsk<M> {
    type Output = Result<M::Reply, RemoteAskError>;
    type IntoFuture = RemoteAskFuture<M>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { group, msg, limit } = self;
            match group.choose() {
                Chosen::Local(local) => match local.ask(msg, limit).await {
                    Err(AskError::Closed(msg)) => {
                        RemoteAsk::with_limit(group.elsewhere(), msg, limit).await
                    }
                    outcome => outcome.map_err(local_error),
                },
                Chosen::Remote(to) => RemoteAsk::with_limit(to, msg, limit).await,
            }
        })
    }
}
