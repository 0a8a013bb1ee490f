//! The host: the actor of a node's part of a directory. It knows who keeps each partition, claims, forwards, and moves.
//!
//! ```text
//!              message, nobody else keeps it  put succeeded, lease's key there and valid
//!   Free ────────────────────────────────▶ Claiming ──────────────────────────────▶ Kept
//!    ▲  ◀──────── conflict, or no lease ──────┘                                       │ another node should keep it,
//!    │                                                                                │ or this one leaves
//!    └────────── entry deleted ◀── Releasing: all activations are saved ◀─────────────┘
//!
//!   lease lost: Kept and Releasing become Free at once; activations stop without a save
//! ```
//!
//! Messages that come while a partition is claimed or released wait here, bounded, and are routed again afterwards. A message
//! goes through a few nodes at most.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use freeboard_actor::{
    Activation, Actor, Context, Deferred, DeferredHandler, DirectoryError, DirectoryOptions,
    Handler, Store,
};
use freeboard_flow::LaneConfig;
use freeboard_platform::{clock, planted};

use super::{
    RemoteDirectoryOptions, RemoteKey, RemoteStore, choose, host_subject, partition_of,
    peer_options,
    routed::{Accepts, Owned, Routed, RoutedReply, Shared},
};
use crate::{
    engine::{ConnectionEvent, Done, EngineError, Entry, Expected, Subscription},
    error::{Failure, RemoteAskError},
    lease::{
        Fence, LeaseChange, LeaseId, LeasePlan, LeaseShared, LeaseValue, from_bytes, is_over,
        to_bytes,
    },
    members::NodeChange,
    message,
    node::{Change, Node, NodeInner},
    remote_ref::RemoteRef,
    wire::NodeId,
};

/// The lane of messages.
pub(crate) const MESSAGE_LANE: usize = 1;
/// The least bound of the host's messages. A larger window of the other nodes raises it.
pub(super) const HOST_MESSAGES: usize = 1_024;
/// Messages that wait for claims, of all partitions.
const WAITING_MAX: usize = 4_096;
/// Nodes that may choose where the message to a partition without a keeper goes.
const CHOICES_MAX: u8 = 2;
/// Nodes that a message may come through.
const HOPS_MAX: u8 = 4;
/// Partitions that are released at the same time to move.
const MOVES_MAX: usize = 8;
/// Between two attempts at what did not succeed.
const RETRY: Duration = Duration::from_millis(50);

type Waiting = VecDeque<(Routed, RoutedReply, u64)>;

enum Ownership<K: RemoteKey, A: Actor> {
    Free,
    Claiming(Waiting),
    Kept(Arc<Owned<K, A>>),
    Releasing(Arc<Owned<K, A>>, Waiting),
}

/// A partition as this node knows it.
struct Partition<K: RemoteKey, A: Actor> {
    ownership: Ownership<K, A>,
    /// Its entry in `PREFIX-names`.
    entry: Option<(u64, LeaseId)>,
    /// The entry whose keeper this claim shows to be dead. Not `entry`, which may change meanwhile: it could then name a
    /// keeper that lives.
    dead: Option<(u64, LeaseId)>,
    /// What the put under way writes. The lease may be another one when the answer comes.
    claimed: Option<LeaseId>,
    /// Steps of claims that were begun before are void.
    attempt: u64,
    /// A call of the engine has no result yet.
    is_under_way: bool,
}

/// The actor of a node's part of a directory.
pub(crate) struct Host<K: RemoteKey, A: Actor> {
    node: Arc<NodeInner>,
    name: String,
    plan: LeasePlan,
    shared: Arc<Shared<K, A>>,
    lease: Arc<LeaseShared>,
    accepts: Accepts<K, A>,
    member: DirectoryOptions,
    waiting: LaneConfig,
    load: Stored<K, A>,
    partitions: Vec<Partition<K, A>>,
    /// Nodes that have announced that they take part.
    hosts: BTreeMap<String, NodeId>,
    /// Those of them that were not up when they were last checked; `None` if no check is set.
    absent: Option<(u64, BTreeSet<NodeId>)>,
    peers: BTreeMap<NodeId, RemoteRef<Routed>>,
    _watch: Option<Subscription>,
    is_watching: bool,
    is_announced: bool,
    is_leaving: Option<Deferred<()>>,
    has_left: bool,
    has_timer: bool,
    sends_only: bool,
}

type Stored<K, A> = Arc<dyn StoreOf<K, A>>;

/// A [`RemoteStore`] of any type.
trait StoreOf<K, A>: Send + Sync {
    fn load(&self, key: &K, fence: &Fence) -> Result<A, String>;
    fn save(&self, key: &K, fence: &Fence, actor: &mut A) -> Result<(), String>;
}

impl<K, A, S: RemoteStore<K, A>> StoreOf<K, A> for S {
    fn load(&self, key: &K, fence: &Fence) -> Result<A, String> {
        RemoteStore::load(self, key, fence).map_err(|error| format!("{error:#}"))
    }

    fn save(&self, key: &K, fence: &Fence, actor: &mut A) -> Result<(), String> {
        RemoteStore::save(self, key, fence, actor).map_err(|error| format!("{error:#}"))
    }
}

