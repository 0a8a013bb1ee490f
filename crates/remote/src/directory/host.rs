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

mod ownership;
mod routing;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use freeboard_actor::{
    Activation, Actor, Context, Deferred, DeferredHandler, DirectoryOptions, Handler, Store,
};
use freeboard_flow::LaneConfig;
use freeboard_platform::{clock, planted};

use super::{
    RemoteDirectoryOptions, RemoteKey, RemoteStore,
    routed::{Accepts, Owned, Routed, RoutedReply, Shared},
};
use crate::{
    engine::{ConnectionEvent, Done, EngineError, Entry, Expected, Subscription},
    error::Failure,
    lease::{Fence, LeaseChange, LeaseId, LeasePlan, LeaseShared, from_bytes, is_over, to_bytes},
    members::NodeChange,
    node::{Change, NodeInner},
    remote_ref::RemoteRef,
    wire::NodeId,
};

/// The lane of messages.
pub(crate) const MESSAGE_LANE: usize = 1;
/// The least bound of the host's messages. A larger window of the other nodes raises it.
pub(super) const HOST_MESSAGES: usize = 1_024;
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

    fn later(&mut self, cx: &mut Context<Self>) {
        if !self.has_timer {
            self.has_timer = true;
            let _ = cx.wake_after(RETRY, Self::tick);
        }
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
