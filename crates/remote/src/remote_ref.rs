//! References to actors in other processes, and publishing own ones.

use std::{
    any::Any,
    fmt,
    future::{Future, IntoFuture},
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use freeboard_actor::{
    Actor, ActorRef, Ask, AskError, Context, Message, Receives, Recipient, SpawnOptions, TellError,
};
use freeboard_flow::{LaneConfig, ShedReason};
use freeboard_meter::ReasonCount;
use parking_lot::Mutex;

use crate::{
    engine::Incoming,
    error::{Failure, NodeError, RemoteAskError, RemoteTellError},
    group::{Local, LocalMember},
    message::RemoteMessage,
    node::{CONTROL_BOUND, Node, NodeInner, check_name},
    port::{Port, PortControl, PortShared, PublishOptions},
    proxy::{
        CONTROL_LANE, Control, MESSAGE_LANE, Outgoing, Proxy, ProxyShared, RemoteTerminated, Status,
    },
    trace,
    wire::NodeId,
};

/// What a frame takes besides a message, at most.
pub(crate) const OVERHEAD_BYTES: usize = 512;

/// How a reference sends.
#[derive(Debug, Clone)]
#[must_use]
pub struct RemoteOptions {
    pub(crate) lane: LaneConfig,
}

impl Default for RemoteOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl RemoteOptions {
    /// At most 1,024 messages wait for credit, and senders wait when they are as many.
    pub fn new() -> Self {
        Self {
            lane: LaneConfig::bounded(1_024),
        }
    }

    /// Bound and policy of the messages that wait for credit.
    pub fn lane(mut self, lane: LaneConfig) -> Self {
        self.lane = lane;
        self
    }
}

/// An actor that is published: dropping this changes nothing, [`Published::withdraw`] ends it.
#[derive(Clone)]
pub struct Published {
    pub(crate) port: u64,
    pub(crate) shared: Arc<PortShared>,
    control: Recipient<PortControl>,
    /// The actor itself, as an `Arc<dyn LocalMember<M>>`.
    pub(crate) local: Arc<dyn Any + Send + Sync>,
    /// Blocks until the port has terminated, or the deadline has passed.
    wait: Arc<dyn Fn(Instant) -> bool + Send + Sync>,
}

impl fmt::Debug for Published {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Published({})", self.name())
    }
}

impl Published {
    /// Takes no further messages from other nodes. What has arrived is handled and answered. Returns at once.
    pub fn withdraw(&self) {
        let _ = self.control.tell_lane(CONTROL_LANE, PortControl::Drain);
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// What the name has received and refused since this node published it first.
    pub fn counters(&self) -> PublishedCounters {
        PublishedCounters::of(&self.shared)
    }

    pub(crate) fn wait_ended(&self, deadline: Instant) -> bool {
        (self.wait)(deadline)
    }

    /// Whether it still takes messages, or answers.
    pub fn is_published(&self) -> bool {
        self.control.is_alive()
    }
}

impl PublishedCounters {
    pub(crate) fn of(shared: &PortShared) -> Self {
        PublishedCounters {
            received: shared.received.get(),
            received_bytes: shared.received_bytes.get(),
            lost: shared.lost.get(),
            refused: shared.refused.get(),
            malformed: shared.malformed.get(),
            stale: shared.stale.get(),
            replied: shared.replied.get(),
            sessions: shared.sessions.get(),
            reclaims: shared.reclaims.get(),
            repeated: shared.repeated.get(),
        }
    }
}

impl RemoteCounters {
    pub(crate) fn of(proxy: &ActorRef<Proxy>, shared: &ProxyShared) -> Self {
        let lanes = proxy.snapshot().lanes;
        let shed = lanes.get(MESSAGE_LANE).map_or(&[][..], |it| &it.shed);
        // Those that a full lane has refused are with their senders.
        let is_full =
            |it: &&ReasonCount| !shared.is_sampled && it.reason == ShedReason::Full.as_str();
        let full: u64 = shed.iter().filter(is_full).map(|it| it.count).sum();
        let shed: u64 = shed.iter().map(|it| it.count).sum();
        Self {
            refused: shared.refused.get() + full,
            sent: shared.sent.get(),
            sent_bytes: shared.sent_bytes.get(),
            frames: shared.frames.get(),
            replied: shared.replied.get(),
            undelivered: shared.undelivered.get(),
            shed: shed - full,
            lost: shared.lost.get(),
            sessions: shared.sessions.get(),
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.refused += other.refused;
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.frames += other.frames;
        self.replied += other.replied;
        self.undelivered += other.undelivered;
        self.shed += other.shed;
        self.lost += other.lost;
        self.sessions += other.sessions;
    }
}

impl NodeInner {
    pub(crate) fn name_subject(&self, tokens: &str) -> String {
        self.subject(&format!("name.{tokens}"))
    }

