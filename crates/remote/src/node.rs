//! A node: a process that takes part, its routes, and its end.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use freeboard_actor::{ActorRef, Recipient, SpawnOptions, System};
use freeboard_flow::{LaneConfig, random};
use freeboard_meter::Counter;
use freeboard_platform::clock;
use parking_lot::Mutex;

use crate::{
    engine::{ConnectionEvent, Engine, EngineError, Incoming, Subscription},
    error::NodeError,
    lease::{self, Lease, LeaseShared},
    members::{Join, Leave, Members, Met, NoResponders, NodeChange, NodeInfo, Table},
    metrics::Kept,
    nats::{NatsEngine, NatsOptions},
    proxy::{CONTROL_LANE, Control, FRAME_BYTES},
    remote_ref::{OVERHEAD_BYTES, Proxies, Published},
    wire::{self, Body, Frame, NodeId, WireError},
};

/// Control messages that wait at an actor of this crate. Their senders are bounded: each session has a few under way. A port
/// takes messages there, too: see [`PublishOptions::control_bound`](crate::PublishOptions::control_bound).
pub(crate) const CONTROL_BOUND: usize = 4_096;

/// The options of a node.
#[derive(Debug)]
#[must_use]
pub struct NodeOptions {
    pub(crate) name: String,
    nats: Option<NatsOptions>,
    pub(crate) prefix: String,
    pub(crate) heartbeat: Duration,
    pub(crate) down_after: Duration,
    pub(crate) join_time: Duration,
    pub(crate) connect_time: Duration,
    pub(crate) seed: Option<u64>,
}

impl NodeOptions {
    /// A node on these servers: `nats://HOST:PORT`, several separated by commas. Its name is `node-` and the number of the
    /// process.
    pub fn new(urls: impl Into<String>) -> Self {
        Self {
            name: format!("node-{}", std::process::id()),
            nats: Some(NatsOptions::new(urls)),
            prefix: "freeboard".to_owned(),
            heartbeat: Duration::from_millis(500),
            down_after: Duration::from_millis(2_500),
            join_time: Duration::from_millis(300),
            connect_time: Duration::from_secs(10),
            seed: None,
        }
    }

    /// The name, which is unique among the nodes of a prefix: parts of letters, digits, `-` and `_`, separated by `/`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Credentials, TLS and other options of the connection, with the servers' addresses.
    pub fn nats(mut self, nats: NatsOptions) -> Self {
        self.nats = Some(nats);
        self
    }

    /// The first part of all subjects and buckets, default `freeboard`: letters, digits, `-` and `_`. Nodes of different
    /// prefixes do not see each other.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// The time between two heartbeats, default 500 ms, and how long after the last one a node counts as down, default
    /// 2.5 s: at least three times as long.
    pub fn heartbeat(mut self, every: Duration, down_after: Duration) -> Self {
        (self.heartbeat, self.down_after) = (every, down_after);
        self
    }

    /// How long a joining node waits for another one that says that its name is taken. Default 300 ms.
    pub fn join_time(mut self, time: Duration) -> Self {
        self.join_time = time;
        self
    }

    /// How long joining waits for a connection, at most. Default 10 s. A connection that is refused fails at once.
    pub fn connect_time(mut self, time: Duration) -> Self {
        self.connect_time = time;
        self
    }

    /// The seed of the incarnation, for simulations.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    fn validate(&self) -> Result<(), NodeError> {
        check_name(&self.name)?;
        check_name(&self.prefix)?;
        // The subjects of the prefix `a/name` would be among those of `a`, and buckets have no parts.
        if self.prefix.contains('/') {
            return Err(NodeError::Option(format!(
                "the prefix `{}` has a `/`",
                self.prefix
            )));
        }
        if self.heartbeat.is_zero() || self.down_after < self.heartbeat.saturating_mul(3) {
            return Err(NodeError::Option(
                "a node counts as down after at least three heartbeats".to_owned(),
            ));
        }
        Ok(())
    }
}

/// Checks a name, and gives its tokens in a NATS subject.
pub(crate) fn check_name(name: &str) -> Result<String, NodeError> {
    let is_part = |part: &str| {
        let is_char = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '_';
        !part.is_empty() && part.chars().all(is_char)
    };
    if name.len() <= 64 && name.split('/').all(is_part) {
        Ok(name.replace('/', "."))
    } else {
        Err(NodeError::Name(name.to_owned()))
    }
}

