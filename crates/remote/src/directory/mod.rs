//! A directory across nodes: actors by key, at most one activation of each key in all processes.
//!
//! ```text
//!   tell(key, msg) ──▶ partition of the key ──▶ kept here: the local directory's activation
//!                                          └──▶ Host ──▶ proxy ═══▶ Host of the node that keeps it ──▶ activation
//! ```
//!
//! Keys are divided into partitions. Each partition that is in use is a key of the bucket `PREFIX-names`, whose value is the
//! lease of the node that keeps it, and whose revision is the epoch of all activations there. `README.md` beside this file
//! has the protocol, what it promises, and a proof sketch. `host` is the actor that claims, forwards and moves.
//!
//! Partitions instead of one entry for each key: a node that fails is replaced by as many compare-and-sets as it had
//! partitions, not actors, and NATS holds a bounded number of keys. Within a partition, the directory of `freeboard-actor`
//! does what it does in one process.

mod host;
mod routed;

use std::{
    fmt,
    future::{Future, IntoFuture},
    hash::Hash,
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use freeboard_actor::{
    Actor, ActorRef, Ask, AskError, Directory, Receives, SpawnOptions, TellError,
};
use freeboard_flow::{BOUND_MAX, LaneConfig, random};
use freeboard_platform::clock;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    error::{Failure, NodeError, RemoteAskError, RemoteTellError},
    lease::{self, Fence, Lease, LeasePlan, LeaseShared},
    message::RemoteMessage,
    node::{CONTROL_BOUND, Node, NodeInner, check_name},
    port::PublishOptions,
    remote_ref::{OVERHEAD_BYTES, RemoteOptions},
};
use host::{HOST_MESSAGES, Host, HostControl};
pub(crate) use routed::Routed;
use routed::{Accepts, Owned, Shared};

/// The default of [`RemoteDirectoryOptions::partitions`].
pub const PARTITIONS_DEFAULT: u32 = 128;
const PARTITIONS_MAX: u32 = 4_096;

/// What a key is.
pub trait RemoteKey:
    Serialize + DeserializeOwned + Hash + Eq + Clone + Send + Sync + 'static
{
}

impl<K: Serialize + DeserializeOwned + Hash + Eq + Clone + Send + Sync + 'static> RemoteKey for K {}

/// Loads and saves the actors of a [`RemoteDirectory`].
///
/// Both methods run on a worker, in a section that may block. What they and the actor write carries [`Fence::epoch`], and
/// the target refuses older epochs. `freeboard_stream` has such targets: a stream that is opened with an epoch, and
/// `FencedStore` for snapshots.
///
/// A closure from key and fence to an actor is a store that saves nothing.
pub trait RemoteStore<K, A>: Send + Sync + 'static {
    /// Why an actor was not loaded or saved.
    type Error: fmt::Display;

    /// Makes the actor of a key, from its saved state if there is one. The target must be fenced before the state is read:
    /// no write of an older epoch may succeed from then on.
    ///
    /// # Errors
    /// As [`freeboard_actor::Store::load`].
    fn load(&self, key: &K, fence: &Fence) -> Result<A, Self::Error>;

    /// Saves the state of an actor that has handled all its messages.
    ///
    /// # Errors
    /// As [`freeboard_actor::Store::save`].
    fn save(&self, key: &K, fence: &Fence, actor: &mut A) -> Result<(), Self::Error>;
}

impl<K, A, F: Fn(&K, &Fence) -> A + Send + Sync + 'static> RemoteStore<K, A> for F {
    type Error = std::convert::Infallible;

    fn load(&self, key: &K, fence: &Fence) -> Result<A, Self::Error> {
        Ok(self(key, fence))
    }

    fn save(&self, _: &K, _: &Fence, _: &mut A) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// The options of a directory across nodes. All nodes of a directory use the same partitions.
#[must_use = "options alone make no directory"]
pub struct RemoteDirectoryOptions<K: RemoteKey, A: Actor> {
    pub(crate) name: String,
    pub(crate) partitions: u32,
    pub(crate) ttl: Duration,
    pub(crate) idle_after: Option<Duration>,
    pub(crate) activations_max: usize,
    pub(crate) mailbox: LaneConfig,
    pub(crate) waiting: LaneConfig,
    pub(crate) window: (u64, u64),
    pub(crate) sends_only: bool,
    pub(crate) accepts: Accepts<K, A>,
}