/// The store of one partition's local directory.
struct PartStore<K, A> {
    store: Stored<K, A>,
    fence: Fence,
}

impl<K: RemoteKey, A: Actor> Store<K, A> for PartStore<K, A> {
    type Error = String;

    fn load(&self, activation: &Activation<K>) -> Result<A, String> {
        if !self.fence.is_valid() {
            return Err("the lease of this node is over".to_owned());
        }
        self.store.load(&activation.key, &self.fence)
    }

    fn save(&self, activation: &Activation<K>, actor: &mut A) -> Result<(), String> {
        self.store.save(&activation.key, &self.fence, actor)
    }
}

/// A reply that comes back through the host.
pub(super) struct Outcome {
    pub(super) reply: RoutedReply,
    pub(super) outcome: Result<Bytes, Failure>,
}

/// Gives up all partitions in order.
pub(super) struct Drain;

/// Told to a host.
pub(crate) struct HostControl(Control);

enum Control {
    Lease(LeaseChange),
    Change(Change),
    Watched(String, Option<Entry>),
    /// What a put of a partition's entry gave.
    Put(u32, u64, Result<u64, EngineError>),
    /// A partition's entry, read.
    Got(u32, u64, Result<Option<Entry>, EngineError>),
    /// The key of this node's lease, read after the put of an entry with this revision.
    Checked(u32, u64, (u64, LeaseId), Result<Option<Entry>, EngineError>),
    /// What the attempt to find a lease dead gave.
    Fenced(u32, u64, Result<u64, EngineError>),
    /// A lease's key, read.
    LeaseGot(u32, u64, Result<Option<Entry>, EngineError>),
    Deleted(u32, u64, Result<(), EngineError>),
    Announced(Result<u64, EngineError>),
    AnnounceFound(Result<Option<Entry>, EngineError>),
}

impl HostControl {
    pub(super) fn lease(change: LeaseChange) -> Self {
        Self(Control::Lease(change))
    }
}

impl<K: RemoteKey, A: Actor> Host<K, A> {
    pub(super) fn new(
        node: Arc<NodeInner>,
        options: RemoteDirectoryOptions<K, A>,
        shared: Arc<Shared<K, A>>,
        lease: Arc<LeaseShared>,
        store: impl RemoteStore<K, A>,
    ) -> Self {
        let mut member = DirectoryOptions::new()
            .name(options.name.clone())
            .activations_max(options.activations_max)
            .member(DirectoryOptions::member_options().lane(options.mailbox));
        if let Some(idle) = options.idle_after {
            member = member.idle_after(idle);
        }
        let partition = || Partition {
            ownership: Ownership::Free,
            entry: None,
            dead: None,
            claimed: None,
            attempt: 0,
            is_under_way: false,
        };
        Self {
            plan: LeasePlan::new(&node.options.prefix, options.ttl),
            node,
            shared,
            lease,
            member,
            waiting: options.waiting,
            load: Arc::new(store),
            partitions: (0..options.partitions).map(|_| partition()).collect(),
            accepts: options.accepts,
            name: options.name,
            sends_only: options.sends_only,
            hosts: BTreeMap::new(),
            absent: None,
            peers: BTreeMap::new(),
            _watch: None,
            is_watching: false,
            is_announced: false,
            is_leaving: None,
            has_left: false,
            has_timer: false,
        }
    }

    /// The key of a partition's entry. Names have no dots, so two directories have no key in common.
    fn key(&self, partition: u32) -> String {
        format!("{}.p.{partition}", self.name)
    }

    /// The key of the entry that says that a node takes part.
    fn host_key(&self, node: &NodeId) -> String {
        format!("{}.host.{}", self.name, node.name)
    }

    /// Deletes the entry of a node, unless a later start has replaced it. A node that lives announces itself again.
    fn delete_host(&self, node: &NodeId) {
        let (engine, names) = (self.node.engine.clone(), self.plan.names.clone());
        let (key, id) = (self.host_key(node), node.clone());
        let read = key.clone();
        let delete = move |entry: Result<Option<Entry>, EngineError>| {
            let Ok(Some(entry)) = entry else { return };
            if from_bytes::<(NodeId, u32)>(&entry.value).is_some_and(|(it, _)| it == id) {
                engine.delete(&names, &key, entry.revision, Box::new(|_| {}));
            }
        };
        let (engine, names) = (&self.node.engine, &self.plan.names);
        engine.get(names, &read, Box::new(delete));
    }

    /// Deletes the entries of nodes that are not up in two checks: they went down when no node of the directory was there to
    /// see it. A node that lives is heard between the two, unless this process was paused: then they begin anew.
    fn check_hosts(&mut self, cx: &mut Context<Self>) {
        let hosts = self.hosts.values();
        let now: BTreeSet<NodeId> = hosts
            .filter(|id| !self.node.table.is_up(id))
            .cloned()
            .collect();
        let now_ns = clock::now_ns();
        let late_ns = 2 * self.node.options.down_after.as_nanos() as u64;
        if let Some((checked_ns, before)) = self.absent.take()
            && now_ns - checked_ns < late_ns
        {
            for node in now.intersection(&before) {
                self.delete_host(node);
            }
        }
        if !now.is_empty() {
            self.absent = Some((now_ns, now));
            let _ = cx.wake_after(self.node.options.down_after, Self::check_hosts);
        }
    }