    /// The subject of one port.
    pub(crate) fn port_subject(&self, port: u64) -> String {
        self.subject(&format!("port.{:x}.{port}", self.id.incarnation))
    }
}

impl Node {
    /// Publishes an actor: other nodes may send it messages of type `M` under this name.
    ///
    /// If several nodes publish one name, a [`RemoteRef`] uses the first one that answers, and a group uses all.
    ///
    /// # Errors
    /// [`NodeError::Name`], [`NodeError::Published`], or an error of the engine.
    pub fn publish<M: RemoteMessage, A>(
        &self,
        name: &str,
        actor: &ActorRef<A>,
    ) -> Result<Published, NodeError>
    where
        A: Receives<M, Reply = M::Reply>,
    {
        self.publish_with(name, actor, PublishOptions::new())
    }

    /// [`Node::publish`] with options.
    ///
    /// # Errors
    /// As there.
    pub fn publish_with<M: RemoteMessage, A>(
        &self,
        name: &str,
        actor: &ActorRef<A>,
        options: PublishOptions,
    ) -> Result<Published, NodeError>
    where
        A: Receives<M, Reply = M::Reply>,
    {
        let subject = self.inner.name_subject(&check_name(name)?);
        self.publish_at::<M, A>(name, subject, actor, options)
    }

    /// Publishes at a subject.
    pub(crate) fn publish_at<M: RemoteMessage, A>(
        &self,
        name: &str,
        subject: String,
        actor: &ActorRef<A>,
        options: PublishOptions,
    ) -> Result<Published, NodeError>
    where
        A: Receives<M, Reply = M::Reply>,
    {
        let inner = &self.inner;
        if inner.is_closed() {
            return Err(NodeError::Closed);
        }
        let mut published = inner.published.lock();
        if published.get(name).is_some_and(Published::is_published) {
            return Err(NodeError::Published(name.to_owned()));
        }
        let options = options.within(actor)?;
        let id = inner.next_id();
        // The counters of a name go on.
        let before = published.get(name).map(|it| it.shared.clone());
        let shared = before
            .or_else(|| inner.kept.unpublished.lock().get(name).cloned())
            .unwrap_or_else(|| Arc::new(PortShared::new(name)));
        // Frames that come before the port has started are counted as unrouted, and their senders send them again.
        let deliver = {
            let inner = Arc::downgrade(inner);
            Arc::new(move |incoming: Incoming| {
                if let Some(inner) = inner.upgrade()
                    && let Some(frame) = inner.decode(&incoming)
                {
                    inner.route_to(id, frame);
                }
            })
        };
        let own = inner.port_subject(id);
        let subscriptions = vec![
            inner.engine.subscribe(&own, deliver.clone())?,
            inner.engine.subscribe(&subject, deliver)?,
        ];
        let local: Arc<dyn LocalMember<M>> = Arc::new(Local {
            actor: actor.clone(),
            lane: options.lane,
            window: options.messages,
        });
        let pending = usize::try_from(options.messages).unwrap_or(usize::MAX);
        let spawn = SpawnOptions::new()
            .lane(LaneConfig::bounded(options.control_bound()))
            .pending_asks(pending);
        let port = Port::<A, M>::new(
            inner.clone(),
            id,
            actor.clone(),
            options,
            shared.clone(),
            subscriptions,
        );
        let port = inner.system.spawn_once(spawn, port);
        let port = port.map_err(|error| NodeError::Option(error.to_string()))?;
        let entry = Published {
            port: id,
            shared,
            control: port.recipient(),
            local: Arc::new(local),
            wait: Arc::new(move |deadline| port.wait_ended_until(deadline).is_some()),
        };
        published.insert(name.to_owned(), entry.clone());
        drop(published);
        Ok(entry)
    }