impl<K: RemoteKey, A: Actor> fmt::Debug for RemoteDirectoryOptions<K, A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RemoteDirectoryOptions({})", self.name)
    }
}

impl<K: RemoteKey, A: Actor> RemoteDirectoryOptions<K, A> {
    /// A directory with this name, [`PARTITIONS_DEFAULT`], leases of 3 s, no passivation, 65,536 activations on this node,
    /// mailboxes of 1,024 messages.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            partitions: PARTITIONS_DEFAULT,
            ttl: Duration::from_secs(3),
            idle_after: None,
            activations_max: 65_536,
            mailbox: LaneConfig::bounded(1_024),
            waiting: LaneConfig::bounded(1_024),
            window: (4_096, 16 * 1_024 * 1_024),
            sends_only: false,
            accepts: Accepts::default(),
        }
    }

    /// Messages of this type can be sent over the network. Those of other types reach activations of this node only.
    pub fn accept<M: RemoteMessage>(mut self) -> Self
    where
        A: Receives<M, Reply = M::Reply>,
    {
        self.accepts.add::<M>();
        self
    }

    /// Into how many partitions the keys are divided, 1 to 4,096. A key's partition depends on it, so it cannot be changed
    /// while nodes run.
    pub fn partitions(mut self, partitions: u32) -> Self {
        self.partitions = partitions;
        self
    }

    /// How long others wait for a node that is silent before they take over what it keeps; also how long an activation goes
    /// on without NATS, less a tenth. All directories of a prefix use the same. Default 3 s.
    ///
    /// A message ends with the lease that is valid at its delivery, after 0.65 to 0.9 of this time: choose it longer than the
    /// longest queue and handler of an activation.
    pub fn lease(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// This node keeps no keys: it only sends, as the front of a service does. While no other node takes part, messages
    /// wait, up to a bound and for two leases.
    pub fn sends_only(mut self) -> Self {
        self.sends_only = true;
        self
    }

    /// Passivates an activation after this time without a message.
    pub fn idle_after(mut self, idle: Duration) -> Self {
        self.idle_after = Some(idle);
        self
    }

    /// The bound on activations of one partition on this node.
    pub fn activations_max(mut self, activations: usize) -> Self {
        self.activations_max = activations.max(1);
        self
    }

    /// The mailbox of each actor. If it is full, messages that come over the network are refused or shed, and counted: they
    /// wait for no single actor.
    pub fn mailbox(mut self, lane: LaneConfig) -> Self {
        self.mailbox = lane;
        self
    }

    /// Bound and policy of the messages that wait at this node for another node's credit, for each other node.
    pub fn waiting(mut self, lane: LaneConfig) -> Self {
        self.waiting = lane;
        self
    }

    /// Messages and bytes from all other nodes together that are on their way to this node's activations.
    pub fn window(mut self, messages: u64, bytes: u64) -> Self {
        self.window = (messages, bytes);
        self
    }

    fn validate(&self) -> Result<(), NodeError> {
        check_name(&self.name)?;
        if !(1..=PARTITIONS_MAX).contains(&self.partitions) {
            return Err(NodeError::Option(format!(
                "a directory has 1 to {PARTITIONS_MAX} partitions"
            )));
        }
        if self.ttl < Duration::from_millis(200) {
            return Err(NodeError::Option(
                "a lease holds for 200 ms at least".to_owned(),
            ));
        }
        for lane in [&self.mailbox, &self.waiting] {
            lane.validate()
                .map_err(|error| NodeError::Option(error.to_string()))?;
        }
        Ok(())
    }
}

/// The partition of an encoded key. The same on all nodes and in all versions.
pub(crate) fn partition_of(key: &[u8], partitions: u32) -> u32 {
    random::below(hash(key), partitions as usize) as u32
}

fn hash(bytes: &[u8]) -> u64 {
    let mut state = random::mix(bytes.len() as u64);
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = random::mix(state ^ u64::from_le_bytes(word));
    }
    random::mix(state.wrapping_add(random::STEP))
}