/// What comes to a route.
#[derive(Debug, Clone)]
pub(crate) enum Arrived {
    Frame(Frame),
    /// The subject of a message that was published for this route has no subscriber.
    NoResponders,
}

/// What happens at this node.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Node(NodeChange),
    /// A node has got a lease, or has lost it.
    Lease,
    Connection(ConnectionEvent),
}

type Route = Arc<dyn Fn(Arrived) + Send + Sync>;
type Listener = Arc<dyn Fn(&Change) + Send + Sync>;

/// Counters of a node, since it has joined.
#[derive(Debug, Default)]
pub(crate) struct NodeCounters {
    pub(crate) frames_sent: Counter,
    pub(crate) frames_received: Counter,
    /// Bytes on our subjects that are no frame, or have another version.
    pub(crate) garbage: Counter,
    /// Frames for a route that is no more.
    pub(crate) unrouted: Counter,
}

/// The lease's actor, what others read of it, and the time that it holds.
pub(crate) type NodeLease = (ActorRef<Lease>, Arc<LeaseShared>, Duration);

pub(crate) struct NodeInner {
    pub(crate) system: System,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) options: NodeOptions,
    pub(crate) id: NodeId,
    pub(crate) counters: NodeCounters,
    pub(crate) table: Table,
    pub(crate) published: Mutex<BTreeMap<String, Published>>,
    pub(crate) proxies: Proxies,
    pub(crate) kept: Kept,
    /// With the time that its leases hold.
    pub(crate) lease: Mutex<Option<NodeLease>>,
    routes: Mutex<BTreeMap<u64, Route>>,
    listeners: Mutex<BTreeMap<u64, Listener>>,
    /// Called when the node is closed. They pass the mailboxes, which a shutdown of the system closes.
    closers: Mutex<BTreeMap<u64, Arc<dyn Fn() + Send + Sync>>>,
    /// What ends with the node: called once, in order.
    at_leave: Mutex<Vec<AtLeave>>,
    next: AtomicU64,
    is_closed: AtomicBool,
    /// References take no further messages.
    is_leaving: AtomicBool,
    members: Mutex<Option<ActorRef<Members>>>,
    subscriptions: Mutex<Vec<Subscription>>,
}

/// Ends a part of a node before the deadline, in order.
pub(crate) type AtLeave = Box<dyn FnOnce(Instant) + Send>;

