//! Which nodes live: heartbeats, and names that are taken.
//!
//! Each node publishes a heartbeat on one subject. A node without one for [`crate::NodeOptions::heartbeat`]'s second time
//! counts as down. This is an estimate: a paused node is down for others, and wakes up later. What must not be done twice is
//! decided by leases and epochs (`directory`), not here.
//!
//! A heartbeat carries a summary of its node, so each node can show all of them.
//!
//! **A joining node** sends itself a message by each way that others will use. It joins when all have come, so it has the
//! permissions that it needs.
//!
//! **A node that was paused** longer than that time gives all others a new chance before it judges them, because it has
//! read no heartbeats meanwhile. If another node has taken its name, it leaves.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use freeboard_actor::{
    Actor, ActorStats, Context, Deferred, DeferredHandler, Handler, StatsDetail,
};
use freeboard_platform::clock;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::{
    engine::{ConnectionEvent, EngineError},
    error::NodeError,
    metrics::PeerSnapshot,
    node::{Change, NodeInner, NodeLease},
    wire::{self, Body, Frame, NodeId},
};

/// Nodes that are down and still shown, at most: then the one that was heard first is forgotten.
const DOWN_MAX: usize = 32;

/// Reading all actors takes at most a hundredth of the time.
const READING_PART: u64 = 100;

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

impl DownReason {
    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::NoHeartbeat => "no_heartbeat",
            Self::Restarted => "restarted",
        }
    }
}

/// What a node says of itself in its heartbeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NodeSummary {
    /// Living actors.
    pub actors: u64,
    /// Messages that living actors have handled per second, lately.
    pub handled_per_second: u64,
    /// Messages in all mailboxes.
    pub depth: u64,
    /// Messages that were not handled to their end, since the start.
    pub dead_letters: u64,
    /// Names that it publishes, with those of its parts of directories and topics.
    pub published: u64,
    /// It has a lease, so it can keep keys of directories.
    pub has_lease: bool,
}

/// What has crossed NATS between this node and another one. Heartbeats are only among what was received, because they are
/// sent to all nodes at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PeerCounters {
    /// Frames sent to the node.
    pub frames_sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Frames received from the node.
    pub frames_received: u64,
    /// Their bytes.
    pub received_bytes: u64,
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

#[derive(Clone, Copy)]
struct Member {
    incarnation: u64,
    heard_ns: u64,
    summary: NodeSummary,
    counters: PeerCounters,
}

/// The nodes that live, and those that are down, to be read from any thread.
#[derive(Default)]
pub(crate) struct Table {
    members: Mutex<BTreeMap<String, Member>>,
    down: Mutex<BTreeMap<String, (Member, DownReason)>>,
}

impl Table {
    pub(crate) fn nodes(&self) -> Vec<NodeInfo> {
        let now_ns = clock::now_ns();
        let members = self.members.lock();
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
        let members = self.members.lock();
        let member = members.get(&node.name);
        member.is_some_and(|it| it.incarnation == node.incarnation)
    }

    /// Whether this node lives and can keep keys, as it said last.
    pub(crate) fn has_lease(&self, node: &NodeId) -> bool {
        let members = self.members.lock();
        let member = members.get(&node.name);
        member.is_some_and(|it| it.incarnation == node.incarnation && it.summary.has_lease)
    }

    /// Whether a node of this name lives, or is down and still shown.
    pub(crate) fn remembers(&self, name: &str) -> bool {
        self.members.lock().contains_key(name) || self.down.lock().contains_key(name)
    }

    /// Those that live, then those that are down; each in the order of their names.
    pub(crate) fn peers(&self) -> Vec<PeerSnapshot> {
        let now_ns = clock::now_ns();
        let peer = |name: &String, member: &Member, down| PeerSnapshot {
            name: name.clone(),
            incarnation: member.incarnation,
            silent_ns: now_ns.saturating_sub(member.heard_ns),
            down,
            summary: member.summary,
            counters: member.counters,
        };
        let members = self.members.lock();
        let mut peers: Vec<_> = members.iter().map(|it| peer(it.0, it.1, None)).collect();
        drop(members);
        let down = self.down.lock();
        peers.extend(down.iter().map(|it| peer(it.0, &it.1.0, Some(it.1.1))));
        peers
    }

