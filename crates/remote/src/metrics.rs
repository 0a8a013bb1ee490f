//! What a node counts, as plain data and as metrics.
//!
//! ```text
//!   RemoteRef, Published, directories ──┐
//!   frames, NATS, heartbeats ───────────┴──▶ Node::snapshot() ──render──▶ Prometheus text, board, terminal
//! ```
//!
//! References of one name are one series, with those that have ended. So no counter decreases, and the text does not grow
//! with the number of references. The series of nodes that went down and are no longer among [`NodeSnapshot::peers`] become
//! one, so the text does not grow with the number of nodes that there ever were, and no sum decreases.

use std::{collections::BTreeMap, sync::Arc};

use freeboard_actor::ActorRef;
use freeboard_meter::{Exposition, metrics};
use parking_lot::Mutex;

use crate::{
    directory::RemoteDirectoryCounters,
    members::{DownReason, NodeSummary, PeerCounters, Table},
    nats::NatsCounters,
    node::{Node, NodeInner},
    port::PortShared,
    proxy::{MESSAGE_LANE, Proxy, ProxyShared, Status},
    remote_ref::{PublishedCounters, RemoteCounters},
};

/// A node at one time. [`Node::snapshot`] makes it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct NodeSnapshot {
    /// The name of the node.
    pub name: String,
    /// Frames sent.
    pub frames_sent: u64,
    /// Frames received.
    pub frames_received: u64,
    /// NATS messages on the node's subjects that are no frame, or have another version.
    pub garbage: u64,
    /// Frames whose receiver was no more.
    pub unrouted: u64,
    /// Counts of the connection; `None` on a simulated NATS.
    pub connection: Option<NatsCounters>,
    /// The nodes that live, this one among them, then the last ones that went down.
    pub peers: Vec<PeerSnapshot>,
    /// The remote references, by name.
    pub references: Vec<ReferenceSnapshot>,
    /// The published actors, and those that were, by name.
    pub published: Vec<PublishedSnapshot>,
    /// This node's parts of directories, by name.
    pub directories: Vec<(String, RemoteDirectoryCounters)>,
}

/// A node, as another one knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerSnapshot {
    /// Its name.
    pub name: String,
    /// Of its last start.
    pub incarnation: u64,
    /// Nanoseconds since its last heartbeat.
    pub silent_ns: u64,
    /// Why it is down; `None` if it lives.
    pub down: Option<DownReason>,
    /// What it said of itself in its last heartbeat.
    pub summary: NodeSummary,
    /// What crossed NATS between it and this node.
    pub counters: PeerCounters,
}

/// The references of one name together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ReferenceSnapshot {
    /// The name. That of a member of a group, of a subscribing node of a topic, or of another node of a directory ends in
    /// `@` and the name of its node; in `@(gone)` for all nodes that are forgotten.
    pub name: String,
    /// References that have a session now.
    pub connected: u64,
    /// Messages that may be sent now.
    pub credit: u64,
    /// Messages that wait for credit.
    pub waiting: u64,
    /// Counts, with those of references that have ended.
    pub counters: RemoteCounters,
}

/// A name that this node publishes or has published.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublishedSnapshot {
    /// Its name.
    pub name: String,
    /// Counts.
    pub counters: PublishedCounters,
}

metrics! {
    const NODE: NodeSnapshot;
    gauge "freeboard_remote_nodes" = |it| it.peers.iter().filter(|it| it.down.is_none()).count(),
        "Nodes that live, this one among them.";
    counter "freeboard_remote_frames_sent_total" = |it| it.frames_sent, "Frames sent.";
    counter "freeboard_remote_frames_received_total" = |it| it.frames_received, "Frames received.";
    counter "freeboard_remote_garbage_total" = |it| it.garbage,
        "NATS messages on the node's subjects that are no frame.";
    counter "freeboard_remote_unrouted_total" = |it| it.unrouted, "Frames whose receiver was no more.";
    counter "freeboard_remote_nats_reconnects_total" = |it| it.connection.map(|it| it.reconnects),
        "Connections to NATS after the first.";
    counter "freeboard_remote_nats_busy_total" = |it| it.connection.map(|it| it.busy),
        "NATS messages that waited because the connection was full.";
    counter "freeboard_remote_nats_dropped_total" = |it| it.connection.map(|it| it.dropped),
        "NATS messages that were dropped because the connection broke.";
    counter "freeboard_remote_nats_slow_consumers_total" = |it| it.connection.map(|it| it.slow_consumers),
        "NATS messages that were dropped because a subscription was full.";
}