/// The node that should keep a partition: the one with the highest weight (rendezvous hashing, Thaler and Ravishankar). When
/// a node comes or goes, only its own partitions move.
pub(crate) fn choose<'a>(partition: u32, nodes: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    nodes.max_by_key(|name| {
        let weight = random::mix(hash(name.as_bytes()) ^ random::mix(u64::from(partition)));
        (weight, *name)
    })
}

/// Actors by key, over all nodes that make a directory of this name. Cheap to clone.
pub struct RemoteDirectory<K: RemoteKey, A: Actor> {
    shared: Arc<Shared<K, A>>,
    host: ActorRef<Host<K, A>>,
    node: Arc<NodeInner>,
}

impl<K: RemoteKey, A: Actor> Clone for RemoteDirectory<K, A> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            host: self.host.clone(),
            node: self.node.clone(),
        }
    }
}

impl<K: RemoteKey, A: Actor> fmt::Debug for RemoteDirectory<K, A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RemoteDirectory({})", self.shared.name)
    }
}

impl Node {
    /// The lease of this node; the first directory starts it.
    fn lease(&self, ttl: Duration) -> Result<(ActorRef<Lease>, Arc<LeaseShared>), NodeError> {
        let inner = &self.inner;
        let mut lease = inner.lease.lock();
        if let Some((actor, shared, present)) = &*lease {
            if *present != ttl {
                return Err(NodeError::Option(format!(
                    "the leases of this node hold for {present:?}, not {ttl:?}"
                )));
            }
            return Ok((actor.clone(), shared.clone()));
        }
        let plan = LeasePlan::new(&inner.options.prefix, ttl);
        let shared = Arc::new(LeaseShared::default());
        let actor = Lease::new(inner.clone(), plan, shared.clone());
        let options = SpawnOptions::new().lane(LaneConfig::bounded(CONTROL_BOUND));
        let actor = inner.system.spawn_once(options, actor);
        let actor = actor.map_err(|error| NodeError::Option(error.to_string()))?;
        *lease = Some((actor.clone(), shared.clone(), ttl));
        Ok((actor, shared))
    }

    /// Makes this node a part of a directory: it keeps some of the keys, and sends to the others.
    ///
    /// It needs JetStream. Until this node has a lease, messages wait, up to a bound.
    ///
    /// # Errors
    /// [`NodeError`] for a wrong option. What the server refuses is in [`RemoteDirectory::trouble`], because it may end.
    pub fn directory<K, A, S>(
        &self,
        options: RemoteDirectoryOptions<K, A>,
        store: S,
    ) -> Result<RemoteDirectory<K, A>, NodeError>
    where
        K: RemoteKey,
        A: Actor,
        S: RemoteStore<K, A>,
    {
        options.validate()?;
        let inner = self.inner.clone();
        if inner.is_closed() {
            return Err(NodeError::Closed);
        }
        let (lease, lease_shared) = self.lease(options.ttl)?;
        let shared = Arc::new(Shared::new(&options));
        let window = PublishOptions::new().window(options.window.0, options.window.1);
        // The window is at most the bound of its lane.
        let messages = usize::try_from(options.window.0).unwrap_or(usize::MAX);
        let messages = messages.clamp(HOST_MESSAGES, BOUND_MAX as usize);
        let host = Host::new(inner.clone(), options, shared.clone(), lease_shared, store);
        let lanes = [
            LaneConfig::bounded(CONTROL_BOUND),
            LaneConfig::bounded(messages).overload(freeboard_flow::Overload::Wait),
        ];
        let spawn = SpawnOptions::new()
            .lanes(lanes)
            .pending_asks(freeboard_actor::PENDING_ASKS_BOUND_MAX);
        let host = inner.system.spawn_once(spawn, host);
        let host = host.map_err(|error| NodeError::Option(error.to_string()))?;
        let name = format!("{}/{}", shared.name, inner.id.name);
        let subject = host_subject(&inner, &shared.name, &inner.id);
        let window = window.lane(host::MESSAGE_LANE);
        if let Err(error) = self.publish_at::<Routed, _>(&name, subject, &host, window) {
            host.stop();
            return Err(error);
        }
        let listening = host.clone();
        lease::listen(
            &lease,
            Arc::new(move |change| {
                let _ = listening.tell(HostControl::lease(change));
            }),
        );
        let counted = Arc::downgrade(&shared);
        inner.kept.add_directory(move || {
            let shared = counted.upgrade()?;
            Some((shared.name.clone(), shared.counters()))
        });
        let directory = RemoteDirectory {
            shared,
            host: host.clone(),
            node: inner.clone(),
        };
        inner.at_leave(move |deadline| {
            let _ = host.ask(host::Drain).deadline(deadline).wait();
        });
        Ok(directory)
    }
}

