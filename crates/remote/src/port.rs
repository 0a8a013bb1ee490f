//! The receiver's side: what stands in front of a published actor.
//!
//! **Credit.** The port has a window, at most the bound of the actor's lane. It grants parts of it to the senders. A message
//! takes its credit along into the actor's mailbox; it comes back when the message was handled or shed. So, if no other
//! senders fill the lane, a message that arrives finds capacity, and the bound is hard:
//!
//! ```text
//!   spare at the port + granted and not received + in the mailbox or pending as an ask = window
//! ```
//!
//! The same holds for bytes. Grants are positions, not amounts: a lost grant is repaired by the next one, and a lost message
//! shows as a gap. A session may have at most its share of what is spare. When nothing is spare and somebody waits, the port
//! takes back what other sessions have not used: it asks (`Grant` with a number), and counts the credit as granted until the
//! sender answers (`Reclaimed`), because messages may be under way.
//!
//! **If local senders fill the lane**, the port's message waits in the port's outbox, and the port is muted: it handles no
//! further frames. Those are bounded by the credit: at most one for each message of the window. The port's own lane has a
//! slot for each of them.
//!
//! **An ask that may be sent again** has a number, and its reply is remembered for a while: see `memory`.

mod credit;
mod options;
mod replies;

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
    sync::Arc,
};

use freeboard_actor::{
    Actor, ActorRef, AskError, Context, CreditWindow, Handler, Receives, Terminated,
};
use freeboard_meter::Counter;
use freeboard_platform::clock;

use crate::{
    engine::{ConnectionEvent, Subscription},
    error::Failure,
    members::NodeChange,
    memory::Memory,
    message::{self, RemoteMessage},
    node::{Arrived, Change, NodeInner},
    proxy::CONTROL_LANE,
    wire::{self, Amount, Body, Frame, ItemHead, NodeId, Refusal},
};

pub use options::PublishOptions;
use replies::Answer;
pub(crate) use replies::failure_of;

/// What senders and metrics read.
#[derive(Debug, Default)]
pub(crate) struct PortShared {
    pub(crate) name: String,
    pub(crate) received: Counter,
    pub(crate) received_bytes: Counter,
    /// Positions that were never received.
    pub(crate) lost: Counter,
    pub(crate) refused: Counter,
    pub(crate) malformed: Counter,
    /// Frames of sessions that are over, and those that came while this actor was muted and had many.
    pub(crate) stale: Counter,
    pub(crate) replied: Counter,
    pub(crate) sessions: Counter,
    pub(crate) reclaims: Counter,
    pub(crate) repeated: Counter,
}

impl PortShared {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }
}

struct Session {
    id: u64,
    peer: NodeId,
    proxy: u64,
    opening: u64,
    received: Amount,
    limit: Amount,
    /// The number and limit of a reclaim without an answer.
    reclaiming: Option<u64>,
    /// Has messages and no credit for them: the bytes of the first one.
    wants: Option<u64>,
    /// Which of those that want was the first.
    wants_turn: u64,
    used_ns: u64,
    /// Replies that are not sent yet.
    items: Vec<u8>,
    count: u32,
    /// Frames of replies that a full connection holds back. The window bounds them.
    finished: VecDeque<(u32, Vec<u8>)>,
    frames: u64,
}

impl Session {
    fn outstanding(&self) -> Amount {
        self.limit.minus(self.received)
    }

    /// The position has fewer bytes, although it has not fewer messages. It would return credit that was used.
    fn is_false(&self, position: Amount) -> bool {
        position.messages >= self.received.messages && position.bytes < self.received.bytes
    }

    fn has_replies(&self) -> bool {
        self.count > 0 || !self.finished.is_empty()
    }

    fn finish_frame(&mut self) {
        if self.count > 0 {
            let frame = (mem::take(&mut self.count), mem::take(&mut self.items));
            self.finished.push_back(frame);
        }
    }
}

/// What a port can be told.
pub(crate) enum PortControl {
    Arrived(Frame),
    Change(Change),
    Drain,
}