    /// A reference to the actor that is published under this name, on any node. It finds the actor by itself, also again
    /// after it was lost.
    ///
    /// # Errors
    /// [`NodeError::Name`], or an option that is out of range.
    pub fn remote<M: RemoteMessage>(&self, name: &str) -> Result<RemoteRef<M>, NodeError> {
        self.remote_with(name, RemoteOptions::new())
    }

    /// [`Node::remote`] with options.
    ///
    /// # Errors
    /// As there.
    pub fn remote_with<M: RemoteMessage>(
        &self,
        name: &str,
        options: RemoteOptions,
    ) -> Result<RemoteRef<M>, NodeError> {
        let subject = self.inner.name_subject(&check_name(name)?);
        self.remote_at(name, subject, options)
    }

    /// A reference to the port at a subject.
    pub(crate) fn remote_at<M: RemoteMessage>(
        &self,
        name: &str,
        subject: String,
        options: RemoteOptions,
    ) -> Result<RemoteRef<M>, NodeError> {
        let inner = &self.inner;
        if inner.is_closed() {
            return Err(NodeError::Closed);
        }
        let shared = Arc::new(ProxyShared::new(name.to_owned(), &options.lane));
        let proxy = Proxy::new(
            inner.clone(),
            subject,
            (M::NAME, M::VERSION),
            shared.clone(),
        );
        let spawn = SpawnOptions::new().lanes([LaneConfig::bounded(CONTROL_BOUND), options.lane]);
        let proxy = inner.system.spawn_once(spawn, proxy);
        let proxy = proxy.map_err(|error| NodeError::Option(error.to_string()))?;
        inner.kept.add(inner, proxy.clone(), shared.clone());
        Ok(RemoteRef {
            node: inner.clone(),
            end: Arc::new(EndOfReferences(proxy.clone())),
            proxy,
            shared,
            message: PhantomData,
        })
    }
}

/// A reference to an actor in another process. Cheap to clone, usable from any thread and any async runtime.
///
/// Messages are encoded on the caller's thread and wait in a lane of this process until the receiver has granted credit.
/// Delivery is at most once: a message that is accepted here may still be lost with the connection or a process. An ask
/// learns that; see [`RemoteAskError`]. When the last clone is dropped, what was accepted is still sent and answered, and
/// those who watch are still told.
pub struct RemoteRef<M> {
    pub(crate) node: Arc<NodeInner>,
    pub(crate) proxy: ActorRef<Proxy>,
    pub(crate) shared: Arc<ProxyShared>,
    end: Arc<EndOfReferences>,
    message: PhantomData<fn(M)>,
}

/// Ends a proxy when its last reference is dropped.
struct EndOfReferences(ActorRef<Proxy>);

impl Drop for EndOfReferences {
    fn drop(&mut self) {
        // A proxy with that many control messages ends with its node.
        let _ = self.0.try_tell_lane(CONTROL_LANE, Control::Unreferenced);
    }
}

impl<M> Clone for RemoteRef<M> {
    fn clone(&self) -> Self {
        Self {
            node: self.node.clone(),
            proxy: self.proxy.clone(),
            shared: self.shared.clone(),
            end: self.end.clone(),
            message: PhantomData,
        }
    }
}

impl<M> fmt::Debug for RemoteRef<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RemoteRef({})", self.shared.name)
    }
}