    fn own_lease(&self) -> Option<LeaseId> {
        Some(LeaseId {
            node: self.node.id.clone(),
            number: self.lease.claims_with()?,
        })
    }

    /// A callback that tells this host.
    fn done<T: Send + 'static>(
        cx: &Context<Self>,
        control: impl FnOnce(T) -> Control + Send + 'static,
    ) -> Box<dyn FnOnce(T) + Send> {
        let me = cx.actor_ref();
        Box::new(move |outcome| {
            let _ = me.tell(HostControl(control(outcome)));
        })
    }

    /// Watches the entries, and announces that this node takes part, once there is a lease.
    fn begin(&mut self, cx: &mut Context<Self>) {
        if !self.is_watching {
            let me = cx.actor_ref();
            let deliver = move |key: &str, entry: Option<Entry>| {
                let _ = me.tell(HostControl(Control::Watched(key.to_owned(), entry)));
            };
            match self.node.engine.watch(&self.plan.names, Arc::new(deliver)) {
                Ok(watch) => {
                    self._watch = Some(watch);
                    self.is_watching = true;
                }
                Err(error) => self.shared.set_trouble(Some(error.to_string())),
            }
        }
        if self.is_unknown() {
            let done: Done<Option<Entry>> = Self::done(cx, Control::AnnounceFound);
            let key = self.host_key(&self.node.id);
            self.node.engine.get(&self.plan.names, &key, done);
        }
    }

    fn announce(&self, entry: Option<&Entry>, cx: &Context<Self>) {
        let expected = entry.map_or(Expected::Absent, |it| Expected::Revision(it.revision));
        let value = to_bytes(&(&self.node.id, self.shared.partitions));
        let done: Done<u64> = Self::done(cx, Control::Announced);
        let key = self.host_key(&self.node.id);
        self.node
            .engine
            .put(&self.plan.names, &key, value, expected, done);
    }

    fn watched(&mut self, key: &str, entry: Option<&Entry>, cx: &mut Context<Self>) {
        let rest = key.strip_prefix(&self.name);
        let Some(rest) = rest.and_then(|it| it.strip_prefix('.')) else {
            return;
        };
        if let Some(host) = rest.strip_prefix("host.") {
            let value = entry.and_then(|it| from_bytes::<(NodeId, u32)>(&it.value));
            // An entry that names another node is foreign.
            let value = value.filter(|(id, _)| id.name == host);
            match value {
                Some((id, partitions)) => {
                    if partitions != self.shared.partitions {
                        let own = self.shared.partitions;
                        let text = format!(
                            "node {} divides the keys into {partitions} partitions, not {own}",
                            id.name
                        );
                        tracing::error!("directory `{}`: {text}", self.name);
                        self.shared.set_trouble(Some(text));
                    }
                    self.hosts.insert(host.to_owned(), id);
                    if self.absent.is_none() {
                        self.check_hosts(cx);
                    }
                }
                None => {
                    self.is_announced &= host != self.node.id.name;
                    self.hosts.remove(host);
                }
            }
            self.later(cx);
        } else if let Some(partition) = rest.strip_prefix("p.").and_then(|it| it.parse().ok()) {
            self.learn(partition, entry);
        }
    }

    /// Keeps what is known of an entry, unless something later is known.
    fn learn(&mut self, partition: u32, entry: Option<&Entry>) {
        let Some(known) = self.partitions.get_mut(partition as usize) else {
            return;
        };
        match entry {
            Some(entry) => {
                let is_newer = known.entry.as_ref().is_none_or(|it| it.0 < entry.revision);
                if let Some(lease) = from_bytes(&entry.value).filter(|_| is_newer) {
                    known.entry = Some((entry.revision, lease));
                }
            }
            // It may have been claimed since: then a claim conflicts, and reads it.
            None => known.entry = None,
        }
    }

    fn keeps_keys(&self) -> bool {
        !self.sends_only && self.is_leaving.is_none() && !self.has_left
    }

    /// The others do not know yet that this node keeps keys.
    fn is_unknown(&self) -> bool {
        !self.is_announced && self.keeps_keys()
    }

    /// The nodes that live and can keep keys now, this one among them. One that was paused has no lease when it wakes: what
    /// moved to it would wait.
    fn live_hosts(&self) -> BTreeSet<&str> {
        let others = self.hosts.values().filter(|id| **id != self.node.id);
        let live = others.filter(|id| self.node.table.has_lease(id));
        let mut names: BTreeSet<_> = live.map(|id| id.name.as_str()).collect();
        if self.keeps_keys() && self.lease.claims_with().is_some() {
            names.insert(&self.node.id.name);
        }
        names
    }

    fn route(&mut self, mut routed: Routed, reply: RoutedReply, cx: &mut Context<Self>) {
        let index = partition_of(&routed.key, self.shared.partitions);
        let since_ns = clock::now_ns();
        match &mut self.partitions[index as usize].ownership {
            Ownership::Kept(owned) => {
                let owned = owned.clone();
                self.deliver(&owned, routed, reply, cx);
                return;
            }
            Ownership::Claiming(waiting) | Ownership::Releasing(_, waiting) => {
                if self.shared.waiting.load(Ordering::Relaxed) >= WAITING_MAX as u64 {
                    self.refuse(reply, Failure::Full);
                    return;
                }
                self.shared.waiting.fetch_add(1, Ordering::Relaxed);
                waiting.push_back((routed, reply, since_ns));
                self.later(cx);
                return;
            }
            Ownership::Free => {}
        }
        let keeper = self.partitions[index as usize].entry.as_ref();
        let keeper = keeper.map(|(_, lease)| lease.node.clone());
        let to = match keeper {
            Some(node) if node != self.node.id && self.node.table.is_up(&node) => Some(node),
            // Nodes may choose differently for a while: then the third one that is asked takes it over. Not the second one,
            // which may have just given the partition up, while messages to it were under way.
            Some(_) | None if routed.hops >= CHOICES_MAX => None,
            Some(_) | None => {
                let chosen = choose(index, self.live_hosts().into_iter());
                let chosen = chosen.filter(|name| *name != self.node.id.name);
                chosen.and_then(|name| self.hosts.get(name).cloned())
            }
        };
        match to {
            Some(node) if routed.hops < HOPS_MAX => {
                routed.hops += 1;
                self.forward(&node, routed, reply, cx);
            }
            Some(_) => self.refuse(reply, Failure::Stale("too many nodes".to_owned())),
            None if self.sends_only && routed.hops >= CHOICES_MAX => {
                self.refuse(reply, Failure::Stale("the node keeps no keys".to_owned()));
            }
            None if self.has_left || self.is_leaving.is_some() => {
                let why = "the node leaves, and no other takes part".to_owned();
                self.refuse(reply, Failure::Down(why));
            }
            None => {
                let waiting = VecDeque::from([(routed, reply, since_ns)]);
                self.shared.waiting.fetch_add(1, Ordering::Relaxed);
                self.partitions[index as usize].ownership = Ownership::Claiming(waiting);
                self.claim(index, cx);
                self.later(cx);
            }
        }
    }

    fn refuse(&self, reply: RoutedReply, failure: Failure) {
        self.shared.refused.add(1);
        reply.reply(Err(failure));
    }

    fn deliver(
        &mut self,
        owned: &Arc<Owned<K, A>>,
        routed: Routed,
        reply: RoutedReply,
        cx: &mut Context<Self>,
    ) {
        let Some(until_ns) = owned.fence.valid_until_ns() else {
            self.refuse(reply, Failure::Stale("the lease is over".to_owned()));
            return;
        };
        let key = match message::decode::<K>(&routed.key) {
            Ok(key) => key,
            Err(failure) => {
                self.refuse(reply, failure);
                return;
            }
        };
        let deliver = match self.accepts.find(&routed) {
            Ok(deliver) => deliver,
            Err(failure) => {
                self.refuse(reply, failure);
                return;
            }
        };
        let mut reply = reply;
        loop {
            let actor = match owned.directory.get(&key) {
                Ok(actor) => actor,
                Err(DirectoryError::Closed) => {
                    self.refuse(reply, Failure::Down("this node has left".to_owned()));
                    return;
                }
                Err(_) => {
                    self.refuse(reply, Failure::Full);
                    return;
                }
            };
            if actor.depth() >= self.shared.mailbox.bound() {
                self.refuse(reply, Failure::Full);
                return;
            }
            reply = match deliver(&actor, &routed, until_ns, reply, cx) {
                Ok(()) => {
                    self.shared.delivered.add(1);
                    return;
                }
                // It was passivated since: the next activation gets the message.
                Err((reply, Failure::Stale(_))) => reply,
                Err((reply, failure)) => {
                    self.refuse(reply, failure);
                    return;
                }
            };
        }
    }

    fn forward(
        &mut self,
        node: &NodeId,
        routed: Routed,
        reply: RoutedReply,
        cx: &mut Context<Self>,
    ) {
        if !self.peers.contains_key(node) {
            let subject = host_subject(&self.node, &self.name, node);
            let name = format!("{}@{}", self.name, node.name);
            let owner = Node {
                inner: self.node.clone(),
            };
            match owner.remote_at::<Routed>(&name, subject, peer_options(self.waiting)) {
                Ok(peer) => {
                    self.peers.insert(node.clone(), peer);
                }
                Err(error) => {
                    self.refuse(reply, Failure::Down(error.to_string()));
                    return;
                }
            }
        }
        let peer = &self.peers[node];
        if !reply.is_wanted() {
            // `try`: the host waits for no single node.
            match peer.try_tell(routed) {
                Ok(()) => self.shared.forwarded.add(1),
                Err(_) => self.shared.refused.add(1),
            }
            return;
        }
        // An ask that waits here would hold up all others.
        if peer.depth() >= self.waiting.bound() {
            self.refuse(reply, Failure::Full);
            return;
        }
        let deadline = reply.deadline();
        let asked = peer.ask_into(routed, deadline, cx, move |outcome| Outcome {
            reply,
            outcome: flatten(outcome),
        });
        match asked {
            Ok(()) => self.shared.forwarded.add(1),
            Err(outcome) => {
                self.shared.refused.add(1);
                outcome.reply.reply(outcome.outcome);
            }
        }
    }

    /// Takes the next step of a claim. It routes nothing itself: `route` calls it.
    fn claim(&mut self, index: u32, cx: &mut Context<Self>) {
        if self.sends_only {
            return;
        }
        let Some(own) = self.own_lease() else {
            return;
        };
        let key = self.key(index);
        let partition = &mut self.partitions[index as usize];
        if partition.is_under_way {
            return;
        }
        partition.is_under_way = true;
        partition.attempt += 1;
        let attempt = partition.attempt;
        let expected = match &partition.entry {
            None => {
                partition.dead = None;
                Expected::Absent
            }
            // A put without an answer, or one that was deleted since: only a read tells.
            Some((_, lease)) if *lease == own => {
                self.read(index, cx);
                return;
            }
            // An earlier lease of this start of the node.
            Some((revision, lease)) if lease.node == self.node.id => {
                partition.dead = None;
                Expected::Revision(*revision)
            }
            Some((revision, lease)) => {
                // First it must be certain that the keeper's lease is over.
                partition.dead = Some((*revision, lease.clone()));
                let by = self.node.id.clone();
                let done: Done<u64> = Self::done(cx, move |it| Control::Fenced(index, attempt, it));
                let value = to_bytes(&LeaseValue::Dead { by });
                let key = LeasePlan::key_of(&lease.node.name);
                let engine = &self.node.engine;
                engine.put(&self.plan.leases, &key, value, Expected::Absent, done);
                return;
            }
        };
        self.put(index, &key, &own, expected, cx);
    }

    fn put(
        &mut self,
        index: u32,
        key: &str,
        own: &LeaseId,
        expected: Expected,
        cx: &Context<Self>,
    ) {
        let partition = &mut self.partitions[index as usize];
        partition.is_under_way = true;
        partition.claimed = Some(own.clone());
        let attempt = partition.attempt;
        let done: Done<u64> = Self::done(cx, move |it| Control::Put(index, attempt, it));
        let value = to_bytes(own);
        self.node
            .engine
            .put(&self.plan.names, key, value, expected, done);
    }

    fn read(&mut self, index: u32, cx: &Context<Self>) {
        let partition = &mut self.partitions[index as usize];
        partition.is_under_way = true;
        let attempt = partition.attempt;
        let done: Done<Option<Entry>> = Self::done(cx, move |it| Control::Got(index, attempt, it));
        let key = self.key(index);
        self.node.engine.get(&self.plan.names, &key, done);
    }

    fn is_claiming(&self, index: u32, attempt: u64) -> bool {
        let partition = &self.partitions[index as usize];
        matches!(partition.ownership, Ownership::Claiming(_)) && partition.attempt == attempt
    }

    /// The keeper's lease is over: its entry may be replaced.
    fn take_over(&mut self, index: u32, cx: &mut Context<Self>) {
        let key = self.key(index);
        let partition = &self.partitions[index as usize];
        let mut dead = partition.dead.as_ref();
        if planted!("remote-keeper-confused") {
            dead = partition.entry.as_ref();
        }
        if let (Some(own), Some((revision, _))) = (self.own_lease(), dead) {
            let expected = Expected::Revision(*revision);
            self.put(index, &key, &own, expected, cx);
        }
    }

    /// Reads the key of the lease that the entry names, which is this node's. The key is gone if the server has lost its data. Then
    /// the entry is in a new bucket, and says nothing of the keepers in the old one.
    fn check(&mut self, index: u32, revision: u64, own: LeaseId, cx: &mut Context<Self>) {
        let partition = &mut self.partitions[index as usize];
        partition.entry = Some((revision, own.clone()));
        partition.is_under_way = true;
        let attempt = partition.attempt;
        let key = LeasePlan::key_of(&own.node.name);
        let done: Done<Option<Entry>> = Self::done(cx, move |it| {
            Control::Checked(index, attempt, (revision, own), it)
        });
        self.node.engine.get(&self.plan.leases, &key, done);
    }

    /// This node keeps the partition, if its lease is still the one of the claim.
    fn kept(&mut self, index: u32, revision: u64, own: LeaseId, cx: &mut Context<Self>) {
        let fence = Owned::<K, A>::fence_of(index, &self.lease, own.number, revision);
        let partition = &mut self.partitions[index as usize];
        partition.entry = Some((revision, own));
        let is_takeover = partition.dead.take().is_some();
        let Ownership::Claiming(waiting) = mem::replace(&mut partition.ownership, Ownership::Free)
        else {
            return;
        };
        if fence.is_valid() {
            let store = PartStore {
                store: self.load.clone(),
                fence: fence.clone(),
            };
            let directory = cx.system().directory(self.member.clone(), store);
            let directory = directory.expect("the options were checked");
            let owned = Arc::new(Owned { directory, fence });
            self.shared.keep(index, owned.clone());
            self.shared.claims.add(1);
            self.shared.takeovers.add(u64::from(is_takeover));
            self.partitions[index as usize].ownership = Ownership::Kept(owned);
        }
        self.route_again(waiting, cx);
    }

    fn route_again(&mut self, waiting: Waiting, cx: &mut Context<Self>) {
        for (routed, reply, _) in waiting {
            self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
            self.route(routed, reply, cx);
        }
    }

    /// A claim did not succeed: the messages are routed by what is known now.
    fn give_up_claim(&mut self, index: u32, cx: &mut Context<Self>) {
        let partition = &mut self.partitions[index as usize];
        if let Ownership::Claiming(waiting) =
            mem::replace(&mut partition.ownership, Ownership::Free)
        {
            self.route_again(waiting, cx);
        }
    }

    fn control(&mut self, control: Control, cx: &mut Context<Self>) {
        if let Control::Put(index, ..)
        | Control::Got(index, ..)
        | Control::Checked(index, ..)
        | Control::Fenced(index, ..)
        | Control::LeaseGot(index, ..)
        | Control::Deleted(index, ..) = &control
        {
            self.partitions[*index as usize].is_under_way = false;
        }
        match control {
            Control::Lease(LeaseChange::Ready) => {
                self.shared.set_trouble(None);
                self.begin(cx);
                self.later(cx);
            }
            Control::Lease(LeaseChange::Lost) => self.lost(cx),
            Control::Change(Change::Node(NodeChange::Down { node, .. })) => {
                // Its proxy ends; what waits there gets its error.
                if let Some(peer) = self.peers.remove(&node) {
                    peer.end();
                }
                if self.hosts.get(&node.name) == Some(&node) {
                    self.delete_host(&node);
                }
                self.later(cx);
            }
            Control::Change(Change::Connection(ConnectionEvent::Down)) if self.node.is_closed() => {
                self.lost(cx);
                cx.stop();
            }
            Control::Change(_) => self.later(cx),
            Control::Watched(key, entry) => self.watched(&key, entry.as_ref(), cx),
            Control::AnnounceFound(Ok(entry)) => {
                let is_own = |it: &Entry| {
                    let value = from_bytes::<(NodeId, u32)>(&it.value);
                    value.is_some_and(|(id, _)| id == self.node.id)
                };
                if entry.as_ref().is_some_and(is_own) {
                    self.is_announced = true;
                } else {
                    self.announce(entry.as_ref(), cx);
                }
            }
            Control::Announced(outcome) => self.is_announced = outcome.is_ok(),
            Control::AnnounceFound(Err(_)) => {}
            Control::Put(index, attempt, outcome) if self.is_claiming(index, attempt) => {
                let claimed = self.partitions[index as usize].claimed.take();
                match (outcome, claimed) {
                    (Ok(revision), Some(own)) => self.check(index, revision, own, cx),
                    (Ok(_), None) => self.later(cx),
                    (Err(EngineError::Conflict | EngineError::Unknown(_)), _) => {
                        self.read(index, cx);
                    }
                    (Err(error), _) => {
                        self.shared.set_trouble(Some(error.to_string()));
                        self.later(cx);
                    }
                }
            }
            Control::Got(index, attempt, Ok(entry)) if self.is_claiming(index, attempt) => {
                let own = self.own_lease();
                let lease = entry
                    .as_ref()
                    .and_then(|it| from_bytes::<LeaseId>(&it.value));
                match (entry, lease, own) {
                    // A put without an answer was made.
                    (Some(entry), Some(lease), Some(own)) if lease == own => {
                        self.check(index, entry.revision, own, cx);
                    }
                    (entry, ..) => {
                        self.partitions[index as usize].entry = None;
                        self.learn(index, entry.as_ref());
                        self.give_up_claim(index, cx);
                    }
                }
            }
            Control::Checked(index, attempt, (revision, own), Ok(entry))
                if self.is_claiming(index, attempt) =>
            {
                match entry {
                    Some(entry) if !is_over(&own, &entry) => self.kept(index, revision, own, cx),
                    // The next renewal finds the lease over.
                    _ => self.later(cx),
                }
            }
            Control::Fenced(index, attempt, outcome) if self.is_claiming(index, attempt) => {
                match outcome {
                    Ok(_) => self.take_over(index, cx),
                    Err(EngineError::Conflict) => {
                        let dead = self.partitions[index as usize].dead.as_ref();
                        if planted!("remote-takeover-without-fence") {
                            self.take_over(index, cx);
                        } else if let Some((_, lease)) = dead {
                            let key = LeasePlan::key_of(&lease.node.name);
                            let done: Done<Option<Entry>> =
                                Self::done(cx, move |it| Control::LeaseGot(index, attempt, it));
                            self.node.engine.get(&self.plan.leases, &key, done);
                            self.partitions[index as usize].is_under_way = true;
                        }
                    }
                    Err(_) => self.later(cx),
                }
            }
            Control::LeaseGot(index, attempt, Ok(entry)) if self.is_claiming(index, attempt) => {
                let keeper = self.partitions[index as usize].dead.clone();
                match (entry, keeper) {
                    (Some(entry), Some((_, lease))) if is_over(&lease, &entry) => {
                        self.take_over(index, cx);
                    }
                    // It holds, or has expired just now: the timer tries again.
                    _ => self.later(cx),
                }
            }
            Control::Deleted(index, attempt, outcome) => self.deleted(index, attempt, &outcome, cx),
            // For example a node that may write its lease and not read it.
            Control::Checked(_, _, _, Err(EngineError::Refused(text))) => {
                self.shared.set_trouble(Some(text));
                self.later(cx);
            }
            // An error, or a step of an attempt that is over.
            Control::Put(..)
            | Control::Got(..)
            | Control::Checked(..)
            | Control::Fenced(..)
            | Control::LeaseGot(..) => self.later(cx),
        }
    }

    /// The lease is over: all that was kept stops now.
    fn lost(&mut self, cx: &mut Context<Self>) {
        self.shared.set_trouble(Some(self.lease.why.lock().clone()));
        // The buckets may be new.
        self.is_announced = false;
        for index in 0..self.shared.partitions {
            let partition = &mut self.partitions[index as usize];
            let (owned, waiting) = match mem::replace(&mut partition.ownership, Ownership::Free) {
                Ownership::Kept(owned) => (Some(owned), None),
                Ownership::Releasing(owned, waiting) => (Some(owned), Some(waiting)),
                Ownership::Claiming(waiting) => (None, Some(waiting)),
                Ownership::Free => (None, None),
            };
            partition.attempt += 1;
            if let Some(owned) = owned {
                owned.directory.abandon();
                drop(self.shared.remove(index));
                self.shared.losses.add(1);
            }
            if let Some(waiting) = waiting {
                self.partitions[index as usize].ownership = Ownership::Claiming(waiting);
            }
        }
        self.later(cx);
    }

    /// Gives a partition up in order: first its activations are saved.
    fn release(&mut self, index: u32) {
        let partition = &mut self.partitions[index as usize];
        match mem::replace(&mut partition.ownership, Ownership::Free) {
            Ownership::Kept(owned) => {
                drop(self.shared.remove(index));
                // A sender that has just found the partition sends its message to this host instead.
                owned.directory.close();
                partition.ownership = Ownership::Releasing(owned, VecDeque::new());
            }
            other => partition.ownership = other,
        }
    }

    fn release_further(&mut self, cx: &mut Context<Self>) {
        for index in 0..self.shared.partitions {
            let key = self.key(index);
            let partition = &mut self.partitions[index as usize];
            let Ownership::Releasing(owned, _) = &partition.ownership else {
                continue;
            };
            if owned.directory.activations() > 0 {
                // Those whose outbox had messages, or whose save has failed.
                owned.directory.close();
                continue;
            }
            if !partition.is_under_way {
                // Not the revision of `partition.entry`: that may be the next keeper's already, if an earlier deletion was made
                // and its answer is lost.
                let revision = owned.fence.epoch.revision;
                partition.is_under_way = true;
                partition.attempt += 1;
                let attempt = partition.attempt;
                let done: Done<()> = Self::done(cx, move |it| Control::Deleted(index, attempt, it));
                let names = &self.plan.names;
                self.node.engine.delete(names, &key, revision, done);
            }
        }
    }

    fn deleted(
        &mut self,
        index: u32,
        attempt: u64,
        outcome: &Result<(), EngineError>,
        cx: &mut Context<Self>,
    ) {
        let partition = &mut self.partitions[index as usize];
        let Ownership::Releasing(owned, _) = &partition.ownership else {
            return;
        };
        if partition.attempt != attempt {
            return;
        }
        // After a conflict somebody else has it, or nobody: an earlier deletion without an answer was made.
        if outcome.is_ok() || *outcome == Err(EngineError::Conflict) {
            let own = owned.fence.epoch.revision;
            partition.entry.take_if(|(revision, _)| *revision == own);
            self.shared.releases.add(1);
            if let Ownership::Releasing(_, waiting) =
                mem::replace(&mut partition.ownership, Ownership::Free)
            {
                self.route_again(waiting, cx);
            }
        }
        self.later(cx);
    }

    /// Moves partitions to the nodes that should keep them, a few at a time.
    fn balance(&mut self) {
        let is_releasing = |it: &Partition<K, A>| matches!(it.ownership, Ownership::Releasing(..));
        let mut moving = self.partitions.iter().filter(|it| is_releasing(it)).count();
        let live: Vec<String> = self.live_hosts().into_iter().map(str::to_owned).collect();
        for index in 0..self.shared.partitions {
            if moving >= MOVES_MAX {
                return;
            }
            let is_kept = matches!(
                self.partitions[index as usize].ownership,
                Ownership::Kept(_)
            );
            let chosen = choose(index, live.iter().map(String::as_str));
            if is_kept && chosen.is_some_and(|name| name != self.node.id.name) {
                self.release(index);
                moving += 1;
            }
        }
    }

    /// What is to be done again some time later.
    fn tick(&mut self, cx: &mut Context<Self>) {
        self.has_timer = false;
        if (self.is_unknown() || !self.is_watching) && self.lease.claims_with().is_some() {
            self.begin(cx);
        }
        self.expire();
        for index in 0..self.shared.partitions {
            if matches!(
                self.partitions[index as usize].ownership,
                Ownership::Claiming(_)
            ) {
                // Another node may keep it by now.
                self.read_or_claim(index, cx);
            }
        }
        if self.lease.claims_with().is_some() {
            self.balance();
        }
        self.release_further(cx);
        self.drain_further(cx);
        let is_busy = self
            .partitions
            .iter()
            .any(|it| !matches!(it.ownership, Ownership::Free | Ownership::Kept(_)));
        if is_busy || self.is_unknown() || self.is_leaving.is_some() {
            self.later(cx);
        }
    }

    fn read_or_claim(&mut self, index: u32, cx: &mut Context<Self>) {
        let entry = self.partitions[index as usize].entry.as_ref();
        let keeper = entry.map(|(_, lease)| lease.node.clone());
        match keeper {
            Some(node) if node != self.node.id && self.node.table.is_up(&node) => {
                self.give_up_claim(index, cx);
            }
            // Another node may have come.
            _ if self.sends_only && !self.live_hosts().is_empty() => {
                self.give_up_claim(index, cx);
            }
            _ => self.claim(index, cx),
        }
    }

    /// Messages that have waited too long for a claim get an error.
    fn expire(&mut self) {
        let wait_ns = 2 * self.plan.ttl.as_nanos() as u64;
        let oldest_ns = clock::now_ns().saturating_sub(wait_ns);
        let mut expired = Vec::new();
        for partition in &mut self.partitions {
            if let Ownership::Claiming(waiting) | Ownership::Releasing(_, waiting) =
                &mut partition.ownership
            {
                while waiting.front().is_some_and(|it| it.2 < oldest_ns) {
                    expired.extend(waiting.pop_front());
                }
                if waiting.is_empty() && matches!(partition.ownership, Ownership::Claiming(_)) {
                    partition.ownership = Ownership::Free;
                }
            }
        }
        let why = self.shared.trouble();
        let why = why.unwrap_or_else(|| "the partition could not be claimed in time".to_owned());
        for (_, reply, _) in expired {
            self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
            self.refuse(reply, Failure::Down(why.clone()));
        }
    }

    fn later(&mut self, cx: &mut Context<Self>) {
        if !self.has_timer {
            self.has_timer = true;
            let _ = cx.wake_after(RETRY, Self::tick);
        }
    }

    fn drain_further(&mut self, cx: &mut Context<Self>) {
        if self.is_leaving.is_none() {
            return;
        }
        for index in 0..self.shared.partitions {
            self.release(index);
        }
        let is_free = |it: &Partition<K, A>| matches!(it.ownership, Ownership::Free);
        if self.partitions.iter().all(is_free)
            && let Some(reply) = self.is_leaving.take()
        {
            self.has_left = true;
            reply.reply(());
        } else {
            self.release_further(cx);
        }
    }
}