/// Where the host of a directory on a node listens.
pub(crate) fn host_subject(node: &NodeInner, directory: &str, id: &crate::NodeId) -> String {
    let (directory, name) = (directory.replace('/', "."), id.name.replace('/', "."));
    node.subject(&format!("dir.{:x}.{directory}.{name}", id.incarnation))
}

/// Options of the remote references of a host.
pub(crate) fn peer_options(waiting: LaneConfig) -> RemoteOptions {
    RemoteOptions::new().lane(waiting)
}

impl<K: RemoteKey, A: Actor> RemoteDirectory<K, A> {
    /// Sends a message to the activation of the key, wherever it is. It is sent at most once. If the activation is on this
    /// node, this is [`Directory::tell`]; otherwise it waits for this node's host, and then for credit of the other node.
    ///
    /// # Errors
    /// [`RemoteTellError`], with the message.
    pub fn tell<M: RemoteMessage>(&self, key: &K, msg: M) -> Result<(), RemoteTellError<M>>
    where
        A: Receives<M, Reply = M::Reply>,
    {
        let encoded = match encode(key) {
            Ok(encoded) => encoded,
            Err(why) => return Err(RemoteTellError::Encoding(msg, why)),
        };
        let msg = match self.shared.owned(&encoded) {
            Some(owned) => match owned.tell(key, msg) {
                Ok(()) => return Ok(()),
                Err(TellError::Closed(msg)) => msg,
                Err(error) => return Err(RemoteTellError::Full(error.into_inner())),
            },
            None => msg,
        };
        let routed = match self.routed(encoded, &msg) {
            Ok(routed) => routed,
            Err(NotRouted::Encoding(why)) => return Err(RemoteTellError::Encoding(msg, why)),
            Err(NotRouted::TooLarge(why)) => return Err(RemoteTellError::TooLarge(msg, why)),
        };
        match self.host.tell_lane(host::MESSAGE_LANE, routed) {
            Ok(()) => Ok(()),
            Err(TellError::Closed(_)) => Err(RemoteTellError::Closed(msg)),
            Err(_) => Err(RemoteTellError::Full(msg)),
        }
    }

    /// Sends a message to the activation of the key and receives the reply.
    pub fn ask<M: RemoteMessage>(&self, key: &K, msg: M) -> RemoteDirectoryAsk<K, A, M>
    where
        A: Receives<M, Reply = M::Reply>,
    {
        RemoteDirectoryAsk {
            directory: self.clone(),
            key: key.clone(),
            msg,
            deadline_ns: None,
        }
    }

    fn routed<M: RemoteMessage>(&self, key: Bytes, msg: &M) -> Result<Routed, NotRouted> {
        let payload = encode(msg).map_err(NotRouted::Encoding)?;
        // The lengths and numbers of a `Routed` take less than the rest.
        let bytes = key.len() + payload.len() + M::NAME.len() + 32;
        let bytes_max = self
            .node
            .engine
            .payload_max()
            .saturating_sub(OVERHEAD_BYTES);
        if bytes > bytes_max {
            return Err(NotRouted::TooLarge(format!(
                "it has {bytes} bytes, the server takes {bytes_max}"
            )));
        }
        Ok(Routed::new::<M>(key, payload))
    }

    /// Partitions that this node keeps now, with the revisions of their epochs.
    pub fn partitions(&self) -> Vec<(u32, freeboard_flow::Epoch)> {
        self.shared.kept()
    }

    /// Activations on this node.
    pub fn activations(&self) -> usize {
        self.shared.activations()
    }

    /// The activation of the key, if it is on this node.
    ///
    /// Messages that are sent by this reference do not end with the lease: a node that was paused may handle them when it
    /// wakes, while another node keeps the key. Those of [`RemoteDirectory::tell`] and [`RemoteDirectory::ask`] are not
    /// handled then. Nor does the reference follow the key: it takes no messages once the activation is passivated or moves.
    pub fn find(&self, key: &K) -> Option<ActorRef<A>> {
        let owned = self.shared.owned(&encode(key).ok()?)?;
        owned.directory.find(key)
    }

