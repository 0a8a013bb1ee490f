//! A cluster: 16,384 hash slots on many nodes, which may move from one to another at any time.
//!
//! ```text
//!   Cluster ──▶ slot of the keys ──▶ topology: slot → node ──▶ the node's connections
//!                                        ▲                          │
//!              keeper: CLUSTER SLOTS ────┘◀──── MOVED ──────────────┤
//!                                                ASK, TRYAGAIN, ... ┘ errand: tried again
//! ```

mod address;
mod core;
mod errand;
mod keeper;
mod options;
mod redirection;
mod slot_map;
mod snapshot;
mod topology;
mod waiting;

use std::{fmt, ops::Deref, sync::Arc};

use freeboard_actor::{SpawnOptions, System};
use freeboard_net::poller::Poller;

pub(crate) use self::core::Core;
use self::keeper::Keeper;
pub use self::{
    options::{ClusterOptions, NODES_MAX},
    snapshot::{ClusterSnapshot, NodeSnapshot},
};
use crate::redis::{ConnectError, Redis};

/// A client of a cluster: a [`Redis`] whose commands find the node that has their keys. Cheap to clone.
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
/// - A command, pipeline, transaction or script must have its keys in one slot, else it is
///   [`crate::RedisError::CrossSlot`]; `{user7}.name` and `{user7}.mail` are in one. A command of one's own
///   says what its keys are ([`crate::Command::key`]).
/// - A command without keys goes to any node. What is meant for each (`DBSIZE`, `FLUSHDB`, `SCAN`) is sent
///   by the handles that [`Cluster::masters`] gives.
/// - What a node refuses because the slot has moved or is moving is sent on, up to
///   [`ClusterOptions::redirections`] times; what the cluster cannot take at present is tried again. The
///   deadline holds for all of it. Commands on one key keep their order but for those that are sent on or
///   tried again.
/// - Of a pipeline only the commands that were refused so are sent again. If then their deadline passes, or
///   their connection is lost, that is the outcome of all.
/// - A node that is down has its commands refused with [`crate::RedisError::Down`], and the slots asked for
///   again: another node may have them now.
///
/// Subscriptions are left out ([`crate::RedisError::NotOnCluster`]): a [`Redis`] on any node has the
/// messages of all. So is reading from replicas.
#[derive(Clone)]
pub struct Cluster {
    redis: Redis,
    core: Arc<Core>,
}

impl Cluster {
    /// Begins to connect, and goes on until the last handle is dropped. `poller` is the one that drives
    /// `system`. Until the slots are known commands wait, and are tried again; see [`Redis::wait_up`].
    ///
    /// # Errors
    /// [`ConnectError`]: not that no node can be reached.
    pub fn connect(
        system: &System,
        poller: &Poller,
        options: ClusterOptions,
    ) -> Result<Self, ConnectError> {
        options.validate()?;
        let timeout = options.node.timeout;
        let core = Arc::new(Core::new(poller.clone(), options));
        system.spawn_once(SpawnOptions::new(), Keeper::new(&core))?;
        let redis = Redis::cluster(core.clone(), timeout);
        Ok(Self { redis, core })
    }

    /// A client of each node that has slots now, for what is meant for each of them.
    #[must_use]
    pub fn masters(&self) -> Vec<Redis> {
        let nodes = self.core.topology.nodes().into_iter();
        let masters = nodes.filter(|(_, slots)| *slots > 0);
        let timeout = self.core.options.node.timeout;
        masters
            .map(|(node, _)| Redis::server(node.pool.clone(), timeout))
            .collect()
    }

    /// What was counted so far, node by node. Those of a node that the client has let go of are gone.
    #[must_use]
    pub fn snapshot(&self) -> ClusterSnapshot {
        self.core.snapshot()
    }
}

/// All commands, and all ways of sending them.
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