fn flatten(outcome: Result<Result<Bytes, Failure>, RemoteAskError>) -> Result<Bytes, Failure> {
    match outcome {
        Ok(outcome) => outcome,
        Err(error) => Err(error.into()),
    }
}

impl<K: RemoteKey, A: Actor> Actor for Host<K, A> {
    /// The deadline of a message is that of its handling, not of what the host sends meanwhile.
    const TELLS_EXPIRE: bool = false;

    fn started(&mut self, cx: &mut Context<Self>) {
        let me = cx.actor_ref();
        self.node.listen(self.node.next_id(), move |change| {
            let _ = me.tell(HostControl(Control::Change(change.clone())));
        });
    }
}

impl<K: RemoteKey, A: Actor> Handler<HostControl> for Host<K, A> {
    type Reply = ();

    fn handle(&mut self, control: HostControl, cx: &mut Context<Self>) {
        self.control(control.0, cx);
    }
}

impl<K: RemoteKey, A: Actor> DeferredHandler<Routed> for Host<K, A> {
    type Reply = Result<Bytes, Failure>;

    fn handle(&mut self, routed: Routed, reply: RoutedReply, cx: &mut Context<Self>) {
        self.route(routed, reply, cx);
    }
}

impl<K: RemoteKey, A: Actor> Handler<Outcome> for Host<K, A> {
    type Reply = ();

    fn handle(&mut self, outcome: Outcome, _: &mut Context<Self>) {
        outcome.reply.reply(outcome.outcome);
    }
}

impl<K: RemoteKey, A: Actor> DeferredHandler<Drain> for Host<K, A> {
    type Reply = ();

    fn handle(&mut self, _: Drain, reply: Deferred<()>, cx: &mut Context<Self>) {
        self.is_leaving = Some(reply);
        if self.hosts.contains_key(&self.node.id.name) {
            // Others choose among the rest. The entry of a node that is down counts for nothing.
            self.delete_host(&self.node.id);
        }
        self.drain_further(cx);
        self.later(cx);
    }
}
