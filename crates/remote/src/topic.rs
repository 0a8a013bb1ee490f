//! A topic over nodes: the subscribers of each node get what any node publishes.
//!
//! ```text
//!   publish ─┬─▶ Topic of this node ──▶ its subscribers
//!            └─▶ a RemoteRef per subscribing node: lane, policy, credit ═══▶ Relay ──▶ Topic of that node
//! ```
//!
//! One message per subscribing node crosses NATS. Each node has its own lane, which never lets the publisher wait. So a slow
//! node misses messages, and the others get all.

use std::sync::Arc;

use freeboard_actor::{
    Actor, ActorRef, Context, Handler, Message, Receives, Recipient, SlowSubscriber, SpawnOptions,
    SubscribeError, Subscription, Topic, TopicOptions,
};
use freeboard_flow::LaneConfig;
use freeboard_meter::TopicSnapshot;
use parking_lot::Mutex;

use crate::{
    error::NodeError,
    find::{Finder, FoundList},
    message::RemoteMessage,
    node::{Node, check_name},
    port::PublishOptions,
    remote_ref::{Published, RemoteOptions},
    wire::NodeId,
};

/// Gives the messages of other nodes to the subscribers of this one.
struct Relay<M: RemoteMessage + Clone>(Topic<M>);

impl<M: RemoteMessage + Clone> Actor for Relay<M> {}

impl<M: RemoteMessage + Clone> Handler<M> for Relay<M> {
    type Reply = ();

    fn handle(&mut self, msg: M, _: &mut Context<Self>) {
        // The topic counts. A subscriber that waits mutes this actor, so the senders get no further credit.
        self.0.publish(msg);
    }
}

/// A topic over nodes. Cheap to clone, usable from any thread. [`Node::topic`] makes it.
///
/// The messages of one publisher reach each subscriber in order, at most once. A node subscribes with its first subscriber,
/// and remains until it leaves. Another node finds that within a heartbeat; what it published earlier does not come.
#[derive(Clone)]
pub struct RemoteTopic<M: RemoteMessage + Clone> {
    inner: Arc<TopicInner<M>>,
}

struct TopicInner<M: RemoteMessage + Clone> {
    node: Node,
    name: String,
    subject: String,
    window: PublishOptions,
    local: Topic<M>,
    found: Arc<FoundList<M>>,
    published: Mutex<Option<Published>>,
}

impl<M: RemoteMessage + Clone> std::fmt::Debug for RemoteTopic<M> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "RemoteTopic({})", self.inner.name)
    }
}

/// What became of a published message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RemotePublish {
    /// At the subscribers of this node.
    pub local: freeboard_actor::Published,
    /// Subscribing nodes whose lanes accepted it.
    pub nodes: u64,
    /// Subscribing nodes that miss it: no credit and a full lane, or down.
    pub nodes_shed: u64,
}

/// A subscribing node, as a publisher knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscribingNode {
    /// The node.
    pub node: NodeId,
    /// Messages sent to it.
    pub delivered: u64,
    /// Messages that it missed: refused or shed by its lane, or never sent because it went down.
    pub shed: u64,
    /// Messages that wait for its credit.
    pub waiting: u64,
    /// Whether there is a session with it.
    pub is_connected: bool,
}

impl Node {
    /// A topic that all nodes share by its name. Make it once and clone it: each one has its own references to the subscribing
    /// nodes, until this node leaves.
    ///
    /// # Errors
    /// [`NodeError::Name`], or [`NodeError::Closed`].
    pub fn topic<M: RemoteMessage<Reply = ()> + Clone>(
        &self,
        name: &str,
    ) -> Result<RemoteTopic<M>, NodeError> {
        self.topic_with(name, RemoteOptions::new(), PublishOptions::new())
    }

    /// [`Node::topic`] with options: of the lane of each subscribing node, and of the window in which this node takes
    /// messages of the others. `window` names no lane.
    ///
    /// # Errors
    /// As there, or an option that is out of range.
    pub fn topic_with<M: RemoteMessage<Reply = ()> + Clone>(
        &self,
        name: &str,
        lane: RemoteOptions,
        window: PublishOptions,
    ) -> Result<RemoteTopic<M>, NodeError> {
        let subject = self.inner.subject(&format!("topic.{}", check_name(name)?));
        // No name of an actor has this form.
        let name = format!("topic:{name}");
        let found = Finder::start(self, name.clone(), subject.clone(), lane, None)?;
        let local = self.system().topic(TopicOptions::new().name(name.clone()));
        Ok(RemoteTopic {
            inner: Arc::new(TopicInner {
                node: self.clone(),
                name,
                subject,
                window,
                local,
                found,
                published: Mutex::default(),
            }),
        })
    }
}