    /// Counts a frame to or from a node that lives.
    pub(crate) fn count(&self, node: &NodeId, count: impl FnOnce(&mut PeerCounters)) {
        if let Some(member) = self.members.lock().get_mut(&node.name) {
            count(&mut member.counters);
        }
    }

    /// A node is down, and is shown as that.
    fn keep_down(&self, name: &str, member: Member, reason: DownReason) {
        let mut down = self.down.lock();
        down.insert(name.to_owned(), (member, reason));
        if down.len() > DOWN_MAX {
            let oldest = down.iter().min_by_key(|(_, it)| it.0.heard_ns);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                down.remove(&oldest);
            }
        }
    }
}

/// The route from which a node sends to its own inbox, to see that it may.
const OWN_ROUTE: u64 = 1;

/// How often a joining node looks whether its own messages have come.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Joins: the reply comes when the name is known to be free.
pub(crate) struct Join;

/// Tells the others that this node leaves. The reply: whether the connection has taken it.
pub(crate) struct Leave;

/// A node that may not have been heard yet has a session with this one.
pub(crate) struct Met(pub(crate) NodeId);

/// The engine has said that a subject, which nobody has subscribed, has no subscriber.
pub(crate) struct NoResponders;

enum State {
    New,
    /// There is no connection yet.
    Connecting(Deferred<Result<(), NodeError>>),
    Joining(Deferred<Result<(), NodeError>>),
    Joined,
}

/// The ways by which a joining node has heard itself.
#[derive(Clone, Copy, Default)]
struct HeardItself {
    by_heartbeats: bool,
    by_inbox: bool,
    by_no_responders: bool,
}

impl HeardItself {
    fn is_complete(self) -> bool {
        self.by_heartbeats && self.by_inbox && self.by_no_responders
    }
}

/// The actor that sends and hears heartbeats.
pub(crate) struct Members {
    node: Arc<NodeInner>,
    state: State,
    heard_itself: HeardItself,
    ticked_ns: u64,
    is_up: bool,
    /// Until then another node may have taken the name, because this one was not heard.
    doubtful_until_ns: u64,
    summary: NodeSummary,
    /// When the actors were read, what they had handled, and when they are read again.
    read_ns: u64,
    handled: u64,
    next_read_ns: u64,
    stats: Vec<ActorStats>,
}

impl Members {
    pub(crate) fn new(node: Arc<NodeInner>) -> Self {
        Self {
            node,
            state: State::New,
            heard_itself: HeardItself::default(),
            ticked_ns: 0,
            is_up: false,
            doubtful_until_ns: 0,
            summary: NodeSummary::default(),
            read_ns: 0,
            handled: 0,
            next_read_ns: 0,
            stats: Vec::new(),
        }
    }

    fn down_after_ns(&self) -> u64 {
        self.node.options.down_after.as_nanos() as u64
    }

    /// Whether the connection has taken it.
    fn say(&self, body: &Body) -> bool {
        let frame = wire::encode(&self.node.id, 0, 0, body);
        self.node.publish(&self.node.subject("hb"), frame).is_ok()
    }

    fn tick(&mut self, cx: &mut Context<Self>) {
        let now_ns = clock::now_ns();
        let gap_ns = now_ns.saturating_sub(self.ticked_ns);
        if self.ticked_ns != 0 && gap_ns > self.down_after_ns() {
            self.doubt(now_ns);
        }
        self.ticked_ns = now_ns;
        let is_joining = !matches!(self.state, State::Joined);
        self.summarise(now_ns);
        self.beat(is_joining);
        if is_joining {
            self.send_to_itself();
        }
        self.judge(now_ns);
        // A system without timers ends.
        let _ = cx.wake_after(self.node.options.heartbeat, Self::tick);
    }

