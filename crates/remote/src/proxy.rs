//! The sender's side: an actor in this process that stands for one in another.
//!
//! ```text
//!   RemoteRef ──▶ lane: bound, policy ──▶ Proxy: credit, frames ──▶ engine ═══▶ Port ──▶ actor
//!                                           ▲  replies, grants ◀── engine ◀═══════┘
//! ```
//!
//! The lane is an ordinary lane. While the proxy has no credit it handles none of its messages, so the lane fills up, and
//! its policy applies: wait, reject, drop the oldest, coalesce, sample, shed by age. Deadlines apply there, too.
//!
//! **A session** begins with `Open` to the name's subject and `Opened` from the port. All positions count from there. It ends
//! with the connection, the node, or the actor: asks that were sent and have no reply are lost then, and what waits in the
//! lane goes to the next session.
//!
//! **No ask waits for ever** although NATS delivers at most once. Frames of data carry their position, so the port sees a gap
//! and says so. Frames of replies are numbered. While asks are pending, a probe at each heartbeat asks for both counts:
//! frames of one sender stay in order, so what is missing then is lost. An idle session is probed, too, but more rarely: the
//! port that has no such session says so.

mod receive;
mod shared;

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use bytes::Bytes;
use freeboard_actor::{Actor, Context, Deferred, DeferredHandler, Handler, Recipient};
use freeboard_platform::clock;

use crate::{
    engine::{ConnectionEvent, EngineError},
    error::Failure,
    members::NodeChange,
    node::{Arrived, Change, NodeInner},
    wire::{self, Amount, Body, Frame, ItemHead, NodeId},
};

pub(crate) use shared::{ProxyShared, Status};

/// The lane of control messages, and that of messages.
pub(crate) const CONTROL_LANE: usize = 0;
pub(crate) const MESSAGE_LANE: usize = 1;

/// Of a frame, unless the server takes less: see [`NodeInner::frame_bytes`].
pub(crate) const FRAME_BYTES: usize = 32 * 1_024;

/// The head of an item takes fewer.
pub(crate) const HEAD_BYTES: usize = 64;

/// A frame is sent after this time, if the messages that wait are all shed.
pub(crate) const FRAME_TIME: Duration = Duration::from_millis(1);

/// The time between two attempts to open a session: the first one, and the longest.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(1);

/// An encoded message.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    pub(crate) payload: Bytes,
    pub(crate) key: Option<u64>,
    /// For an ask that may be sent again.
    pub(crate) request: Option<u64>,
    /// How often it may be sent again.
    pub(crate) attempts: u32,
    /// It was sent before, so it may have been handled.
    pub(crate) was_sent: bool,
    pub(crate) trace: Option<(u128, u64, bool)>,
}

/// What a proxy can be told.
pub(crate) enum Control {
    Frame(Frame),
    NoResponders,
    Change(Change),
    /// End when all that was accepted is sent and answered.
    Drain,
    /// There is no reference any more: drain, but not before those who watch are told.
    Unreferenced,
    /// Tell of the end of the remote actor.
    Watch(Recipient<RemoteTerminated>),
}

/// A remote actor has terminated, or cannot be reached any more.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoteTerminated {
    /// The name that it was published under.
    pub name: String,
    /// The node that it was on.
    pub node: Option<NodeId>,
    /// Why.
    pub reason: RemoteExit,
}

/// Why a remote actor is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RemoteExit {
    /// It has terminated.
    Terminated,
    /// Its node is down, as far as this node knows.
    NodeDown,
    /// The connection of this node to NATS broke.
    Disconnected,
}

type Reply = Result<Bytes, Failure>;

/// An ask that was sent.
struct Sent {
    reply: Deferred<Reply>,
    /// To be sent again.
    again: Option<Outgoing>,
    /// It was sent before.
    was_sent: bool,
}