pub(crate) struct Port<A: Actor, M> {
    node: Arc<NodeInner>,
    id: u64,
    actor: ActorRef<A>,
    options: PublishOptions,
    shared: Arc<PortShared>,
    credit: CreditWindow,
    /// Neither granted nor in use.
    spare: Amount,
    /// The bytes of messages whose credit will come back, in the order of their arrival. Credit comes back in another order:
    /// then the bytes of another message are free for a while. The sums agree.
    in_use: VecDeque<u64>,
    sessions: BTreeMap<u64, Session>,
    memory: Memory,
    has_timer: bool,
    has_started: bool,
    is_reclaiming: bool,
    is_busy: bool,
    is_draining: bool,
    next_reclaim: u64,
    next_want: u64,
    asked_back_ns: u64,
    _subscriptions: Vec<Subscription>,
    message: std::marker::PhantomData<fn(M)>,
}

impl<A, M> Port<A, M>
where
    A: Actor + Receives<M, Reply = M::Reply>,
    M: RemoteMessage,
{
    pub(crate) fn new(
        node: Arc<NodeInner>,
        id: u64,
        actor: ActorRef<A>,
        options: PublishOptions,
        shared: Arc<PortShared>,
        subscriptions: Vec<Subscription>,
    ) -> Self {
        let credit = CreditWindow::new(options.messages);
        let spare = Amount::new(credit.take(), options.bytes);
        Self {
            node,
            id,
            actor,
            options,
            shared,
            credit,
            spare,
            in_use: VecDeque::new(),
            sessions: BTreeMap::new(),
            memory: Memory::default(),
            has_timer: false,
            has_started: false,
            is_reclaiming: false,
            is_busy: false,
            is_draining: false,
            next_reclaim: 0,
            next_want: 0,
            asked_back_ns: 0,
            _subscriptions: subscriptions,
            message: std::marker::PhantomData,
        }
    }

    fn open(&mut self, frame: &Frame, cx: &mut Context<Self>) {
        let Body::Open {
            proxy,
            opening,
            type_name,
            type_version,
        } = &frame.body
        else {
            return;
        };
        let of_proxy = |it: &&Session| it.peer == frame.from && it.proxy == *proxy;
        let known = self.sessions.values().find(of_proxy);
        let known = known.map(|it| (it.id, it.opening == *opening));
        let refusal = if self.is_draining {
            Some(Refusal::Terminated)
        } else if type_name != M::NAME {
            let has = M::NAME.to_owned();
            Some(Refusal::Type { has })
        } else if *type_version != M::VERSION {
            Some(Refusal::Version { has: M::VERSION })
        } else if known.is_none() && self.sessions.len() >= self.options.sessions_max {
            Some(Refusal::Sessions)
        } else {
            None
        };
        if let Some(why) = refusal {
            if why == Refusal::Sessions {
                // Those whose proxy has ended unheard are found.
                self.take_idle_back();
            }
            self.shared.refused.add(1);
            let body = Body::Refused { why };
            self.node.send(&frame.from, *proxy, self.id, &body);
            return;
        }
        match known {
            // The answer was lost, or is under way.
            Some((id, true)) => return self.say_opened(id),
            Some((id, false)) => self.close(id, cx),
            None => {}
        }
        self.node.meet(&frame.from);
        // Not that of another port to the same proxy, on any node.
        let id = self.node.random();
        self.shared.sessions.add(1);
        self.sessions.insert(
            id,
            Session {
                id,
                peer: frame.from.clone(),
                proxy: *proxy,
                opening: *opening,
                received: Amount::default(),
                limit: Amount::default(),
                reclaiming: None,
                wants: None,
                wants_turn: 0,
                used_ns: clock::now_ns(),
                items: Vec::new(),
                count: 0,
                finished: VecDeque::new(),
                frames: 0,
            },
        );
        self.collect();
        self.draw(id);
        self.say_opened(id);
    }

    fn say_opened(&self, id: u64) {
        let session = &self.sessions[&id];
        let body = Body::Opened {
            opening: session.opening,
            session: id,
            port: self.id,
            window: self.window(),
            limit: session.limit,
        };
        self.say(session, &body);
    }

    /// Ends a session. What it was granted and has not sent is spare again.
    fn close(&mut self, id: u64, cx: &mut Context<Self>) {
        if let Some(session) = self.sessions.remove(&id) {
            self.spare.add(session.outstanding());
            self.refill(cx);
        }
    }

    fn data(&mut self, frame: &Frame, cx: &mut Context<Self>) {
        let Body::Data {
            session: id,
            before,
            count,
        } = frame.body
        else {
            return;
        };
        let Some(session) = self.sessions.get_mut(&id) else {
            self.shared.stale.add(1);
            self.say_unknown(id, frame);
            return;
        };
        let end = before.messages.saturating_add(u64::from(count));
        let is_within = before.is_within(session.limit) && end <= session.limit.messages;
        if !is_within || session.is_false(before) {
            self.faulty(id, frame, cx);
            return;
        }
        if before.messages < session.received.messages {
            // NATS does not repeat or reorder messages of one connection.
            self.shared.stale.add(1);
            return;
        }
        self.missed(id, before);
        let mut items = &frame.items[..];
        for _ in 0..count {
            let Ok((head, payload)) = wire::take::<ItemHead>(&mut items, |it| it.len) else {
                self.node.counters.garbage.add(1);
                return;
            };
            let Some(session) = self.sessions.get_mut(&id) else {
                return;
            };
            let sequence = session.received.messages;
            let mut received = session.received;
            received.add(Amount::new(1, payload.len() as u64));
            if !received.is_within(session.limit) {
                // It is not delivered, so its credit is not used.
                self.faulty(id, frame, cx);
                return;
            }
            session.received = received;
            session.used_ns = clock::now_ns();
            self.shared.received.add(1);
            self.shared.received_bytes.add(payload.len() as u64);
            self.deliver(id, sequence, head, payload, cx);
        }
        self.collect();
        self.grant(id);
        let is_short = self
            .sessions
            .get(&id)
            .is_some_and(|it| it.outstanding().messages == 0);
        if is_short {
            self.refill(cx);
        }
    }

    /// The other side sends what it has no credit for, or says a position that cannot be.
    fn faulty(&mut self, id: u64, frame: &Frame, cx: &mut Context<Self>) {
        self.node.counters.garbage.add(1);
        self.say_unknown(id, frame);
        self.close(id, cx);
    }

    /// There is no such session.
    fn say_unknown(&self, id: u64, frame: &Frame) {
        let why = Refusal::Unknown;
        let body = Body::Closed { session: id, why };
        self.node
            .send(&frame.from, frame.from_route, self.id, &body);
    }

    /// Positions before this one were never received: their credit is spare, and their asks are lost.
    fn missed(&mut self, id: u64, before: Amount) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let missed = before.minus(session.received);
        if missed.messages == 0 {
            return;
        }
        let body = Body::Gap {
            session: id,
            first: session.received.messages,
            end: before.messages,
        };
        session.received = before;
        self.spare.add(missed);
        self.shared.lost.add(missed.messages);
        let session = &self.sessions[&id];
        self.say(session, &body);
    }

    /// Takes one credit of the session along.
    fn deliver(
        &mut self,
        session: u64,
        sequence: u64,
        head: ItemHead,
        payload: &[u8],
        cx: &mut Context<Self>,
    ) {
        self.in_use.push_back(payload.len() as u64);
        let msg = match message::decode::<M>(payload) {
            Ok(msg) => msg,
            Err(failure) => {
                self.shared.malformed.add(1);
                self.credit.give_back();
                if head.wants_reply {
                    self.reply(session, sequence, Err(failure), cx);
                }
                return;
            }
        };
        let deadline = head.left_us.map(|left_us| {
            let left_ns = left_us.saturating_mul(1_000);
            clock::to_instant(clock::now_ns().saturating_add(left_ns))
        });
        let lane = self.options.lane;
        if !head.wants_reply {
            let told = crate::trace::within(head.trace, || {
                self.actor.tell_credited(lane, msg, &self.credit, deadline)
            });
            if told.is_err() {
                self.shared.refused.add(1);
            }
            return;
        }
        let peer = &self.sessions[&session].peer;
        let request = head.request.map(|number| (peer.clone(), number));
        if let Some(request) = &request
            && self.repeats(request, session, sequence, cx)
        {
            self.credit.give_back();
            return;
        }
        let mut ask = self.actor.ask(msg).lane(lane);
        if let Some(deadline) = deadline {
            ask = ask.deadline(deadline);
        }
        let asked = request.clone();
        let into_answer = move |outcome: Result<M::Reply, AskError<M>>| Answer {
            session,
            sequence,
            request: asked,
            outcome: outcome.map_err(failure_of),
        };
        let asked = crate::trace::within(head.trace, || cx.ask_with(ask, into_answer));
        if let Err(refused) = asked {
            let failure = match refused.error {
                freeboard_actor::TellError::Closed(_) => {
                    Failure::Down("the actor has terminated".to_owned())
                }
                _ => Failure::Full,
            };
            self.shared.refused.add(1);
            self.credit.give_back();
            self.answered(request, session, sequence, Err(failure), cx);
        }
    }

    fn frame(&mut self, frame: &Frame, cx: &mut Context<Self>) {
        match &frame.body {
            Body::Open { .. } => self.open(frame, cx),
            Body::Data { .. } => self.data(frame, cx),
            Body::Want { session, bytes } => self.want(*session, *bytes, cx),
            Body::Reclaimed {
                session,
                reclaim,
                sent,
                limit,
            } => {
                let (sent, limit) = (*sent, *limit);
                if let Some(session) = self.sessions.get_mut(session)
                    && session.reclaiming == Some(*reclaim)
                {
                    if session.is_false(sent) {
                        let id = session.id;
                        self.faulty(id, frame, cx);
                        self.end_if_drained(cx);
                        return;
                    }
                    session.reclaiming = None;
                    // The sender sends no further, and all that it has sent came before this frame.
                    let sent = sent.min(session.limit);
                    let limit = limit.max(sent).max(session.received).min(session.limit);
                    let freed = session.limit.minus(limit);
                    session.limit = limit;
                    self.spare.add(freed);
                    let id = session.id;
                    self.missed(id, sent);
                    self.refill(cx);
                    self.end_if_drained(cx);
                }
            }
            Body::Probe {
                session,
                sent,
                wants,
            } => {
                let (id, sent, wants) = (*session, *sent, *wants);
                match self.sessions.get(&id) {
                    None => return self.say_unknown(id, frame),
                    Some(it) if !sent.is_within(it.limit) || it.is_false(sent) => {
                        return self.faulty(id, frame, cx);
                    }
                    Some(_) => {}
                }
                // All that it had sent came before this frame.
                self.missed(id, sent);
                self.flush(id);
                let session = &self.sessions[&id];
                let body = Body::Probed {
                    session: id,
                    replies: session.frames,
                };
                self.say(session, &body);
                // A grant, a wish or a request to give back may have been lost.
                match session.reclaiming {
                    Some(reclaim) => self.ask_back(id, reclaim),
                    None => {
                        let body = Body::Grant {
                            session: id,
                            limit: session.limit,
                            reclaim: 0,
                        };
                        self.say(session, &body);
                    }
                }
                if wants > 0 {
                    self.want(id, wants, cx);
                }
            }
            Body::Close { session } => self.close(*session, cx),
            Body::Find {
                asker,
                type_name,
                type_version,
            } if !self.is_draining
                && (type_name.as_str(), *type_version) == (M::NAME, M::VERSION) =>
            {
                let subject = self.node.port_subject(self.id);
                let body = Body::Member { subject };
                self.node.send(&frame.from, *asker, self.id, &body);
            }
            _ => {}
        }
    }

    /// Takes all unused credit back, and ends when everything is handled and answered.
    fn drain(&mut self, cx: &mut Context<Self>) {
        self.is_draining = true;
        let ids: Vec<_> = self.sessions.keys().copied().collect();
        for id in ids {
            self.take_back(id);
        }
        self.end_if_drained(cx);
    }

    fn end_if_drained(&mut self, cx: &mut Context<Self>) {
        if !self.is_draining {
            return;
        }
        self.collect();
        let is_answered = self.spare.messages >= self.options.messages;
        let is_told = self
            .sessions
            .values()
            .all(|it| it.reclaiming.is_none() && !it.has_replies());
        if is_answered && is_told {
            self.say_closed(&Refusal::Terminated);
            self.sessions.clear();
            cx.stop();
        } else if !self.has_timer {
            self.ask_back_again();
            self.flush_later(cx);
        }
    }
}