    fn beat(&self, is_joining: bool) {
        // If it is lost, the next one comes soon.
        let _ = self.say(&Body::Heartbeat {
            is_joining,
            summary: self.summary,
        });
    }

    /// What is lost is sent again with the next heartbeat.
    fn send_to_itself(&self) {
        let body = Body::Heartbeat {
            is_joining: true,
            summary: self.summary,
        };
        self.node.send(&self.node.id, 0, OWN_ROUTE, &body);
        let nobody = self
            .node
            .subject(&format!("nobody.{:x}", self.node.id.incarnation));
        let reply = self.node.no_responders(0);
        let frame = wire::encode(&self.node.id, 0, 0, &body);
        let engine = &self.node.engine;
        let _ = engine.publish(&nobody, Some(&reply), frame.into());
    }

    /// Reads the actors. With very many of them, not for each heartbeat.
    fn summarise(&mut self, now_ns: u64) {
        let system = &self.node.system;
        let dead_letters = system.dead_letters();
        self.summary.actors = system.actors_alive();
        self.summary.dead_letters = dead_letters.iter().map(|it| it.count).sum();
        self.summary.published = self.node.published_now();
        let lease = self.node.lease.lock();
        let claims = |lease: &NodeLease| lease.1.claims_with().is_some();
        self.summary.has_lease = lease.as_ref().is_some_and(claims);
        drop(lease);
        if now_ns < self.next_read_ns {
            return;
        }
        system.actor_stats_into(StatsDetail::Counters, &mut self.stats);
        let handled = self.stats.iter().map(|it| it.handled).sum::<u64>();
        self.summary.depth = self.stats.iter().map(|it| it.depth).sum();
        // Actors that have terminated take their counts along: then the rate is too low once.
        let recent = u128::from(handled.saturating_sub(self.handled)) * 1_000_000_000;
        let span_ns = u128::from(now_ns.saturating_sub(self.read_ns).max(1));
        if self.read_ns != 0 {
            self.summary.handled_per_second = u64::try_from(recent / span_ns).unwrap_or(u64::MAX);
        }
        (self.read_ns, self.handled) = (now_ns, handled);
        let cost_ns = clock::now_ns().saturating_sub(now_ns);
        self.next_read_ns = now_ns + cost_ns.saturating_mul(READING_PART);
    }

    /// This node was paused or cut off: others had no chance to be heard.
    fn doubt(&mut self, now_ns: u64) {
        self.doubtful_until_ns = now_ns + 2 * self.down_after_ns();
        for member in self.node.table.members.lock().values_mut() {
            member.heard_ns = now_ns;
        }
    }