impl NodeInner {
    pub(crate) fn next_id(&self) -> u64 {
        // Ordering: Relaxed: only the number counts. From 1: route 0 is a subject's own.
        self.next.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A number that differs at each node, start and call.
    pub(crate) fn random(&self) -> u64 {
        random::number(self.id.incarnation, self.next_id())
    }

    pub(crate) fn subject(&self, rest: &str) -> String {
        format!("{}.{rest}", self.options.prefix)
    }

    pub(crate) fn inbox_of(&self, node: &NodeId) -> String {
        let name = node.name.replace('/', ".");
        self.subject(&format!("in.{:x}.{name}", node.incarnation))
    }

    /// The reply subject of a message whose subject may have no subscriber.
    pub(crate) fn no_responders(&self, route: impl fmt::Display) -> String {
        self.subject(&format!("none.{:x}.{route}", self.id.incarnation))
    }

    pub(crate) fn is_closed(&self) -> bool {
        // Ordering: Acquire, pairs with the Release of `close`.
        self.is_closed.load(Ordering::Acquire)
    }

    pub(crate) fn is_leaving(&self) -> bool {
        // Ordering: Acquire, pairs with the Release of `leave`.
        self.is_leaving.load(Ordering::Acquire)
    }

    /// Frames to this route of this node's inbox go to `route`, until [`NodeInner::remove_route`].
    pub(crate) fn add_route(&self, id: u64, route: impl Fn(Arrived) + Send + Sync + 'static) {
        self.routes.lock().insert(id, Arc::new(route));
    }

    pub(crate) fn remove_route(&self, id: u64) {
        // Dropped without the lock.
        let _route = self.routes.lock().remove(&id);
    }

    pub(crate) fn listen(&self, id: u64, listener: impl Fn(&Change) + Send + Sync + 'static) {
        self.listeners.lock().insert(id, Arc::new(listener));
    }

    /// Calls `closer` when the node is closed, until [`NodeInner::stop_listening`].
    pub(crate) fn when_closed(&self, id: u64, closer: impl Fn() + Send + Sync + 'static) {
        self.closers.lock().insert(id, Arc::new(closer));
    }

    pub(crate) fn stop_listening(&self, id: u64) {
        let _listener = self.listeners.lock().remove(&id);
        let _closer = self.closers.lock().remove(&id);
    }

    pub(crate) fn announce(&self, change: &Change) {
        let listeners: Vec<_> = self.listeners.lock().values().cloned().collect();
        for listener in listeners {
            listener(change);
        }
    }

    /// The size of a full frame, which is sent at once. Others are sent when no message waits.
    pub(crate) fn frame_bytes(&self) -> usize {
        let payload_max = self.engine.payload_max();
        FRAME_BYTES.min(payload_max.saturating_sub(OVERHEAD_BYTES))
    }

    /// Sends a frame without items to a route of another node.
    pub(crate) fn send(&self, to: &NodeId, route: u64, from_route: u64, body: &Body) {
        let frame = wire::encode(&self.id, from_route, route, body);
        // A control frame that is not sent is sent again by its sender's timer.
        let _ = self.publish_to(to, frame);
    }

    /// Sends a frame to a node's inbox.
    pub(crate) fn publish_to(&self, to: &NodeId, frame: Vec<u8>) -> Result<(), EngineError> {
        let bytes = frame.len() as u64;
        self.publish(&self.inbox_of(to), frame)?;
        self.table.count(to, |it| {
            it.frames_sent += 1;
            it.sent_bytes += bytes;
        });
        Ok(())
    }

    pub(crate) fn publish(&self, subject: &str, frame: Vec<u8>) -> Result<(), EngineError> {
        self.engine.publish(subject, None, Bytes::from(frame))?;
        self.counters.frames_sent.add(1);
        Ok(())
    }

    /// Decodes what has arrived, and counts it.
    pub(crate) fn decode(&self, incoming: &Incoming) -> Option<Frame> {
        match wire::decode(&incoming.payload) {
            Ok(frame) => {
                self.counters.frames_received.add(1);
                let bytes = incoming.payload.len() as u64;
                self.table.count(&frame.from, |it| {
                    it.frames_received += 1;
                    it.received_bytes += bytes;
                });
                Some(frame)
            }
            Err(error) => {
                self.counters.garbage.add(1);
                if error != WireError::Garbage {
                    tracing::warn!(subject = incoming.subject, "a frame is refused: {error}");
                }
                None
            }
        }
    }

    /// A session begins with a node. If it falls silent before its first heartbeat is heard, it goes down like others.
    pub(crate) fn meet(&self, node: &NodeId) {
        if !self.table.is_up(node)
            && let Some(members) = self.members.lock().clone()
        {
            let _ = members.tell(Met(node.clone()));
        }
    }

    /// A frame that came by a subject of its own.
    pub(crate) fn route_to(&self, route: u64, frame: Frame) {
        self.dispatch(Frame { to: route, ..frame });
    }

    fn dispatch(&self, frame: Frame) {
        let route = self.routes.lock().get(&frame.to).cloned();
        match route {
            Some(route) => route(Arrived::Frame(frame)),
            None => {
                self.counters.unrouted.add(1);
                // The sender learns that nobody is there.
                let body = match frame.body {
                    Body::Data { session, .. }
                    | Body::Want { session, .. }
                    | Body::Probe { session, .. } => Body::Closed {
                        session,
                        why: wire::Refusal::Unknown,
                    },
                    Body::Grant { session, .. } => Body::Close { session },
                    _ => return,
                };
                self.send(&frame.from, frame.from_route, 0, &body);
            }
        }
    }

    pub(crate) fn at_leave(&self, ends: impl FnOnce(Instant) + Send + 'static) {
        self.at_leave.lock().push(Box::new(ends));
    }

    /// Ends all that this node has, without a word to others.
    pub(crate) fn close(&self) {
        // Ordering: Release, pairs with the Acquire of `is_closed`.
        self.is_closed.store(true, Ordering::Release);
        let closers: Vec<_> = self.closers.lock().values().cloned().collect();
        for closer in closers {
            closer();
        }
        self.announce(&Change::Connection(ConnectionEvent::Down));
        self.subscriptions.lock().clear();
    }
}

/// This process, as a part of several.
///
/// Cheap to clone. The node lives until [`Node::leave`], or until its system ends.
#[derive(Clone)]
pub struct Node {
    pub(crate) inner: Arc<NodeInner>,
}

impl fmt::Debug for Node {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Node({})", self.inner.id)
    }
}