impl<A, M> Actor for Port<A, M>
where
    A: Actor + Receives<M, Reply = M::Reply>,
    M: RemoteMessage,
{
    fn started(&mut self, cx: &mut Context<Self>) {
        self.has_started = true;
        cx.watch(&self.actor);
        let me = cx.actor_ref();
        let unheard = self.shared.clone();
        let repeated_max = self.options.control_bound() as u64 / 2;
        self.node.add_route(self.id, move |arrived| {
            // On the thread of the engine, which must not wait, and this actor may be muted. A message that is not taken
            // is a gap, and other frames are repeated.
            let Arrived::Frame(frame) = arrived else {
                return;
            };
            // Credit bounds the messages: the other half of the lane is theirs.
            let is_repeated = matches!(
                frame.body,
                Body::Open { .. } | Body::Probe { .. } | Body::Want { .. } | Body::Find { .. }
            );
            let has_place = !is_repeated || me.depth() < repeated_max;
            let control = PortControl::Arrived(frame);
            if !has_place || me.try_tell_lane(CONTROL_LANE, control).is_err() {
                unheard.stale.add(1);
            }
        });
        let me = cx.actor_ref();
        self.node.listen(self.id, move |change| {
            let change = PortControl::Change(change.clone());
            let _ = me.try_tell_lane(CONTROL_LANE, change);
        });
    }
}

