//! What a client of a cluster has counted, as plain data and as Prometheus text.

use freeboard_meter::{Exposition, FamilyKind};
use serde::{Deserialize, Serialize};

use crate::snapshot::{RedisSnapshot, render_connections};

/// A client of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterSnapshot {
    /// The nodes that it is connected to.
    pub nodes: Vec<NodeSnapshot>,
    /// Commands, or units, that were sent on because their slot has moved.
    pub moved: u64,
    /// Those that were sent on because their slot is moving.
    pub asked: u64,
    /// Times that one was kept to be tried again.
    pub retried: u64,
    /// Those that are kept at present.
    pub waiting: u64,
    /// Times that the slots were learned.
    pub refreshed: u64,
    /// Times that they could not be learned.
    pub refresh_failures: u64,
    /// Replies that the mailbox they were for refused, besides those that connections count.
    pub replies_refused: u64,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeSnapshot {
    /// Host and port.
    pub address: String,
    /// How many slots it has, as far as is known.
    pub slots: u64,
    /// Its connections.
    pub client: RedisSnapshot,
}

impl ClusterSnapshot {
    /// Adds the families to `text`, labelled with `client`, and those of connections also with the node's
    /// address and the connection's index.
    pub fn render(&self, client: &str, text: &mut Exposition) {
        let lines = self.nodes.iter().flat_map(|node| {
            let lines = node.client.connections.iter().enumerate();
            lines.map(|(index, line)| (format!("{}/{index}", node.address), line))
        });
        render_connections(client, &lines.collect::<Vec<_>>(), text);
        for (name, kind, help, value) in [
            (
                "freeboard_redis_cluster_moved_total",
                FamilyKind::Counter,
                "Commands that were sent on because their slot has moved.",
                self.moved,
            ),
            (
                "freeboard_redis_cluster_asked_total",
                FamilyKind::Counter,
                "Commands that were sent on because their slot is moving.",
                self.asked,
            ),
            (
                "freeboard_redis_cluster_retried_total",
                FamilyKind::Counter,
                "Times that a command was kept to be tried again.",
                self.retried,
            ),
            (
                "freeboard_redis_cluster_waiting",
                FamilyKind::Gauge,
                "Commands that are kept to be tried again.",
                self.waiting,
            ),
            (
                "freeboard_redis_cluster_refreshed_total",
                FamilyKind::Counter,
                "Times that the slots were learned.",
                self.refreshed,
            ),
            (
                "freeboard_redis_cluster_refresh_failures_total",
                FamilyKind::Counter,
                "Times that the slots could not be learned.",
                self.refresh_failures,
            ),
            (
                "freeboard_redis_cluster_replies_refused_total",
                FamilyKind::Counter,
                "Replies that the mailbox they were for refused, besides those of connections.",
                self.replies_refused,
            ),
        ] {
            text.family(name, kind, help);
            text.sample(name, &[("client", client)], value as f64);
        }
        let name = "freeboard_redis_cluster_slots";
        text.family(
            name,
            FamilyKind::Gauge,
            "Slots of a node, as far as is known.",
        );
        for node in &self.nodes {
            let labels = [("client", client), ("node", node.address.as_str())];
            text.sample(name, &labels, node.slots as f64);
        }
    }
}
