//! A cluster: 16,384 hash slots on many nodes, which may move between nodes at any time.
//!
//! ```text
//!   Cluster ──▶ slot of the keys ──▶ topology: slot → node ──▶ the node's connections
//!                                        ▲                          │
//!              refresher: CLUSTER SLOTS ────┘◀──── MOVED ──────────────┤
//!                                                ASK, TRYAGAIN, ... ┘ request: tried again
//! ```

mod answers;
pub(crate) mod core;
mod refresher;
pub(crate) mod request;
pub(crate) mod subscriptions;
mod topology;

use std::{fmt, ops::Deref, sync::Arc};

use freeboard_actor::{SpawnOptions, System};
use freeboard_net::poller::Poller;

use self::{core::Core, refresher::TopologyRefresher, topology::Node};
use crate::{
    error::ConnectError, metrics::ClusterSnapshot, options::ClusterOptions, redis::Redis,
    target::Servers,
};

/// A client of a cluster: a [`Redis`] that sends each command to the node that owns its keys. Cheap to clone.
///
/// ```no_run
/// # fn run(system: &freeboard_actor::System, poller: &freeboard_net::poller::Poller)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// use freeboard_redis::{Cluster, ClusterOptions};
///
/// let seeds = [("10.0.0.1", 6379), ("10.0.0.2", 6379)];
/// let cluster = Cluster::connect(system, poller, ClusterOptions::new(seeds))?;
/// cluster.set("greeting", "hello").wait()?;
/// # Ok(())
/// # }
/// ```
///
/// - The keys of a command or script must be in one slot, otherwise it fails with
///   [`crate::RedisError::CrossSlot`]. `{user7}.name` and `{user7}.mail` are in one slot. Add keys with
///   [`crate::Command::key`], so that the client knows the slot.
/// - A command without keys goes to any node. For commands that concern every node (`DBSIZE`, `FLUSHDB`,
///   `SCAN`), use the clients of [`Cluster::masters`].
/// - If the slot has moved or is moving, the command is redirected, up to five times. If the cluster temporarily refuses it, it is retried. The deadline covers all tries. Commands on
///   one key keep their order, except those that are redirected or retried.
/// - Commands for a node that is down fail with [`crate::RedisError::Down`], and the client refreshes its
///   slot map, because another node may own the slots now.
///
/// - A subscription is at one node, which receives the messages of all, and moves to another if that node is
///   down. Messages in between are missed; [`crate::PubSub::Subscribed`] tells when it is active again.
///
/// Not supported: reads from replicas, and sharded channels (`SSUBSCRIBE`).
#[derive(Clone)]
pub struct Cluster {
    redis: Redis,
    core: Arc<Core>,
}

impl Cluster {
    /// Begins to connect, and retries until the last handle is dropped. `poller` must be the driver of
    /// `system`. Commands are retried until the slot map is known; see [`Redis::wait_up`].
    ///
    /// # Errors
    /// [`ConnectError`]. Unreachable nodes are not an error here.
    pub fn connect(
        system: &System,
        poller: &Poller,
        options: ClusterOptions,
    ) -> Result<Self, ConnectError> {
        options.validate()?;
        let timeout = options.node.timeout;
        let core = Arc::new(Core::new(poller.clone(), options));
        system.spawn_once(SpawnOptions::new(), TopologyRefresher::new(&core))?;
        let redis = Redis::new(Servers::Cluster(core.clone()), timeout);
        Ok(Self { redis, core })
    }

    /// A client of each node that currently owns slots.
    #[must_use]
    pub fn masters(&self) -> Vec<Redis> {
        let timeout = self.core.options.node.timeout;
        let client = |node: Arc<Node>| Redis::new(Servers::One(node.pool.clone()), timeout);
        self.core.masters().into_iter().map(client).collect()
    }

    /// The counters of all nodes. Nodes that left the cluster are not included.
    #[must_use]
    pub fn snapshot(&self) -> ClusterSnapshot {
        self.core.snapshot()
    }
}

/// All commands and ways to send them.
impl Deref for Cluster {
    type Target = Redis;

    fn deref(&self) -> &Redis {
        &self.redis
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Cluster")
            .field("seeds", &self.core.options.seeds)
            .finish_non_exhaustive()
    }
}