struct Session {
    peer: NodeId,
    port: u64,
    id: u64,
    window: Amount,
    limit: Amount,
    sent: Amount,
    /// The next number of a frame of replies.
    replies: u64,
    asks: BTreeMap<u64, Sent>,
    wants: bool,
}

/// A frame of data that is being filled.
#[derive(Default)]
struct Filling {
    items: Vec<u8>,
    count: u32,
    before: Amount,
    has_timer: bool,
}

pub(crate) struct Proxy {
    node: Arc<NodeInner>,
    id: u64,
    /// Where sessions are opened.
    subject: String,
    type_name: &'static str,
    type_version: u32,
    shared: Arc<ProxyShared>,
    session: Option<Session>,
    /// Of the session that is opened now, or was opened last.
    opening: u64,
    /// A port has refused, and perhaps another one opens.
    refused: Option<String>,
    filling: Filling,
    /// The next message, without credit; then those that are sent again.
    held: VecDeque<(Outgoing, Deferred<Reply>)>,
    retry: Duration,
    opening_since_ns: u64,
    is_retrying: bool,
    is_probing: bool,
    has_idle_timer: bool,
    is_busy: bool,
    is_unreferenced: bool,
    watchers: Vec<Recipient<RemoteTerminated>>,
}

impl Proxy {
    pub(crate) fn new(
        node: Arc<NodeInner>,
        subject: String,
        (type_name, type_version): (&'static str, u32),
        shared: Arc<ProxyShared>,
    ) -> Self {
        Self {
            id: node.next_id(),
            opening: node.next_id(),
            refused: None,
            node,
            subject,
            type_name,
            type_version,
            shared,
            session: None,
            filling: Filling::default(),
            held: VecDeque::new(),
            retry: RETRY_MIN,
            opening_since_ns: clock::now_ns(),
            is_retrying: false,
            is_probing: false,
            has_idle_timer: false,
            is_busy: false,
            is_unreferenced: false,
            watchers: Vec::new(),
        }
    }

    /// Whether there has been no session for this time.
    fn is_opening_for(&self, time: Duration) -> bool {
        let waited_ns = clock::now_ns().saturating_sub(self.opening_since_ns);
        self.session.is_none() && waited_ns >= time.as_nanos() as u64
    }

    /// Opens a session, and tries again until there is one.
    fn open(&mut self, cx: &mut Context<Self>) {
        self.is_retrying = false;
        if self.session.is_some() || self.node.is_closed() {
            return;
        }
        if let Some(why) = self.refused.take() {
            self.give_up(Status::Refused, &why, cx);
        } else if self.is_opening_for(self.node.options.down_after)
            && self.shared.status() == Status::Opening
        {
            self.give_up(Status::Unreachable, "nobody answers", cx);
        }
        let body = Body::Open {
            proxy: self.id,
            opening: self.opening,
            type_name: self.type_name.to_owned(),
            type_version: self.type_version,
        };
        let frame = wire::encode(&self.node.id, self.id, 0, &body);
        let reply = self.node.no_responders(self.id);
        // One that is not sent is sent again.
        let _ = self
            .node
            .engine
            .publish(&self.subject, Some(&reply), frame.into());
        self.retry_later(cx);
    }

    fn retry_later(&mut self, cx: &mut Context<Self>) {
        if !self.is_retrying {
            self.is_retrying = true;
            // Without timers the system ends.
            let _ = cx.wake_after(self.retry, Self::open);
            self.retry = (self.retry * 2).min(RETRY_MAX);
        }
    }

    /// The node has left, or its system ends: nothing is sent any more.
    fn close(&mut self, cx: &mut Context<Self>) {
        let why = "this node has left";
        self.end_session(RemoteExit::Disconnected, why, cx);
        self.give_up(Status::Unreachable, why, cx);
    }

    /// Messages fail at once until a session opens.
    fn give_up(&mut self, status: Status, why: &str, cx: &mut Context<Self>) {
        self.shared.set(status, why);
        for (msg, reply) in mem::take(&mut self.held) {
            self.fail(&msg, reply);
        }
        self.set_unfinished(cx);
        cx.resume_lane(MESSAGE_LANE);
    }

    fn fail(&self, msg: &Outgoing, reply: Deferred<Reply>) {
        self.refuse(msg.was_sent, reply, self.shared.failure());
    }

    /// It is not sent. If it was sent before, it may have been handled then.
    fn refuse(&self, was_sent: bool, reply: Deferred<Reply>, failure: Failure) {
        if was_sent {
            self.shared.lost.add(1);
            reply.reply(Err(failure.into_lost()));
        } else {
            self.shared.undelivered.add(1);
            reply.reply(Err(failure));
        }
    }

    fn set_unfinished(&self, cx: &mut Context<Self>) {
        let waiting = self.held.len() as u64 + u64::from(self.filling.count);
        // Ordering: Relaxed, a gauge.
        self.shared.held.store(waiting, Ordering::Relaxed);
        let has_asks = self.session.as_ref().is_some_and(|it| !it.asks.is_empty());
        cx.set_unfinished(has_asks || !self.held.is_empty() || self.filling.count > 0);
    }

    /// A graceful stop would close the lane of grants and replies, too: so this actor stops itself.
    fn end_if_drained(&mut self, cx: &mut Context<Self>) {
        self.flush(cx);
        self.set_unfinished(cx);
        let has_asks = self.session.as_ref().is_some_and(|it| !it.asks.is_empty());
        if !has_asks && self.held.is_empty() && self.filling.count == 0 && cx.depth() == 0 {
            cx.stop();
        } else {
            let _ = cx.wake_after(FRAME_TIME, Self::end_if_drained);
        }
    }

    fn publish_credit(&self) {
        let left = self
            .session
            .as_ref()
            .map_or(0, |it| it.limit.minus(it.sent).messages);
        // Ordering: Relaxed, an estimate for routers and a gauge.
        self.shared.credit.store(left, Ordering::Relaxed);
    }

    /// Sends what is held, as far as the credit reaches, then lets the lane go on.
    fn go_on(&mut self, cx: &mut Context<Self>) {
        while let Some((msg, reply)) = self.held.pop_front() {
            if let Err(held) = self.append(msg, reply, cx) {
                self.held.push_front(held);
                break;
            }
            cx.note_progress();
        }
        if cx.depth() == 0 {
            self.flush(cx);
        }
        if self.held.is_empty() && !self.is_busy {
            cx.resume_lane(MESSAGE_LANE);
        }
        self.publish_credit();
        self.set_unfinished(cx);
    }

    /// Puts a message into the frame, if there is credit for it.
    #[expect(
        clippy::result_large_err,
        reason = "it is moved to where it waits, once"
    )]
    fn append(
        &mut self,
        msg: Outgoing,
        reply: Deferred<Reply>,
        cx: &mut Context<Self>,
    ) -> Result<(), (Outgoing, Deferred<Reply>)> {
        let len = msg.payload.len() as u64;
        // The deadline may have passed while it was held.
        let left = reply.deadline().map(time_left);
        if left == Some(None) {
            self.refuse(msg.was_sent, reply, Failure::Expired);
            return Ok(());
        }
        let left_us = left.flatten().map(|left| left.as_micros() as u64);
        let Some(session) = self.session.as_mut().filter(|_| !self.is_busy) else {
            return Err((msg, reply));
        };
        if len > session.window.bytes {
            let most = session.window.bytes;
            let why = format!("it has {len} bytes, the actor takes {most}");
            self.refuse(msg.was_sent, reply, Failure::TooLarge(why));
            return Ok(());
        }
        let left = session.limit.minus(session.sent);
        if left.messages == 0 || left.bytes < len {
            if !session.wants {
                session.wants = true;
                let (session, bytes) = (session.id, len);
                self.flush(cx);
                self.say(&Body::Want { session, bytes });
                // It may be lost.
                self.probe_later(cx);
            }
            return Err((msg, reply));
        }
        if self.filling.count == 0 {
            self.filling.before = session.sent;
        } else if self.filling.items.len() + msg.payload.len() + HEAD_BYTES
            > self.node.frame_bytes()
        {
            self.flush(cx);
            return self.append(msg, reply, cx);
        }
        let wants_reply = reply.is_wanted();
        let head = ItemHead {
            wants_reply,
            left_us,
            request: msg.request,
            trace: msg.trace,
            len: len as u32,
        };
        let items = mem::take(&mut self.filling.items);
        self.filling.items = wire::append(items, &head, &msg.payload);
        self.filling.count += 1;
        let sequence = session.sent.messages;
        session.sent.add(Amount::new(1, len));
        if wants_reply {
            let sent = Sent {
                reply,
                was_sent: msg.was_sent,
                again: (msg.attempts > 0).then_some(msg),
            };
            session.asks.insert(sequence, sent);
        }
        Ok(())
    }

    /// Sends the frame.
    fn flush(&mut self, cx: &mut Context<Self>) {
        let Some(session) = self.session.as_ref().filter(|_| self.filling.count > 0) else {
            return;
        };
        let body = Body::Data {
            session: session.id,
            before: self.filling.before,
            count: self.filling.count,
        };
        let mut frame = wire::encode(&self.node.id, self.id, session.port, &body);
        frame.extend_from_slice(&self.filling.items);
        match self.node.publish_to(&session.peer, frame) {
            Ok(()) => {
                let bytes = session.sent.minus(self.filling.before).bytes;
                self.shared.sent.add(u64::from(self.filling.count));
                self.shared.sent_bytes.add(bytes);
                self.filling.items.clear();
                self.filling.count = 0;
                self.shared.frames.add(1);
                self.probe_later(cx);
            }
            Err(EngineError::Busy) => {
                self.is_busy = true;
                cx.pause_handling(MESSAGE_LANE);
            }
            Err(error) => self.end_session(RemoteExit::Disconnected, &error.to_string(), cx),
        }
    }

    fn flush_late(&mut self, cx: &mut Context<Self>) {
        self.filling.has_timer = false;
        self.flush(cx);
        self.set_unfinished(cx);
    }

    fn probe_later(&mut self, cx: &mut Context<Self>) {
        let has_asks = self.session.as_ref().is_some_and(|it| !it.asks.is_empty());
        let is_wanting = self.session.as_ref().is_some_and(|it| it.wants);
        if (has_asks || is_wanting) && !self.is_probing {
            self.is_probing = true;
            let _ = cx.wake_after(self.node.options.heartbeat, Self::probe);
        }
    }

    fn probe(&mut self, cx: &mut Context<Self>) {
        self.is_probing = false;
        self.flush(cx);
        let Some(session) = &mut self.session else {
            return;
        };
        // Whoever has given up waits for nothing.
        session.asks.retain(|_, sent| sent.reply.is_wanted());
        if !session.asks.is_empty() || session.wants {
            let wants = match self.held.front() {
                Some((msg, _)) if session.wants => (msg.payload.len() as u64).max(1),
                _ => 0,
            };
            self.say_probe(wants);
        }
        // The first one that waits may have expired.
        self.go_on(cx);
        self.probe_later(cx);
    }

    fn say_probe(&self, wants: u64) {
        if let Some(session) = &self.session {
            let body = Body::Probe {
                session: session.id,
                sent: self.sent(),
                wants,
            };
            self.say(&body);
        }
    }

    /// Asks an idle port from time to time: that the session has ended may not have been heard.
    fn probe_idle(&mut self, cx: &mut Context<Self>) {
        self.has_idle_timer = false;
        if self.session.is_some() {
            self.flush(cx);
            self.say_probe(0);
            self.probe_idle_later(cx);
        }
    }

    fn probe_idle_later(&mut self, cx: &mut Context<Self>) {
        if !self.has_idle_timer {
            self.has_idle_timer = true;
            let _ = cx.wake_after(self.node.options.down_after, Self::probe_idle);
        }
    }

    /// What has left this node: a full connection may hold the frame back.
    fn sent(&self) -> Amount {
        match &self.session {
            Some(session) if self.filling.count == 0 => session.sent,
            _ => self.filling.before,
        }
    }

    fn say(&self, body: &Body) {
        if let Some(session) = &self.session {
            self.node.send(&session.peer, session.port, self.id, body);
        }
    }

    /// What was sent and has no answer is lost; then the next session is opened.
    fn end_session(&mut self, exit: RemoteExit, why: &str, cx: &mut Context<Self>) {
        let Some(session) = self.session.take() else {
            return;
        };
        // The frame was never sent: its asks are not lost, and its tells are counted.
        let unsent_from = self.filling.before.messages;
        let count = mem::take(&mut self.filling.count);
        self.filling.items.clear();
        self.is_busy = false;
        let mut tells = u64::from(count);
        for (sequence, sent) in session.asks {
            let is_unsent = count > 0 && sequence >= unsent_from;
            tells -= u64::from(is_unsent);
            let reply = sent.reply;
            match sent.again {
                Some(mut msg) => {
                    msg.attempts -= u32::from(!is_unsent);
                    msg.was_sent |= !is_unsent;
                    self.held.push_back((msg, reply));
                }
                None if is_unsent => {
                    self.refuse(sent.was_sent, reply, Failure::Down(why.to_owned()));
                }
                None => {
                    self.shared.lost.add(1);
                    reply.reply(Err(Failure::Lost(why.to_owned())));
                }
            }
        }
        self.shared.undelivered.add(tells);
        if !self.shared.has_ended() {
            self.shared.set(Status::Opening, why);
        }
        *self.shared.peer.lock() = None;
        self.publish_credit();
        cx.pause_handling(MESSAGE_LANE);
        self.set_unfinished(cx);
        let terminated = self.terminated(Some(session.peer), exit);
        for watcher in mem::take(&mut self.watchers) {
            // This actor waits for no watcher.
            let _ = watcher.try_tell(terminated.clone());
        }
        if self.is_unreferenced {
            let _ = cx.wake_after(FRAME_TIME, Self::end_if_drained);
        }
        self.opening = self.node.next_id();
        self.opening_since_ns = clock::now_ns();
        self.retry = RETRY_MIN;
        self.retry_later(cx);
    }

    fn terminated(&self, node: Option<NodeId>, reason: RemoteExit) -> RemoteTerminated {
        RemoteTerminated {
            name: self.shared.name.clone(),
            node,
            reason,
        }
    }
}

