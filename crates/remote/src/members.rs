//! Which nodes live: heartbeats, and names that are taken.
//!
//! Each node publishes a heartbeat on one subject. A node without one for [`crate::NodeOptions::heartbeat`]'s second time
//! counts as down. This is an estimate: a paused node is down for others, and wakes up later. What must not be done twice is
//! decided by leases and epochs (`directory`), not here.
//!
//! **A node that was paused** longer than that time gives all others a new chance before it judges them, because it has
//! read no heartbeats meanwhile. If another node has taken its name, it leaves.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use freeboard_actor::{Actor, Context, Deferred, DeferredHandler, Handler};
use freeboard_platform::clock;
use parking_lot::Mutex;

use crate::{
    engine::{ConnectionEvent, EngineError},
    error::NodeError,
    node::{Change, NodeInner},
    wire::{self, Body, Frame, NodeId},
};

/// Why a node went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DownReason {
    /// It has left in order.
    Left,
    /// No heartbeat came in time.
    NoHeartbeat,
    /// A new start of the node is there.
    Restarted,
}

/// A node has come or gone.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeChange {
    /// It lives.
    Up(NodeId),
    /// It is down, as far as this node knows.
    Down {
        /// The node.
        node: NodeId,
        /// Why.
        reason: DownReason,
        /// The time since its last heartbeat.
        silent: Duration,
    },
}

/// A node that lives.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeInfo {
    /// The node.
    pub id: NodeId,
    /// The time since its last heartbeat.
    pub silent: Duration,
}

struct Member {
    incarnation: u64,
    heard_ns: u64,
}

/// The nodes that live, to be read from any thread.
#[derive(Default)]
pub(crate) struct Table(Mutex<BTreeMap<String, Member>>);

impl Table {
    pub(crate) fn nodes(&self) -> Vec<NodeInfo> {
        let now_ns = clock::now_ns();
        let members = self.0.lock();
        let info = members.iter().map(|(name, member)| NodeInfo {
            id: NodeId {
                name: name.clone(),
                incarnation: member.incarnation,
            },
            silent: Duration::from_nanos(now_ns.saturating_sub(member.heard_ns)),
        });
        info.collect()
    }

    pub(crate) fn is_up(&self, node: &NodeId) -> bool {
        let members = self.0.lock();
        let member = members.get(&node.name);
        member.is_some_and(|it| it.incarnation == node.incarnation)
    }
}

/// Joins: the reply comes when the name is known to be free.
pub(crate) struct Join;

/// Tells the others that this node leaves.
pub(crate) struct Leave;

enum State {
    New,
    /// There is no connection yet.
    Connecting(Deferred<Result<(), NodeError>>),
    Joining(Deferred<Result<(), NodeError>>),
    Joined,
}

/// The actor that sends and hears heartbeats.
pub(crate) struct Members {
    node: Arc<NodeInner>,
    state: State,
    sent: u64,
    ticked_ns: u64,
    is_up: bool,
    /// Until then another node may have taken the name, because this one was not heard.
    doubtful_until_ns: u64,
}

impl Members {
    pub(crate) fn new(node: Arc<NodeInner>) -> Self {
        Self {
            node,
            state: State::New,
            sent: 0,
            ticked_ns: 0,
            is_up: false,
            doubtful_until_ns: 0,
        }
    }

    fn down_after_ns(&self) -> u64 {
        self.node.options.down_after.as_nanos() as u64
    }

    fn say(&self, body: &Body) {
        let frame = wire::encode(&self.node.id, 0, 0, body);
        // The next one comes soon.
        let _ = self.node.publish(&self.node.subject("hb"), frame);
    }

    fn tick(&mut self, cx: &mut Context<Self>) {
        let now_ns = clock::now_ns();
        let gap_ns = now_ns.saturating_sub(self.ticked_ns);
        if self.ticked_ns != 0 && gap_ns > self.down_after_ns() {
            self.doubt(now_ns);
        }
        self.ticked_ns = now_ns;
        let is_joining = !matches!(self.state, State::Joined);
        self.sent += 1;
        self.say(&Body::Heartbeat {
            sent: self.sent,
            is_joining,
        });
        self.judge(now_ns);
        // A system without timers ends.
        let _ = cx.wake_after(self.node.options.heartbeat, Self::tick);
    }

    /// This node was paused or cut off: others had no chance to be heard.
    fn doubt(&mut self, now_ns: u64) {
        self.doubtful_until_ns = now_ns + 2 * self.down_after_ns();
        for member in self.node.table.0.lock().values_mut() {
            member.heard_ns = now_ns;
        }
    }

    fn judge(&self, now_ns: u64) {
        let mut down = Vec::new();
        self.node.table.0.lock().retain(|name, member| {
            let silent_ns = now_ns.saturating_sub(member.heard_ns);
            let is_up = silent_ns <= self.down_after_ns() || *name == self.node.id.name;
            if !is_up {
                let incarnation = member.incarnation;
                let name = name.clone();
                down.push((NodeId { name, incarnation }, silent_ns));
            }
            is_up
        });
        for (node, silent_ns) in down {
            self.tell_down(node, DownReason::NoHeartbeat, silent_ns);
        }
    }

    fn tell_down(&self, node: NodeId, reason: DownReason, silent_ns: u64) {
        tracing::info!("node {node} is down: {reason:?}");
        let silent = Duration::from_nanos(silent_ns);
        let change = NodeChange::Down {
            node,
            reason,
            silent,
        };
        self.node.announce(&Change::Node(change));
    }

