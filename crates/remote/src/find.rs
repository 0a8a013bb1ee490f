//! All actors that are published under one subject, on all other nodes, each with a reference.
//!
//! ```text
//!   Finder ──Find, to the subject──▶ ports ──Member: own subject──▶ Finder ──▶ a RemoteRef per port
//! ```
//!
//! It asks again and again, so new ones are found within a heartbeat. One that nobody reaches any more is forgotten once its
//! proxy holds nothing.

use std::{mem, sync::Arc, time::Duration};

use freeboard_actor::{Actor, Context, Handler, SpawnOptions};
use freeboard_flow::LaneConfig;
use parking_lot::RwLock;

use crate::{
    error::NodeError,
    message::RemoteMessage,
    node::{Arrived, CONTROL_BOUND, Node, NodeInner},
    proxy::Status,
    remote_ref::{RemoteOptions, RemoteRef},
    wire::{self, Body, NodeId},
};

/// The time to the second attempt. It doubles, up to a heartbeat.
const FIND_MIN: Duration = Duration::from_millis(20);

/// One that was found.
#[derive(Debug)]
pub(crate) struct Found<M> {
    pub(crate) node: NodeId,
    subject: String,
    pub(crate) to: RemoteRef<M>,
}

type List<M> = Arc<[Arc<Found<M>>]>;

/// Those that are found now, to be read from any thread.
#[derive(Debug)]
pub(crate) struct FoundList<M>(RwLock<List<M>>);

impl<M> FoundList<M> {
    pub(crate) fn get(&self) -> List<M> {
        self.0.read().clone()
    }
}

/// A port has answered.
struct Member {
    node: NodeId,
    subject: String,
}

pub(crate) struct Finder<M: RemoteMessage> {
    node: Arc<NodeInner>,
    id: u64,
    /// Of the references, before `@` and the node's name.
    name: String,
    subject: String,
    options: RemoteOptions,
    /// A reference that finds one by itself: that one needs no other.
    any: Option<RemoteRef<M>>,
    found: Arc<FoundList<M>>,
    wait: Duration,
}

impl<M: RemoteMessage> Finder<M> {
    /// Finds until the node leaves.
    pub(crate) fn start(
        node: &Node,
        name: String,
        subject: String,
        options: RemoteOptions,
        any: Option<RemoteRef<M>>,
    ) -> Result<Arc<FoundList<M>>, NodeError> {
        let inner = &node.inner;
        if inner.is_closed() {
            return Err(NodeError::Closed);
        }
        let found = Arc::new(FoundList(RwLock::new(Arc::new([]))));
        let finder = Self {
            node: inner.clone(),
            id: inner.next_id(),
            name,
            subject,
            options,
            any,
            found: found.clone(),
            wait: FIND_MIN,
        };
        let spawn = SpawnOptions::new().lane(LaneConfig::bounded(CONTROL_BOUND));
        let finder = inner.system.spawn_once(spawn, finder);
        finder.map_err(|error| NodeError::Option(error.to_string()))?;
        Ok(found)
    }

    fn has_ended(&self) -> bool {
        self.node.is_closed() || self.node.is_leaving()
    }

    fn tick(&mut self, cx: &mut Context<Self>) {
        if self.has_ended() {
            cx.stop();
            return;
        }
        self.forget();
        let body = Body::Find {
            asker: self.id,
            type_name: M::NAME.to_owned(),
            type_version: M::VERSION,
        };
        let frame = wire::encode(&self.node.id, self.id, 0, &body);
        // One that is not sent is sent again.
        let _ = self.node.publish(&self.subject, frame);
        let _ = cx.wake_after(self.wait, Self::tick);
        self.wait = (self.wait * 2).min(self.node.options.heartbeat);
    }

    /// Removes those that nobody reaches. What they held has failed, and is counted.
    fn forget(&self) {
        let is_gone = |it: &Arc<Found<M>>| {
            let status = it.to.shared.status();
            matches!(status, Status::Unreachable | Status::Refused) && it.to.depth() == 0
        };
        let list = self.found.get();
        let (gone, kept): (Vec<_>, Vec<_>) = list.iter().cloned().partition(is_gone);
        if !gone.is_empty() {
            self.set(kept);
            for it in gone {
                it.to.end();
            }
        }
    }

    fn set(&self, list: Vec<Arc<Found<M>>>) {
        // Dropped without the lock.
        let _old = mem::replace(&mut *self.found.0.write(), list.into());
    }
}

impl<M: RemoteMessage> Actor for Finder<M> {
    fn started(&mut self, cx: &mut Context<Self>) {
        let me = cx.actor_ref();
        self.node.add_route(self.id, move |arrived| {
            if let Arrived::Frame(frame) = arrived
                && let Body::Member { subject } = frame.body
            {
                let node = frame.from;
                // The next attempt finds it.
                let _ = me.try_tell(Member { node, subject });
            }
        });
        self.tick(cx);
    }

    fn stopped(&mut self, _: &mut Context<Self>) {
        self.node.remove_route(self.id);
    }
}

impl<M: RemoteMessage> Handler<Member> for Finder<M> {
    type Reply = ();

    fn handle(&mut self, member: Member, _: &mut Context<Self>) {
        let Member { node, subject } = member;
        let list = self.found.get();
        let is_known = list.iter().any(|it| it.subject == subject);
        // `any` may still become the reference to this one.
        let is_any = |any: &RemoteRef<M>| any.node().is_none_or(|it| it == node);
        let has_any = self.any.as_ref().is_some_and(is_any);
        if node == self.node.id || is_known || has_any || self.has_ended() {
            return;
        }
        let owner = Node {
            inner: self.node.clone(),
        };
        let name = format!("{}@{}", self.name, node.name);
        // Another attempt follows.
        if let Ok(to) = owner.remote_at(&name, subject.clone(), self.options.clone()) {
            let new = Arc::new(Found { node, subject, to });
            self.set(list.iter().cloned().chain([new]).collect());
        }
    }
}