impl<M: RemoteMessage> RemoteRef<M> {
    /// Sends a message without waiting for it to be handled. If as many messages wait for credit as the bound permits, the
    /// policy applies: under [`freeboard_flow::Overload::Wait`] a thread blocks, and an actor is muted after its handler.
    ///
    /// # Errors
    /// [`RemoteTellError`], with the message.
    pub fn tell(&self, msg: M) -> Result<(), RemoteTellError<M>> {
        let (msg, outgoing) = self.encode(msg, None, 0)?;
        match self.proxy.tell_lane(MESSAGE_LANE, outgoing) {
            Ok(()) => Ok(()),
            Err(error) => Err(refused(error, msg)),
        }
    }

    /// [`RemoteRef::tell`] that never waits.
    ///
    /// # Errors
    /// As there; [`RemoteTellError::Full`] also under [`freeboard_flow::Overload::Wait`].
    pub fn try_tell(&self, msg: M) -> Result<(), RemoteTellError<M>> {
        let (msg, outgoing) = self.encode(msg, None, 0)?;
        match self.proxy.try_tell_lane(MESSAGE_LANE, outgoing) {
            Ok(()) => Ok(()),
            Err(error) => Err(refused(error, msg)),
        }
    }

    /// [`RemoteRef::tell`] that waits for capacity without blocking the executor.
    ///
    /// # Errors
    /// As [`RemoteRef::tell`].
    pub async fn send(&self, msg: M) -> Result<(), RemoteTellError<M>> {
        let (msg, outgoing) = self.encode(msg, None, 0)?;
        match self.proxy.send_lane(MESSAGE_LANE, outgoing).await {
            Ok(()) => Ok(()),
            Err(error) => Err(refused(error, msg)),
        }
    }

    /// Sends a message and receives the handler's reply. `.await` it, or call [`RemoteAsk::wait`].
    pub fn ask(&self, msg: M) -> RemoteAsk<M> {
        RemoteAsk::with_limit(self.clone(), msg, Limit::None)
    }

    /// As [`freeboard_actor::Context::ask`]: the reply comes as a message. If it is refused, the message is returned.
    pub(crate) fn ask_into<A, N, F>(
        &self,
        msg: M,
        deadline: Option<Instant>,
        cx: &mut Context<A>,
        into_message: F,
    ) -> Result<(), N>
    where
        A: Receives<N>,
        N: Message,
        F: FnOnce(Result<M::Reply, RemoteAskError>) -> N + Send + 'static,
    {
        let limit = deadline.map_or(Limit::None, Limit::At);
        let ask = RemoteAsk::with_limit(self.clone(), msg, limit);
        let (ask, shared) = match ask.into_ask() {
            Ok(ask) => ask,
            Err(error) => return Err(into_message(Err(error))),
        };
        let decoded = move |outcome| into_message(decode::<M>(outcome, &shared));
        cx.ask_with(ask, decoded)
            .map_err(freeboard_actor::AskRefused::into_message)
    }

    /// Ends the proxy; what waits in it gets its error.
    pub(crate) fn end(&self) {
        self.shared.end();
        self.proxy.stop();
    }

    /// What it has sent and lost since it was made.
    pub fn counters(&self) -> RemoteCounters {
        RemoteCounters::of(&self.proxy, &self.shared)
    }

    /// Tells `watcher` when the remote actor terminates or cannot be reached any more, once. At once if it cannot be
    /// reached now.
    pub fn watch(&self, watcher: Recipient<RemoteTerminated>) {
        let _ = self.proxy.tell_lane(CONTROL_LANE, Control::Watch(watcher));
    }

    /// Whether there is a session with the actor.
    pub fn is_connected(&self) -> bool {
        self.shared.status() == Status::Open
    }

    /// The node of the actor, while there is a session.
    pub fn node(&self) -> Option<NodeId> {
        self.shared.peer.lock().clone()
    }

    /// Messages that may be sent now: an estimate.
    pub fn credit(&self) -> u64 {
        self.shared.credit()
    }