impl<A: Actor, M> Port<A, M> {
    fn say(&self, session: &Session, body: &Body) {
        self.node.send(&session.peer, session.proxy, self.id, body);
    }

    fn say_closed(&self, why: &Refusal) {
        for session in self.sessions.values() {
            let body = Body::Closed {
                session: session.id,
                why: why.clone(),
            };
            self.say(session, &body);
        }
    }
}

impl<A: Actor, M> Drop for Port<A, M> {
    /// Also after a panic: senders must learn that nobody answers.
    fn drop(&mut self) {
        if !self.has_started {
            // Nobody knows it. `publish` may have dropped it, with the names locked.
            return;
        }
        self.node.remove_route(self.id);
        self.node.stop_listening(self.id);
        self.node.unpublish(self.id, &self.shared);
        self.say_closed(&Refusal::Terminated);
    }
}

impl<A, M> Handler<PortControl> for Port<A, M>
where
    A: Actor + Receives<M, Reply = M::Reply>,
    M: RemoteMessage,
{
    type Reply = ();

    fn handle(&mut self, control: PortControl, cx: &mut Context<Self>) {
        match control {
            PortControl::Arrived(frame) => self.frame(&frame, cx),
            PortControl::Drain => self.drain(cx),
            PortControl::Change(Change::Node(NodeChange::Down { node, .. })) => {
                let gone: Vec<_> = self
                    .sessions
                    .values()
                    .filter(|it| it.peer == node)
                    .map(|it| it.id)
                    .collect();
                for id in gone {
                    // A node that was paused hears it when it wakes.
                    let why = Refusal::Unknown;
                    self.say(&self.sessions[&id], &Body::Closed { session: id, why });
                    self.close(id, cx);
                }
                self.end_if_drained(cx);
            }
            PortControl::Change(Change::Connection(ConnectionEvent::Writable)) => {
                if self.is_busy {
                    self.flush_all(cx);
                }
            }
            PortControl::Change(Change::Connection(ConnectionEvent::Down)) => {
                // Their proxies end them, too, or find a gap.
                if self.node.is_closed() {
                    cx.stop();
                }
            }
            PortControl::Change(_) => {}
        }
        // At the end of a drain the sessions are dropped.
        if cfg!(debug_assertions) && !self.is_draining {
            self.assert_sum();
        }
    }
}

impl<A, M> Handler<Terminated> for Port<A, M>
where
    A: Actor + Receives<M, Reply = M::Reply>,
    M: RemoteMessage,
{
    type Reply = ();

    fn handle(&mut self, _: Terminated, cx: &mut Context<Self>) {
        cx.stop();
    }
}

#[cfg(test)]
mod tests;
