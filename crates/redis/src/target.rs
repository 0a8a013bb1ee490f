//! Where a client's commands go: the connections to one server, or a cluster.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use freeboard_actor::{Recipient, run_simulation};
use freeboard_meter::now_ns;

use crate::{
    cluster::{core::Core, request},
    command::Command,
    error::RedisError,
    in_flight::Awaits,
    metrics::RedisSnapshot,
    options::nanos,
    pool::{Deadline, Pool, Subscription},
    reply::Reply,
    subscribers::PubSub,
};

/// Upper bound of a wait, so that the time can be added to an `Instant`.
const WAIT_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) servers: Servers,
    /// Default deadline of a command, from the call.
    pub(crate) timeout: Duration,
}

#[derive(Clone)]
pub(crate) enum Servers {
    One(Arc<Pool>),
    Cluster(Arc<Core>),
}

impl Target {
    pub(crate) fn wait_up(&self, timeout: Duration) -> Result<(), RedisError> {
        let wait = |until| match &self.servers {
            Servers::One(pool) => pool.wait_up(until),
            Servers::Cluster(core) => core.wait_up(until),
        };
        let timeout = timeout.min(WAIT_MAX);
        let deadline_ns = now_ns().saturating_add(nanos(timeout));
        let is_decided = || match wait(Instant::now()) {
            Err(RedisError::Down(reason)) => reason.is_refusal(),
            Ok(()) | Err(_) => true,
        };
        match run_simulation(deadline_ns, is_decided) {
            true => wait(Instant::now()),
            false => wait(Instant::now() + timeout),
        }
    }

    pub(crate) fn subscribe(
        &self,
        name: Bytes,
        to: Recipient<PubSub>,
    ) -> Result<Subscription, RedisError> {
        match &self.servers {
            Servers::One(pool) => pool.subscribe(name, to),
            Servers::Cluster(_) => Err(RedisError::NotOnCluster("a subscription")),
        }
    }

    pub(crate) fn snapshot(&self) -> RedisSnapshot {
        match &self.servers {
            Servers::One(pool) => pool.snapshot(),
            Servers::Cluster(core) => core.connections(),
        }
    }

    /// Passes a command to a connection.
    #[inline]
    pub(crate) fn submit(&self, command: Command, deadline: Deadline, reply: Reply) {
        match &self.servers {
            Servers::One(pool) => pool.submit(&command, Awaits::Reply, deadline, reply),
            Servers::Cluster(core) => request::submit(core, command, deadline, reply),
        }
    }
}