    /// Messages that wait for credit.
    pub fn depth(&self) -> u64 {
        self.proxy.depth() + self.shared.held()
    }

    /// The name that it was made with.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    fn encode(
        &self,
        msg: M,
        request: Option<u64>,
        attempts: u32,
    ) -> Result<(M, Outgoing), RemoteTellError<M>> {
        self.try_encode(msg, request, attempts)
            .inspect_err(|_| self.shared.refused.add(1))
    }

    fn try_encode(
        &self,
        msg: M,
        request: Option<u64>,
        attempts: u32,
    ) -> Result<(M, Outgoing), RemoteTellError<M>> {
        if self.node.is_closed() || self.node.is_leaving() {
            return Err(RemoteTellError::Closed(msg));
        }
        match self.shared.status() {
            Status::Unreachable | Status::Ended => return Err(RemoteTellError::Down(msg)),
            Status::Refused => return Err(RemoteTellError::Unknown(msg, self.shared.why())),
            Status::Opening | Status::Open => {}
        }
        let payload = match postcard::to_stdvec(&msg) {
            Ok(payload) => payload,
            Err(error) => return Err(RemoteTellError::Encoding(msg, error.to_string())),
        };
        let bytes_max = self
            .node
            .engine
            .payload_max()
            .saturating_sub(OVERHEAD_BYTES);
        if payload.len() > bytes_max {
            let bytes = payload.len();
            let why = format!("it has {bytes} bytes, the server takes {bytes_max}");
            return Err(RemoteTellError::TooLarge(msg, why));
        }
        let outgoing = Outgoing {
            was_sent: false,
            payload: Bytes::from(payload),
            key: msg.coalesce_key(),
            request,
            attempts,
            trace: trace::current(),
        };
        Ok((msg, outgoing))
    }
}

fn refused<M>(error: TellError<Outgoing>, msg: M) -> RemoteTellError<M> {
    match error {
        TellError::Closed(_) => RemoteTellError::Closed(msg),
        _ => RemoteTellError::Full(msg),
    }
}

/// Counters of a [`RemoteRef`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RemoteCounters {
    /// Messages that were returned to their senders.
    pub refused: u64,
    /// Messages sent, and their bytes. An ask that is sent again counts again.
    pub sent: u64,
    /// See `sent`.
    pub sent_bytes: u64,
    /// Frames that they were sent in.
    pub frames: u64,
    /// Asks with an answer.
    pub replied: u64,
    /// Messages that were accepted and never sent, without those that the lane has shed.
    pub undelivered: u64,
    /// Messages that were accepted and that the lane has shed: by its policy, by their deadlines, or at the end.
    pub shed: u64,
    /// Asks that were sent and have no answer.
    pub lost: u64,
    /// Sessions with the actor: one, and one more after each loss.
    pub sessions: u64,
}

/// Counters of a [`Published`] actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PublishedCounters {
    /// Messages received, and their bytes.
    pub received: u64,
    /// See `received`.
    pub received_bytes: u64,
    /// Messages that were sent and never came: gaps in the positions.
    pub lost: u64,
    /// Messages and senders that were refused.
    pub refused: u64,
    /// Messages that could not be decoded.
    pub malformed: u64,
    /// Frames and replies of sessions that are over.
    pub stale: u64,
    /// Replies.
    pub replied: u64,
    /// Sessions with senders.
    pub sessions: u64,
    /// Requests to give unused credit back.
    pub reclaims: u64,
    /// Asks that came again and did not run again.
    pub repeated: u64,
}

#[derive(Clone, Copy)]
pub(crate) enum Limit {
    None,
    After(Duration),
    At(Instant),
}

impl Limit {
    pub(crate) fn of<A: Actor, M: Message, R: Send + 'static>(
        self,
        ask: Ask<A, M, R>,
    ) -> Ask<A, M, R> {
        match self {
            Self::None => ask,
            Self::After(timeout) => ask.timeout(timeout),
            Self::At(deadline) => ask.deadline(deadline),
        }
    }
}