metrics! {
    const PEER: PeerSnapshot;
    gauge "freeboard_remote_peer_up" = |it| it.down.is_none(), "Whether a node lives.";
    gauge "freeboard_remote_peer_down" by "reason" = |it| it.down.map(|it| (it.name(), 1_u64)),
        "A node that is down, by reason.";
    gauge "freeboard_remote_peer_incarnation" = |it| it.incarnation >> 16,
        "The first 48 bits of the number that a node drew at its start.";
    gauge "freeboard_remote_peer_silent_seconds" = |it| it.silent_ns, "Time since a node's last heartbeat.";
    gauge "freeboard_remote_peer_actors" = |it| it.summary.actors, "Actors of a node.";
    gauge "freeboard_remote_peer_handled_per_second" = |it| it.summary.handled_per_second,
        "Messages that the actors of a node handle per second.";
    gauge "freeboard_remote_peer_mailbox_depth" = |it| it.summary.depth, "Messages in all mailboxes of a node.";
    gauge "freeboard_remote_peer_dead_letters" = |it| it.summary.dead_letters,
        "Messages of a node that were not handled to their end.";
    gauge "freeboard_remote_peer_published" = |it| it.summary.published, "Names that a node publishes.";
    counter "freeboard_remote_peer_frames_sent_total" = |it| it.counters.frames_sent, "Frames sent to a node.";
    counter "freeboard_remote_peer_sent_bytes_total" = |it| it.counters.sent_bytes,
        "Bytes of frames sent to a node.";
    counter "freeboard_remote_peer_frames_received_total" = |it| it.counters.frames_received,
        "Frames received from a node.";
    counter "freeboard_remote_peer_received_bytes_total" = |it| it.counters.received_bytes,
        "Bytes of frames received from a node.";
}

metrics! {
    const REFERENCE: ReferenceSnapshot;
    gauge "freeboard_remote_connected" = |it| it.connected, "References with a session.";
    gauge "freeboard_remote_credit" = |it| it.credit, "Messages that may be sent now.";
    gauge "freeboard_remote_waiting" = |it| it.waiting, "Messages that wait for credit.";
    counter "freeboard_remote_returned_total" = |it| it.counters.refused,
        "Messages that were returned to their senders.";
    counter "freeboard_remote_sent_total" = |it| it.counters.sent, "Messages sent to remote actors.";
    counter "freeboard_remote_sent_bytes_total" = |it| it.counters.sent_bytes,
        "Bytes of messages sent to remote actors.";
    counter "freeboard_remote_batches_total" = |it| it.counters.frames, "Frames that messages were sent in.";
    counter "freeboard_remote_replies_total" = |it| it.counters.replied, "Asks with an answer.";
    counter "freeboard_remote_shed_total" = |it| it.counters.shed,
        "Accepted messages that were shed while they waited for credit.";
    counter "freeboard_remote_undelivered_total" = |it| it.counters.undelivered,
        "Accepted messages that were never sent, besides those that were shed.";
    counter "freeboard_remote_lost_total" = |it| it.counters.lost, "Asks that were sent and have no answer.";
    counter "freeboard_remote_sessions_total" = |it| it.counters.sessions, "Sessions with remote actors.";
}