/// The time until a deadline; `None` if it has passed.
fn time_left(deadline: Instant) -> Option<Duration> {
    let left_ns = clock::from_instant(deadline).saturating_sub(clock::now_ns());
    (left_ns > 0).then(|| Duration::from_nanos(left_ns))
}

impl Actor for Proxy {
    fn started(&mut self, cx: &mut Context<Self>) {
        let me = cx.actor_ref();
        self.node.add_route(self.id, move |arrived| {
            let control = match arrived {
                Arrived::Frame(frame) => Control::Frame(frame),
                Arrived::NoResponders => Control::NoResponders,
            };
            // On the thread of the engine, which must not wait. The next probe finds what is missing.
            let _ = me.try_tell_lane(CONTROL_LANE, control);
        });
        let me = cx.actor_ref();
        self.node.listen(self.id, move |change| {
            let _ = me.tell_lane(CONTROL_LANE, Control::Change(change.clone()));
        });
        self.node.when_closed(self.id, cx.waker_fn(Self::close));
        cx.pause_handling(MESSAGE_LANE);
        self.open(cx);
    }

    fn stopped(&mut self, cx: &mut Context<Self>) {
        self.node.remove_route(self.id);
        self.node.stop_listening(self.id);
        if let Some(session) = &self.session {
            self.say(&Body::Close {
                session: session.id,
            });
        }
        let why = "the reference has ended";
        self.end_session(RemoteExit::Disconnected, why, cx);
        for watcher in mem::take(&mut self.watchers) {
            let _ = watcher.try_tell(self.terminated(None, RemoteExit::Disconnected));
        }
        self.shared.end();
        for (msg, reply) in mem::take(&mut self.held) {
            self.fail(&msg, reply);
        }
    }
}

