//! Subscriptions on a cluster.
//!
//! A node passes each published message to all other nodes, and so to the subscribers of all. So a subscription is kept
//! at one node. The refresher moves it if that node is down, or owns no slots any more. Messages in between are missed, as
//! while a single server reconnects, and [`PubSub::Subscribed`] tells when the subscription is active again.
//!
//! Sharded channels would spare the nodes that traffic, but each is bound to a slot: a script, which may only publish in
//! the slot of its key, would need a channel for each of the 16,384, and each would move with its slot.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use bytes::Bytes;
use freeboard_actor::Recipient;
use parking_lot::Mutex;

use super::{core::Core, topology::Node};
use crate::{error::RedisError, pool::Subscription, subscribers::PubSub};

/// A subscription, and where it is.
pub(crate) struct ClusterSubscription {
    name: Bytes,
    to: Recipient<PubSub>,
    at: Mutex<Option<(Arc<Node>, Subscription)>>,
    /// Keeps the client open, as a handle does.
    _core: Arc<Core>,
}

/// All subscriptions of a client.
#[derive(Default)]
pub(crate) struct ClusterSubscriptions(Mutex<Vec<Weak<ClusterSubscription>>>);

impl ClusterSubscription {
    /// Moves it to a node that is up, unless it is at one.
    fn place(&self, masters: &[Arc<Node>]) -> Result<(), RedisError> {
        let mut at = self.at.lock();
        let up = masters.iter().find(|node| node.pool.is_up());
        let is_placed = at.as_ref().is_some_and(|(node, _)| {
            let is_master = masters.iter().any(|master| Arc::ptr_eq(master, node));
            is_master && (up.is_none() || node.pool.is_up())
        });
        if let Some(node) = up.or(masters.first()).filter(|_| !is_placed) {
            let subscription = node.pool.subscribe(self.name.clone(), self.to.clone())?;
            *at = Some((node.clone(), subscription));
        }
        Ok(())
    }
}

impl ClusterSubscriptions {
    pub(crate) fn add(
        &self,
        core: &Arc<Core>,
        name: Bytes,
        to: Recipient<PubSub>,
    ) -> Result<Arc<ClusterSubscription>, RedisError> {
        let subscription = Arc::new(ClusterSubscription {
            name,
            to,
            at: Mutex::default(),
            _core: core.clone(),
        });
        subscription.place(&core.masters())?;
        self.0.lock().push(Arc::downgrade(&subscription));
        Ok(subscription)
    }

    pub(crate) fn is_empty(&self) -> bool {
        let mut all = self.0.lock();
        all.retain(|it| it.strong_count() > 0);
        all.is_empty()
    }

    /// Moves the subscriptions whose nodes are down or gone.
    pub(crate) fn place(&self, masters: &[Arc<Node>]) {
        // Not under the lock: one that is dropped meanwhile ends here.
        let all: Vec<_> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        for subscription in all {
            // A node with too many subscriptions is tried again.
            let _ = subscription.place(masters);
        }
    }
}

impl fmt::Debug for ClusterSubscription {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} on a cluster", self.name)
    }
}