    fn judge(&self, now_ns: u64) {
        let mut down = Vec::new();
        self.node.table.members.lock().retain(|name, member| {
            let silent_ns = now_ns.saturating_sub(member.heard_ns);
            let is_up = silent_ns <= self.down_after_ns() || *name == self.node.id.name;
            if !is_up {
                down.push((name.clone(), *member));
            }
            is_up
        });
        for (name, member) in down {
            let silent_ns = now_ns.saturating_sub(member.heard_ns);
            let incarnation = member.incarnation;
            let reason = DownReason::NoHeartbeat;
            self.node.table.keep_down(&name, member, reason);
            self.tell_down(NodeId { name, incarnation }, reason, silent_ns);
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

    fn heard(
        &mut self,
        from: NodeId,
        is_joining: bool,
        summary: NodeSummary,
        cx: &mut Context<Self>,
    ) {
        if from.name == self.node.id.name && from != self.node.id {
            self.meet_namesake(&from, is_joining, cx);
            return;
        }
        if is_joining && from != self.node.id {
            return;
        }
        let now_ns = clock::now_ns();
        let was_down = self.node.table.down.lock().remove(&from.name);
        let before = {
            let mut members = self.node.table.members.lock();
            let before = members
                .get(&from.name)
                .map(|it| (it.incarnation, it.heard_ns, it.summary.has_lease));
            let member = members.entry(from.name.clone()).or_insert(Member {
                incarnation: from.incarnation,
                heard_ns: now_ns,
                summary,
                // They count on by the node's name.
                counters: was_down.map_or_else(PeerCounters::default, |it| it.0.counters),
            });
            member.incarnation = from.incarnation;
            (member.heard_ns, member.summary) = (now_ns, summary);
            before
        };
        match before {
            Some((incarnation, _, had_lease)) if incarnation == from.incarnation => {
                if had_lease != summary.has_lease {
                    self.node.announce(&Change::Lease);
                }
            }
            before => {
                if let Some((incarnation, heard_ns, _)) = before {
                    let node = NodeId {
                        incarnation,
                        ..from.clone()
                    };
                    let silent_ns = now_ns.saturating_sub(heard_ns);
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

    fn give_up(&mut self, cx: &mut Context<Self>) {
        let error = match self.state {
            State::Connecting(_) => EngineError::Offline,
            State::Joining(_) => {
                EngineError::Unknown("a message of this node to itself did not come".to_owned())
            }
            State::New | State::Joined => return,
        };
        self.refuse(error, cx);
    }

    fn refuse(&mut self, error: EngineError, cx: &mut Context<Self>) {
        let state = std::mem::replace(&mut self.state, State::New);
        if let State::Connecting(reply) | State::Joining(reply) = state {
            reply.reply(Err(error.into()));
        }
        cx.stop();
    }

    fn joined(&mut self, cx: &mut Context<Self>) {
        if !matches!(self.state, State::Joining(_)) {
            return;
        }
        if !self.heard_itself.is_complete() {
            if let Some(subject) = self.node.engine.denied() {
                let why = format!("no permission for subject {subject}");
                return self.refuse(EngineError::Refused(why), cx);
            }
            // A system without timers ends.
            let _ = cx.wake_after(LOOK_INTERVAL, Self::joined);
            return;
        }
        if let State::Joining(reply) = std::mem::replace(&mut self.state, State::Joined) {
            // From now on it is a member for itself and others.
            self.heard(self.node.id.clone(), false, self.summary, cx);
            self.beat(false);
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
    type Reply = bool;

    fn handle(&mut self, _: Leave, _: &mut Context<Self>) -> bool {
        self.say(&Body::Leave)
    }
}

impl Handler<Met> for Members {
    type Reply = ();

    fn handle(&mut self, Met(node): Met, cx: &mut Context<Self>) {
        let is_known = self.node.table.members.lock().contains_key(&node.name);
        if !is_known {
            self.heard(node, false, NodeSummary::default(), cx);
        }
    }
}

impl Handler<NoResponders> for Members {
    type Reply = ();

    fn handle(&mut self, _: NoResponders, _: &mut Context<Self>) {
        self.heard_itself.by_no_responders = true;
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
            Body::Heartbeat {
                is_joining,
                summary,
            } => {
                if frame.from == self.node.id {
                    let heard = &mut self.heard_itself;
                    match frame.from_route {
                        OWN_ROUTE => heard.by_inbox = true,
                        _ => heard.by_heartbeats = true,
                    }
                }
                self.heard(frame.from, is_joining, summary, cx);
            }
            Body::Leave if frame.from != self.node.id => {
                let removed = {
                    let mut members = self.node.table.members.lock();
                    let is_it = |it: &Member| it.incarnation == frame.from.incarnation;
                    let is_there = members.get(&frame.from.name).is_some_and(is_it);
                    is_there.then(|| members.remove(&frame.from.name)).flatten()
                };
                if let Some(member) = removed {
                    let (name, reason) = (&frame.from.name, DownReason::Left);
                    self.node.table.keep_down(name, member, reason);
                    self.tell_down(frame.from, reason, 0);
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