    /// Why this node can keep no keys now; `None` if it can.
    pub fn trouble(&self) -> Option<String> {
        let trouble = self.shared.trouble()?;
        // What the server has refused, while there is no lease.
        let lease = self.node.lease.lock();
        let refused = lease.as_ref().and_then(|it| it.1.trouble());
        Some(refused.unwrap_or(trouble))
    }

    /// Counters of this node's part.
    pub fn counters(&self) -> RemoteDirectoryCounters {
        self.shared.counters()
    }
}

/// Counters of one node's part of a directory, since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RemoteDirectoryCounters {
    /// Partitions that were claimed, and those of them that were taken over from a node whose lease had ended.
    pub claims: u64,
    /// See `claims`.
    pub takeovers: u64,
    /// Partitions that were given up in order, to move or to leave.
    pub releases: u64,
    /// Partitions that were lost with the lease.
    pub losses: u64,
    /// Messages that were delivered to activations of this node by the host.
    pub delivered: u64,
    /// Messages that were sent on to another node.
    pub forwarded: u64,
    /// Messages that were refused: no capacity, no lease in time, too many hops, or an encoding that is wrong. Each ask got
    /// an error.
    pub refused: u64,
    /// Messages that wait for a claim now.
    pub waiting: u64,
}

/// Encodes a key or a message. Both are the user's, so that may fail.
fn encode<T: Serialize>(value: &T) -> Result<Bytes, String> {
    let encoded = postcard::to_stdvec(value).map(Bytes::from);
    encoded.map_err(|error| error.to_string())
}

/// Why a message cannot be sent to a host.
enum NotRouted {
    Encoding(String),
    TooLarge(String),
}

/// An ask of a directory that is not sent yet.
#[must_use = "nothing is sent before `.await` or `.wait()`"]
pub struct RemoteDirectoryAsk<K: RemoteKey, A: Actor, M> {
    directory: RemoteDirectory<K, A>,
    key: K,
    msg: M,
    deadline_ns: Option<u64>,
}

impl<K: RemoteKey, A: Actor, M> fmt::Debug for RemoteDirectoryAsk<K, A, M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RemoteDirectoryAsk({:?})", self.directory)
    }
}

enum Started<K: RemoteKey, A: Actor, M: RemoteMessage>
where
    A: Receives<M, Reply = M::Reply>,
{
    Here(freeboard_actor::DirectoryAsk<K, A, M>, ByHost<K, A>),
    Routed(HostAsk<K, A>, PhantomData<M>),
}

type HostAsk<K, A> = Ask<Host<K, A>, Routed, Result<Bytes, Failure>>;

/// An ask by this node's host.
struct ByHost<K: RemoteKey, A: Actor> {
    directory: RemoteDirectory<K, A>,
    key: Bytes,
    deadline_ns: Option<u64>,
}

impl<K: RemoteKey, A: Actor> ByHost<K, A> {
    fn ask<M: RemoteMessage>(self, msg: &M) -> Result<HostAsk<K, A>, RemoteAskError> {
        let routed = self.directory.routed(self.key, msg);
        let routed = routed.map_err(|error| match error {
            NotRouted::Encoding(why) => RemoteAskError::Encoding(why),
            NotRouted::TooLarge(why) => RemoteAskError::TooLarge(why),
        })?;
        let ask = self.directory.host.ask(routed).lane(host::MESSAGE_LANE);
        Ok(match self.deadline_ns {
            Some(deadline_ns) => ask.deadline(clock::to_instant(deadline_ns)),
            None => ask,
        })
    }
}