impl Node {
    /// Connects to NATS, and joins. Blocks until the connection is there and the node has heard itself, and at least for
    /// [`NodeOptions::join_time`].
    ///
    /// # Errors
    /// [`NodeError`]: a wrong option or URL, no server, wrong credentials, no permission for the prefix's subjects, or a name
    /// that is taken. A subject that the server denies later is logged, and counted in [`Node::snapshot`].
    pub fn join(system: &System, mut options: NodeOptions) -> Result<Self, NodeError> {
        options.validate()?;
        let nats = options.nats.take().unwrap_or_else(|| NatsOptions::new(""));
        let engine = NatsEngine::connect(nats.name(options.name.clone()));
        let engine = engine.map_err(|error| EngineError::Refused(error.to_string()))?;
        Self::join_over(system, Arc::new(engine), options)
    }

    /// Joins over this engine. Blocks as [`Node::join`].
    ///
    /// # Errors
    /// [`NodeError`]: a wrong option, a name that is taken, or an error of the engine.
    pub fn join_over(
        system: &System,
        engine: Arc<dyn Engine>,
        options: NodeOptions,
    ) -> Result<Self, NodeError> {
        options.validate()?;
        let seed = options.seed.unwrap_or_else(|| {
            let time = clock::since_1970();
            random::mix(time.as_nanos() as u64) ^ u64::from(std::process::id())
        });
        let id = NodeId {
            name: options.name.clone(),
            incarnation: random::number(seed, 0),
        };
        let inner = Arc::new(NodeInner {
            system: system.clone(),
            engine,
            id,
            counters: NodeCounters::default(),
            table: Table::default(),
            published: Mutex::default(),
            proxies: Mutex::default(),
            kept: Kept::default(),
            lease: Mutex::default(),
            routes: Mutex::default(),
            listeners: Mutex::default(),
            closers: Mutex::default(),
            at_leave: Mutex::default(),
            next: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            is_leaving: AtomicBool::new(false),
            members: Mutex::default(),
            subscriptions: Mutex::default(),
            options,
        });
        let node = Self { inner };
        node.start()?;
        Ok(node)
    }

    fn start(&self) -> Result<(), NodeError> {
        let inner = &self.inner;
        let options = SpawnOptions::new()
            .lane(LaneConfig::bounded(CONTROL_BOUND))
            .name(format!("remote/{}", inner.id));
        let members = Members::new(inner.clone());
        let members = inner.system.spawn_once(options, members);
        let members = members.map_err(|error| NodeError::Option(error.to_string()))?;
        *inner.members.lock() = Some(members.clone());
        let receive = |weak: Weak<NodeInner>, to: fn(&NodeInner, Frame)| {
            move |incoming: Incoming| {
                if let Some(inner) = weak.upgrade()
                    && let Some(frame) = inner.decode(&incoming)
                {
                    to(&inner, frame);
                }
            }
        };
        let weak = Arc::downgrade(inner);
        let inbox = inner.engine.subscribe(
            &inner.inbox_of(&inner.id),
            Arc::new(receive(weak.clone(), NodeInner::dispatch)),
        )?;
        let heartbeats = inner.engine.subscribe(
            &inner.subject("hb"),
            Arc::new(receive(weak.clone(), |inner, frame| {
                let members = inner.members.lock().clone();
                if let Some(members) = members {
                    // An actor that takes no more messages hears nothing.
                    let _ = members.tell(frame);
                }
            })),
        )?;
        let weak_routes = weak.clone();
        let no_responders = inner.engine.subscribe(
            &inner.no_responders("*"),
            Arc::new(move |incoming: Incoming| {
                let route = incoming.subject.rsplit('.').next();
                if let Some(inner) = weak_routes.upgrade()
                    && let Some(route) = route.and_then(|it| it.parse().ok())
                    && incoming.is_no_responders
                {
                    let route = inner.routes.lock().get(&route).cloned();
                    if let Some(route) = route {
                        route(Arrived::NoResponders);
                    }
                }
            }),
        )?;
        let all = [inbox, heartbeats, no_responders];
        inner.subscriptions.lock().extend(all);
        let members_route = members.clone();
        inner.add_route(0, move |arrived| {
            let _ = match arrived {
                Arrived::Frame(frame) => members_route.tell(frame).is_ok(),
                Arrived::NoResponders => members_route.tell(NoResponders).is_ok(),
            };
        });
        // Before the engine says the present state, which it says once.
        let listening = members.clone();
        inner.listen(inner.next_id(), move |change| {
            if let Change::Connection(event) = change {
                let _ = listening.tell(*event);
            }
        });
        let events = weak;
        inner.engine.on_event(Arc::new(move |event| {
            if let Some(inner) = events.upgrade() {
                inner.announce(&Change::Connection(event));
            }
        }));
        match members.ask(Join).wait() {
            Ok(joined) => joined,
            Err(_) => Err(NodeError::Closed),
        }
        .inspect_err(|_| {
            members.stop();
            inner.close();
        })
    }