impl DeferredHandler<Outgoing> for Proxy {
    type Reply = Reply;

    fn handle(&mut self, msg: Outgoing, reply: Deferred<Reply>, cx: &mut Context<Self>) {
        let status = self.shared.status();
        if matches!(
            status,
            Status::Unreachable | Status::Refused | Status::Ended
        ) {
            self.fail(&msg, reply);
            return;
        }
        if !self.held.is_empty() {
            self.held.push_back((msg, reply));
            cx.pause_handling(MESSAGE_LANE);
            return;
        }
        match self.append(msg, reply, cx) {
            Ok(()) => {
                if cx.depth() == 0 || self.filling.items.len() >= self.node.frame_bytes() {
                    self.flush(cx);
                } else if !self.filling.has_timer {
                    self.filling.has_timer = true;
                    let _ = cx.wake_after(FRAME_TIME, Self::flush_late);
                }
            }
            Err(held) => {
                self.held.push_back(held);
                cx.pause_handling(MESSAGE_LANE);
                self.flush(cx);
            }
        }
        self.publish_credit();
        self.set_unfinished(cx);
    }

    fn coalesce_key(msg: &Outgoing) -> Option<u64> {
        msg.key
    }
}

impl Handler<Control> for Proxy {
    type Reply = ();

    fn handle(&mut self, control: Control, cx: &mut Context<Self>) {
        match control {
            Control::Frame(frame) => self.frame(frame, cx),
            // A name may have been published just now: its subscription is not at the server yet.
            Control::NoResponders if self.is_opening_for(self.node.options.heartbeat) => {
                let status = match self.shared.sessions.get() {
                    0 => Status::Refused,
                    _ => Status::Unreachable,
                };
                let why = format!("nobody publishes `{}`", self.shared.name);
                self.give_up(status, &why, cx);
                self.retry_later(cx);
            }
            Control::NoResponders => {}
            Control::Drain => self.end_if_drained(cx),
            Control::Unreferenced => {
                self.is_unreferenced = true;
                if self.watchers.is_empty() {
                    self.end_if_drained(cx);
                }
            }
            Control::Watch(watcher)
                if self.session.is_none()
                    && (self.shared.sessions.get() > 0
                        || self.shared.status() != Status::Opening) =>
            {
                let _ = watcher.try_tell(self.terminated(None, RemoteExit::Disconnected));
            }
            Control::Watch(watcher) => self.watchers.push(watcher),
            Control::Change(Change::Node(NodeChange::Down { node, .. })) => {
                if self.session.as_ref().is_some_and(|it| it.peer == node) {
                    let why = format!("node {node} is down");
                    // If it is only paused, it has its credit back when it wakes.
                    if let Some(session) = self.session.as_ref().map(|it| it.id) {
                        self.say(&Body::Close { session });
                    }
                    self.end_session(RemoteExit::NodeDown, &why, cx);
                }
            }
            Control::Change(Change::Connection(ConnectionEvent::Down)) => {
                let why = "the connection to the NATS server broke";
                self.end_session(RemoteExit::Disconnected, why, cx);
            }
            Control::Change(Change::Connection(ConnectionEvent::Writable)) if self.is_busy => {
                self.is_busy = false;
                self.flush(cx);
                self.go_on(cx);
            }
            Control::Change(_) => {}
        }
    }
}