metrics! {
    const PUBLISHED: PublishedSnapshot;
    counter "freeboard_remote_received_total" = |it| it.counters.received,
        "Messages that a published actor received from other nodes.";
    counter "freeboard_remote_received_bytes_total" = |it| it.counters.received_bytes,
        "Bytes of messages that a published actor received.";
    counter "freeboard_remote_gaps_total" = |it| it.counters.lost, "Messages that were sent and never came.";
    counter "freeboard_remote_refused_total" = |it| it.counters.refused, "Messages and senders that were refused.";
    counter "freeboard_remote_malformed_total" = |it| it.counters.malformed,
        "Messages that could not be decoded.";
    counter "freeboard_remote_stale_total" = |it| it.counters.stale,
        "Frames and replies of sessions that were over.";
    counter "freeboard_remote_replied_total" = |it| it.counters.replied, "Replies of a published actor.";
    counter "freeboard_remote_senders_total" = |it| it.counters.sessions, "Sessions of senders.";
    counter "freeboard_remote_reclaims_total" = |it| it.counters.reclaims,
        "Requests to give unused credit back.";
    counter "freeboard_remote_repeated_total" = |it| it.counters.repeated,
        "Asks that came again and did not run again.";
}

metrics! {
    const DIRECTORY: RemoteDirectoryCounters;
    counter "freeboard_remote_directory_claims_total" = |it| it.claims, "Partitions that were claimed.";
    counter "freeboard_remote_directory_takeovers_total" = |it| it.takeovers,
        "Partitions that were claimed from a node whose lease had ended.";
    counter "freeboard_remote_directory_releases_total" = |it| it.releases,
        "Partitions that were given up in order.";
    counter "freeboard_remote_directory_losses_total" = |it| it.losses, "Partitions that were lost with the lease.";
    counter "freeboard_remote_directory_delivered_total" = |it| it.delivered,
        "Messages delivered to activations by the host.";
    counter "freeboard_remote_directory_forwarded_total" = |it| it.forwarded,
        "Messages that were sent on to another node.";
    counter "freeboard_remote_directory_refused_total" = |it| it.refused, "Messages that were refused.";
    gauge "freeboard_remote_directory_waiting" = |it| it.waiting, "Messages that wait for a claim.";
}

impl NodeSnapshot {
    /// Adds the metrics to `text`. The label `node` is this node's name; `peer`, `to`, `actor` and `directory` are names of
    /// nodes, references, published actors and directories.
    pub fn render(&self, text: &mut Exposition) {
        let node = ("node", self.name.as_str());
        text.metrics(NODE, &[node], self);
        let peers = self.peers.iter();
        text.series(
            PEER,
            peers.map(|it| ([node, ("peer", it.name.as_str())], it)),
        );
        let references = self.references.iter();
        let references = references.map(|it| ([node, ("to", it.name.as_str())], it));
        text.series(REFERENCE, references);
        let published = self.published.iter();
        let published = published.map(|it| ([node, ("actor", it.name.as_str())], it));
        text.series(PUBLISHED, published);
        let directories = self.directories.iter();
        let directories = directories.map(|it| ([node, ("directory", it.0.as_str())], &it.1));
        text.series(DIRECTORY, directories);
    }
}

/// Instead of the names of nodes that are forgotten. No node has this name.
const GONE: &str = "(gone)";

/// `None` once the directory has ended.
type ReadDirectory = Box<dyn Fn() -> Option<(String, RemoteDirectoryCounters)> + Send + Sync>;

/// What is kept of a node for its metrics.
#[derive(Default)]
pub(crate) struct Kept {
    /// Counts of references that have ended, by name.
    ended: Mutex<BTreeMap<String, RemoteCounters>>,
    /// Counts of names that were published, and of those that are again.
    pub(crate) unpublished: Mutex<BTreeMap<String, Arc<PortShared>>>,
    directories: Mutex<Vec<ReadDirectory>>,
}

impl Kept {
    /// Adds a proxy to those of the node, and removes those that have terminated.
    pub(crate) fn add(&self, node: &NodeInner, proxy: ActorRef<Proxy>, shared: Arc<ProxyShared>) {
        let mut proxies = node.proxies.lock();
        let mut ended = self.ended.lock();
        proxies.retain(|(proxy, shared)| {
            let is_alive = proxy.is_alive();
            if !is_alive {
                let counters = ended.entry(shared.name.clone()).or_default();
                counters.add(RemoteCounters::of(proxy, shared));
            }
            is_alive
        });
        proxies.push((proxy, shared));
        merge_gone(&mut ended, &node.table);
    }