impl<K, A, M> RemoteDirectoryAsk<K, A, M>
where
    K: RemoteKey,
    A: Actor + Receives<M, Reply = M::Reply>,
    M: RemoteMessage,
{
    /// The deadline, counted from now. Without one, an ask waits as long as its message may wait for a claim. It ends earlier as
    /// [`RemoteAskError::Expired`] if the lease that was valid at its delivery ends first:
    /// [`RemoteDirectoryOptions::lease`].
    pub fn timeout(mut self, timeout: Duration) -> Self {
        let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        self.deadline_ns = Some(clock::now_ns().saturating_add(timeout_ns));
        self
    }

    /// The deadline as a point in time.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline_ns = Some(clock::from_instant(deadline));
        self
    }

    fn start(self) -> Result<Started<K, A, M>, RemoteAskError> {
        let Self {
            directory,
            key,
            msg,
            deadline_ns,
        } = self;
        let encoded = encode(&key).map_err(RemoteAskError::Encoding)?;
        let owned = directory.shared.owned(&encoded);
        let by_host = ByHost {
            directory,
            key: encoded,
            deadline_ns,
        };
        if let Some(owned) = owned
            && let Some(until_ns) = owned.fence.valid_until_ns()
        {
            let deadline_ns = deadline_ns.unwrap_or(u64::MAX).min(until_ns);
            let ask = owned.directory.ask(&key, msg);
            let ask = ask.deadline(clock::to_instant(deadline_ns));
            return Ok(Started::Here(ask, by_host));
        }
        Ok(Started::Routed(by_host.ask(&msg)?, PhantomData))
    }

    /// Blocks until the reply is here.
    ///
    /// # Errors
    /// [`RemoteAskError`].
    pub fn wait(self) -> Result<M::Reply, RemoteAskError> {
        match self.start()? {
            Started::Here(ask, by_host) => match ask.wait() {
                // The partition was given up meanwhile.
                Err(AskError::Closed(msg)) => decode::<M>(by_host.ask(&msg)?.wait()),
                outcome => outcome.map_err(local_error),
            },
            Started::Routed(ask, _) => decode::<M>(ask.wait()),
        }
    }
}

impl<K, A, M> IntoFuture for RemoteDirectoryAsk<K, A, M>
where
    K: RemoteKey,
    A: Actor + Receives<M, Reply = M::Reply>,
    M: RemoteMessage,
{
    type Output = Result<M::Reply, RemoteAskError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let started = self.start();
        Box::pin(async move {
            match started? {
                Started::Here(ask, by_host) => match ask.await {
                    // The partition was given up meanwhile.
                    Err(AskError::Closed(msg)) => decode::<M>(by_host.ask(&msg)?.await),
                    outcome => outcome.map_err(local_error),
                },
                Started::Routed(ask, _) => decode::<M>(ask.await),
            }
        })
    }
}

/// The error of an ask of an activation on this node, or of its host.
fn local_error<M>(error: AskError<M>) -> RemoteAskError {
    match error {
        AskError::Full(_) => RemoteAskError::Full,
        AskError::Closed(_) => RemoteAskError::Down("this node has left".to_owned()),
        AskError::Expired => RemoteAskError::Expired,
        AskError::Shed => RemoteAskError::Shed,
        _ => RemoteAskError::NoReply,
    }
}

fn decode<M: RemoteMessage>(
    outcome: Result<Result<Bytes, Failure>, AskError<Routed>>,
) -> Result<M::Reply, RemoteAskError> {
    let payload = match outcome {
        Ok(reply) => reply?,
        Err(error) => return Err(local_error(error)),
    };
    postcard::from_bytes(&payload).map_err(|error| RemoteAskError::Encoding(error.to_string()))
}

impl<K: RemoteKey, A: Actor> Owned<K, A> {
    /// Tells the activation of the key; the message ends with the lease.
    fn tell<M: RemoteMessage>(&self, key: &K, mut msg: M) -> Result<(), TellError<M>>
    where
        A: Receives<M, Reply = M::Reply>,
    {
        loop {
            let Some(until_ns) = self.fence.valid_until_ns() else {
                return Err(TellError::Closed(msg));
            };
            let actor = match self.directory.get(key) {
                Ok(actor) => actor,
                Err(freeboard_actor::DirectoryError::Closed) => return Err(TellError::Closed(msg)),
                Err(_) => return Err(TellError::Full(msg)),
            };
            let until = clock::to_instant(until_ns);
            match actor.ask(msg).deadline(until).tell() {
                // It was passivated since: the next activation gets the message.
                Err(TellError::Closed(refused)) => msg = refused,
                outcome => return outcome,
            }
        }
    }
}

/// The directory of one partition.
pub(crate) type Part<K, A> = Directory<K, A>;