/// An actor could not subscribe to a topic over nodes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteSubscribeError {
    /// As for a topic of one node.
    #[error(transparent)]
    Subscribe(#[from] SubscribeError),
    /// The node could not subscribe.
    #[error(transparent)]
    Node(#[from] NodeError),
}

impl<M: RemoteMessage<Reply = ()> + Clone> RemoteTopic<M> {
    /// Subscribes an actor of this node to what all nodes publish. With [`SlowSubscriber::Wait`] it lets publishers of this
    /// node wait; what other nodes publish waits in the window of this node, and then in their lanes.
    ///
    /// # Errors
    /// [`RemoteSubscribeError`].
    pub fn subscribe(
        &self,
        to: &Recipient<M>,
        slow: SlowSubscriber,
    ) -> Result<Subscription, RemoteSubscribeError> {
        self.relayed(self.inner.local.subscribe(to, slow)?)
    }

    /// [`RemoteTopic::subscribe`] for an actor that gets each message as `map` makes it, as [`Topic::subscribe_with`].
    ///
    /// # Errors
    /// As there.
    pub fn subscribe_with<A: Receives<N>, N: Message>(
        &self,
        to: &ActorRef<A>,
        slow: SlowSubscriber,
        map: impl Fn(M) -> N + Send + Sync + 'static,
    ) -> Result<Subscription, RemoteSubscribeError> {
        self.relayed(self.inner.local.subscribe_with(to, slow, map)?)
    }

    fn relayed(&self, subscription: Subscription) -> Result<Subscription, RemoteSubscribeError> {
        match self.relay() {
            Ok(()) => Ok(subscription),
            Err(error) => {
                subscription.unsubscribe();
                Err(error.into())
            }
        }
    }

    /// Takes the messages of other nodes, from the first subscriber on.
    fn relay(&self) -> Result<(), NodeError> {
        let inner = &*self.inner;
        let mut published = inner.published.lock();
        if published.is_some() {
            return Ok(());
        }
        let bound = usize::try_from(inner.window.messages).unwrap_or(usize::MAX);
        let spawn = SpawnOptions::new().lane(LaneConfig::bounded(bound));
        let system = inner.node.system();
        let relay = system.spawn_once(spawn, Relay(inner.local.clone()));
        let relay = relay.map_err(|error| NodeError::Option(error.to_string()))?;
        let (name, subject) = (&inner.name, inner.subject.clone());
        let window = inner.window.clone().lane(0);
        let entry = inner.node.publish_at::<M, _>(name, subject, &relay, window);
        *published = Some(entry.inspect_err(|_| relay.stop())?);
        // Behind its port, which ends when the relay has handled what was sent to it.
        let node = &inner.node.inner;
        node.when_closed(node.next_id(), move || relay.stop());
        Ok(())
    }

    /// Publishes a message: to each other subscribing node, without waiting, then to the subscribers of this node, as
    /// [`Topic::publish`].
    pub fn publish(&self, msg: M) -> RemotePublish {
        let mut report = RemotePublish::default();
        for it in &*self.inner.found.get() {
            match it.to.try_tell(msg.clone()) {
                Ok(()) => report.nodes += 1,
                Err(_) => report.nodes_shed += 1,
            }
        }
        report.local = self.inner.local.publish(msg);
        report
    }

    /// The counters of the topic on this node, and of its subscribers here.
    pub fn snapshot(&self) -> TopicSnapshot {
        self.inner.local.snapshot()
    }

    /// The other nodes that subscribe now.
    pub fn nodes(&self) -> Vec<SubscribingNode> {
        let found = self.inner.found.get();
        let node = found.iter().map(|it| {
            let counters = it.to.counters();
            SubscribingNode {
                node: it.node.clone(),
                delivered: counters.sent,
                shed: counters.refused + counters.shed + counters.undelivered,
                waiting: it.to.depth(),
                is_connected: it.to.is_connected(),
            }
        });
        node.collect()
    }
}