    pub(crate) fn add_directory(
        &self,
        read: impl Fn() -> Option<(String, RemoteDirectoryCounters)> + Send + Sync + 'static,
    ) {
        self.directories.lock().push(Box::new(read));
    }
}

/// Makes one series of those of all nodes that are forgotten.
fn merge_gone(ended: &mut BTreeMap<String, RemoteCounters>, table: &Table) {
    let is_gone = |name: &str| {
        let node = name.split_once('@').map(|it| it.1);
        node.is_some_and(|node| node != GONE && !table.remembers(node))
    };
    let gone: Vec<String> = ended.keys().filter(|it| is_gone(it)).cloned().collect();
    for name in gone {
        if let (Some((of, _)), Some(counters)) = (name.split_once('@'), ended.remove(&name)) {
            let series = ended.entry(format!("{of}@{GONE}")).or_default();
            series.add(counters);
        }
    }
}

impl NodeInner {
    /// A port has ended. Its actor may be dropped; its counts stay.
    pub(crate) fn unpublish(&self, port: u64, shared: &Arc<PortShared>) {
        let mut published = self.published.lock();
        let name = &shared.name;
        if published.get(name).is_some_and(|it| it.port == port) {
            published.remove(name);
            let mut unpublished = self.kept.unpublished.lock();
            unpublished.insert(name.clone(), shared.clone());
        }
    }

    /// The number of names that are published now.
    pub(crate) fn published_now(&self) -> u64 {
        let published = self.published.lock();
        published.values().filter(|it| it.is_published()).count() as u64
    }

    fn references(&self) -> Vec<ReferenceSnapshot> {
        let mut names: BTreeMap<String, ReferenceSnapshot> = BTreeMap::new();
        let proxies = {
            let proxies = self.proxies.lock();
            // Under the lock of the proxies: `Kept::add` moves counts from one to the other.
            for (name, counters) in &*self.kept.ended.lock() {
                names.entry(name.clone()).or_default().counters = *counters;
            }
            proxies.clone()
        };
        for (proxy, shared) in &proxies {
            let of = names.entry(shared.name.clone()).or_default();
            of.connected += u64::from(shared.status() == Status::Open);
            of.credit += shared.credit();
            let lanes = proxy.snapshot().lanes;
            of.waiting += lanes.get(MESSAGE_LANE).map_or(0, |it| it.depth);
            of.waiting += shared.held();
            of.counters.add(RemoteCounters::of(proxy, shared));
        }
        let named = |(name, of)| ReferenceSnapshot { name, ..of };
        names.into_iter().map(named).collect()
    }
}

impl Node {
    /// The current counters of the node, its references, its published actors and its directories, and what it knows of
    /// other nodes. Takes a few microseconds per reference, and never blocks a message.
    pub fn snapshot(&self) -> NodeSnapshot {
        let inner = &self.inner;
        let present = inner.published.lock().clone().into_values();
        let mut published: BTreeMap<_, _> = inner.kept.unpublished.lock().clone();
        published.extend(present.map(|it| (it.name().to_owned(), it.shared)));
        let published = published.into_iter().map(|(name, it)| PublishedSnapshot {
            name,
            counters: PublishedCounters::of(&it),
        });
        let directories = inner.kept.directories.lock();
        NodeSnapshot {
            name: inner.id.name.clone(),
            frames_sent: inner.counters.frames_sent.get(),
            frames_received: inner.counters.frames_received.get(),
            garbage: inner.counters.garbage.get(),
            unrouted: inner.counters.unrouted.get(),
            connection: inner.engine.counters(),
            peers: inner.table.peers(),
            references: inner.references(),
            published: published.collect(),
            directories: directories.iter().filter_map(|read| read()).collect(),
        }
    }
}