    /// This start of the node.
    pub fn id(&self) -> &NodeId {
        &self.inner.id
    }

    /// Its system.
    pub fn system(&self) -> &System {
        &self.inner.system
    }

    /// The nodes that live, as far as this one knows, in the order of their names. This one is among them.
    pub fn nodes(&self) -> Vec<NodeInfo> {
        self.inner.table.nodes()
    }

    /// Tells `watcher` of each node that comes or goes from now on. A watcher whose mailbox is full misses it.
    pub fn watch(&self, watcher: Recipient<NodeChange>) {
        let id = self.inner.next_id();
        self.inner.listen(id, move |change| {
            if let Change::Node(change) = change {
                // The caller sends this node's heartbeats: it waits for no watcher.
                let _ = watcher.try_tell(change.clone());
            }
        });
    }

    /// Whether it has left, or has lost its name to another node.
    pub fn has_left(&self) -> bool {
        self.inner.is_closed()
    }

    /// Leaves in order, within this time: what this node has accepted is sent, what has arrived is handled and answered, and
    /// the others are told. Blocks. `true` if all was done in time; a connection that has just broken may not be noticed. What
    /// cannot be sent, for example to a name that nobody publishes, is counted by `RemoteCounters::undelivered`.
    ///
    /// Call it before the system's shutdown and before `main` returns. Only this call sends messages that wait for credit.
    pub fn leave(&self, within: Duration) -> bool {
        let within_ns = u64::try_from(within.as_nanos()).unwrap_or(u64::MAX);
        let deadline = clock::to_instant(clock::now_ns().saturating_add(within_ns));
        let parts = std::mem::take(&mut *self.inner.at_leave.lock());
        for ends in parts {
            ends(deadline);
        }
        let lease = self.inner.lease.lock().take();
        if let Some((lease, ..)) = lease {
            lease::release(&lease);
        }
        // First what others have sent, because its handlers may send; then what this node has accepted.
        let ports: Vec<_> = self.inner.published.lock().values().cloned().collect();
        for port in &ports {
            port.withdraw();
        }
        let mut is_done = ports.iter().all(|port| port.wait_ended(deadline));
        // Ordering: Release, pairs with the Acquire of `is_leaving`.
        self.inner.is_leaving.store(true, Ordering::Release);
        let proxies = self.inner.proxies.lock().clone();
        for (proxy, _) in &proxies {
            let _ = proxy.tell_lane(CONTROL_LANE, Control::Drain);
        }
        for (proxy, _) in &proxies {
            is_done &= proxy.wait_ended_until(deadline).is_some();
        }
        let members = self.inner.members.lock().take();
        if let Some(members) = members {
            let is_told = members.ask(Leave).deadline(deadline).wait();
            is_done &= matches!(is_told, Ok(true));
            members.stop_gracefully();
        }
        self.inner.close();
        let left = deadline.saturating_duration_since(clock::to_instant(clock::now_ns()));
        self.inner
            .engine
            .close(left.max(Duration::from_millis(100)));
        is_done && !left.is_zero()
    }
}