/// An ask of a remote actor that is not sent yet.
#[must_use = "nothing is sent before `.await` or `.wait()`"]
pub struct RemoteAsk<M> {
    to: RemoteRef<M>,
    msg: M,
    limit: Limit,
    attempts: u32,
}

impl<M> fmt::Debug for RemoteAsk<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RemoteAsk({:?})", self.to)
    }
}

type ProxyAsk = Ask<Proxy, Outgoing, Result<Bytes, Failure>>;

impl<M: RemoteMessage> RemoteAsk<M> {
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

    /// Sends it again, at most so often, if it was sent and the answer is lost. The receiver remembers the last 4,096 of
    /// such asks for 60 seconds, and runs the handler once for each, unless its process ends, or several nodes
    /// publish the name: the repetition may go to another one.
    pub fn retry(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    pub(crate) fn with_limit(to: RemoteRef<M>, msg: M, limit: Limit) -> Self {
        Self {
            to,
            msg,
            limit,
            attempts: 0,
        }
    }

    fn into_ask(self) -> Result<(ProxyAsk, Arc<ProxyShared>), RemoteAskError> {
        let Self {
            to,
            msg,
            limit,
            attempts,
        } = self;
        let request = (attempts > 0).then(|| to.node.random());
        let encoded = to.encode(msg, request, attempts);
        let (_, outgoing) = encoded.map_err(|error| match error {
            RemoteTellError::Full(_) => RemoteAskError::Full,
            RemoteTellError::Down(_) => RemoteAskError::Down(to.shared.why()),
            RemoteTellError::Closed(_) => RemoteAskError::Down("this node has left".to_owned()),
            RemoteTellError::Unknown(_, why) => RemoteAskError::Unknown(why),
            RemoteTellError::TooLarge(_, why) => RemoteAskError::TooLarge(why),
            RemoteTellError::Encoding(_, why) => RemoteAskError::Encoding(why),
        })?;
        let ask = limit.of(to.proxy.ask(outgoing).lane(MESSAGE_LANE));
        Ok((ask, to.shared))
    }

    /// Blocks until the reply is here. Do not call it in a handler that others wait for.
    ///
    /// # Errors
    /// [`RemoteAskError`].
    pub fn wait(self) -> Result<M::Reply, RemoteAskError> {
        let (ask, shared) = self.into_ask()?;
        decode::<M>(ask.wait(), &shared)
    }
}

fn decode<M: RemoteMessage>(
    outcome: Result<Result<Bytes, Failure>, AskError<Outgoing>>,
    shared: &ProxyShared,
) -> Result<M::Reply, RemoteAskError> {
    let payload = match outcome {
        Ok(reply) => reply?,
        Err(error) => {
            return Err(match error {
                AskError::Full(_) => RemoteAskError::Full,
                AskError::Expired => RemoteAskError::Expired,
                // It waited in the lane of a proxy that has ended.
                AskError::Shed | AskError::NoReply if shared.has_ended() => {
                    RemoteAskError::Down(shared.why())
                }
                AskError::Shed => RemoteAskError::Shed,
                AskError::Closed(_) => RemoteAskError::Down("this node has left".to_owned()),
                other => RemoteAskError::Lost(other.to_string()),
            });
        }
    };
    postcard::from_bytes(&payload).map_err(|error| RemoteAskError::Encoding(error.to_string()))
}

impl<M: RemoteMessage> IntoFuture for RemoteAsk<M> {
    type Output = Result<M::Reply, RemoteAskError>;
    type IntoFuture = RemoteAskFuture<M>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (ask, shared) = self.into_ask()?;
            decode::<M>(ask.await, &shared)
        })
    }
}

/// The future of a [`RemoteAsk`].
pub type RemoteAskFuture<M> =
    Pin<Box<dyn Future<Output = Result<<M as RemoteMessage>::Reply, RemoteAskError>> + Send>>;

/// The proxies and ports of a node.
pub(crate) type Proxies = Mutex<Vec<(ActorRef<Proxy>, Arc<ProxyShared>)>>;
