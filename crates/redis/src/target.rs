//! Where a client's commands go: the connections to one server, or a cluster.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use freeboard_actor::Recipient;
use freeboard_meter::now_ns;
use freeboard_platform::thread;

use crate::{
    cluster::{core::Core, request, subscriptions::ClusterSubscription},
    command::Command,
    error::RedisError,
    in_flight::Awaits,
    metrics::RedisSnapshot,
    options::nanos,
    pool::{self, Deadline, Pool},
    reply::Reply,
    subscribers::PubSub,
};

/// The pause between two checks whether the connections are up.
const CHECK_EVERY: Duration = Duration::from_millis(1);

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

/// A subscription. It ends when this is dropped, and keeps the client's connections open like a handle.
#[must_use = "the subscription ends when it is dropped"]
#[derive(Debug)]
#[allow(dead_code, reason = "held so that it lives")]
pub struct Subscription(Subscribed);

#[derive(Debug)]
#[allow(dead_code, reason = "held so that it lives")]
enum Subscribed {
    One(pool::Subscription),
    Cluster(Arc<ClusterSubscription>),
}

impl Target {
    /// Waits until the connections are up, the server refuses one, or the time has passed.
    pub(crate) fn wait_up(&self, timeout: Duration) -> Result<(), RedisError> {
        let deadline_ns = now_ns().saturating_add(nanos(timeout));
        loop {
            let checked = match &self.servers {
                Servers::One(pool) => pool.check_up(),
                Servers::Cluster(core) => core.check_up(),
            };
            let left_ns = deadline_ns.saturating_sub(now_ns());
            match checked {
                Err(error) if !is_final(&error) && left_ns > 0 => {
                    thread::sleep(CHECK_EVERY.min(Duration::from_nanos(left_ns)));
                }
                decided => return decided,
            }
        }
    }

    pub(crate) fn subscribe(
        &self,
        name: Bytes,
        to: Recipient<PubSub>,
    ) -> Result<Subscription, RedisError> {
        match &self.servers {
            Servers::One(pool) => pool.subscribe(name, to).map(Subscribed::One),
            Servers::Cluster(core) => core.subscribe(name, to).map(Subscribed::Cluster),
        }
        .map(Subscription)
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

/// Whether a retry is unlikely to help.
fn is_final(error: &RedisError) -> bool {
    match error {
        RedisError::Down(reason) => reason.is_refusal(),
        // The server is not a cluster node.
        RedisError::Server(_) | RedisError::Closed => true,
        _ => false,
    }
}