    fn heard(&mut self, from: NodeId, is_joining: bool, cx: &mut Context<Self>) {
        if from.name == self.node.id.name && from != self.node.id {
            self.meet_namesake(&from, is_joining, cx);
            return;
        }
        if is_joining && from != self.node.id {
            return;
        }
        let now_ns = clock::now_ns();
        let before = {
            let mut members = self.node.table.0.lock();
            let member = Member {
                incarnation: from.incarnation,
                heard_ns: now_ns,
            };
            members.insert(from.name.clone(), member)
        };
        match before {
            Some(before) if before.incarnation == from.incarnation => {}
            before => {
                if let Some(before) = before {
                    let node = NodeId {
                        incarnation: before.incarnation,
                        ..from.clone()
                    };
                    let silent_ns = now_ns.saturating_sub(before.heard_ns);
                    self.tell_down(node, DownReason::Restarted, silent_ns);
                }
                tracing::info!("node {from} is up");
                self.node.announce(&Change::Node(NodeChange::Up(from)));
            }
        }
    }

    /// Another node has this one's name.
    fn meet_namesake(&mut self, other: &NodeId, is_joining: bool, cx: &mut Context<Self>) {
        let is_joined = matches!(self.state, State::Joined);
        let is_doubtful = clock::now_ns() < self.doubtful_until_ns;
        if is_joined && (is_joining || !is_doubtful) || !is_joined && self.node.id < *other {
            self.node.send(other, 0, 0, &Body::NameTaken);
        } else {
            self.lose_name(cx);
        }
    }

    fn lose_name(&mut self, cx: &mut Context<Self>) {
        let name = self.node.id.name.clone();
        tracing::error!("the name of this node, `{name}`, is taken by another: it leaves");
        if let State::Joining(reply) = std::mem::replace(&mut self.state, State::New) {
            reply.reply(Err(NodeError::NameTaken(name)));
        }
        self.node.close();
        cx.stop();
    }

    /// Asks for the name, once there is a connection.
    fn begin(&mut self, cx: &mut Context<Self>) {
        if !self.is_up {
            return;
        }
        match std::mem::replace(&mut self.state, State::New) {
            State::Connecting(reply) => {
                self.state = State::Joining(reply);
                self.tick(cx);
                let _ = cx.wake_after(self.node.options.join_time, Self::joined);
            }
            other => self.state = other,
        }
    }

    fn give_up(&mut self, _: &mut Context<Self>) {
        match std::mem::replace(&mut self.state, State::New) {
            State::Connecting(reply) => reply.reply(Err(EngineError::Offline.into())),
            other => self.state = other,
        }
    }

    fn joined(&mut self, cx: &mut Context<Self>) {
        if !matches!(self.state, State::Joining(_)) {
            return;
        }
        if let State::Joining(reply) = std::mem::replace(&mut self.state, State::Joined) {
            // From now on it is a member for itself and others.
            self.heard(self.node.id.clone(), false, cx);
            self.say(&Body::Heartbeat {
                sent: self.sent,
                is_joining: false,
            });
            reply.reply(Ok(()));
        }
    }
}

impl Actor for Members {
    /// Also when the system ends without [`crate::Node::leave`].
    fn stopped(&mut self, _: &mut Context<Self>) {
        self.node.close();
    }
}

impl DeferredHandler<Join> for Members {
    type Reply = Result<(), NodeError>;

    fn handle(&mut self, _: Join, reply: Deferred<Self::Reply>, cx: &mut Context<Self>) {
        self.state = State::Connecting(reply);
        self.begin(cx);
        let _ = cx.wake_after(self.node.options.connect_time, Self::give_up);
    }
}

impl Handler<Leave> for Members {
    type Reply = ();

    fn handle(&mut self, _: Leave, _: &mut Context<Self>) {
        self.say(&Body::Leave);
    }
}

impl Handler<ConnectionEvent> for Members {
    type Reply = ();

    fn handle(&mut self, event: ConnectionEvent, cx: &mut Context<Self>) {
        match event {
            ConnectionEvent::Up => {
                self.is_up = true;
                if matches!(self.state, State::Joined) {
                    self.doubt(clock::now_ns());
                }
                self.begin(cx);
            }
            ConnectionEvent::Down => self.is_up = false,
            ConnectionEvent::Writable => {}
        }
    }
}

impl Handler<Frame> for Members {
    type Reply = ();

    fn handle(&mut self, frame: Frame, cx: &mut Context<Self>) {
        match frame.body {
            Body::Heartbeat { is_joining, .. } => self.heard(frame.from, is_joining, cx),
            Body::Leave if frame.from != self.node.id => {
                let removed = {
                    let mut members = self.node.table.0.lock();
                    let is_it = |it: &Member| it.incarnation == frame.from.incarnation;
                    let is_there = members.get(&frame.from.name).is_some_and(is_it);
                    is_there.then(|| members.remove(&frame.from.name))
                };
                if removed.is_some() {
                    self.tell_down(frame.from, DownReason::Left, 0);
                }
            }
            Body::NameTaken => {
                let is_doubtful = clock::now_ns() < self.doubtful_until_ns;
                if !matches!(self.state, State::Joined) || is_doubtful {
                    self.lose_name(cx);
                }
            }
            _ => {}
        }
    }
}
