//! Settings of a client of a cluster.

use std::time::Duration;

use freeboard_flow::Backoff;

use super::address::Address;
use crate::options::{RedisOptions, RedisOptionsError};

/// The most nodes that a client connects to; Redis recommends at most 1,000.
pub const NODES_MAX: usize = 1_024;

/// Settings of a client of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterOptions {
    /// Hosts and ports of nodes to learn the others from, at least one.
    pub seeds: Vec<(String, u16)>,
    /// Settings for each node, where host and port stand for nothing; the database must be 0, the only
    /// one that a cluster has.
    pub node: RedisOptions,
    /// How often a command is sent on to another node at most (`MOVED`, `ASK`); default 5.
    pub redirections: u32,
    /// How often a command is tried again at most while the cluster cannot take it (`TRYAGAIN`,
    /// `CLUSTERDOWN`, a node that is being connected to); default 16.
    pub retries: u32,
    /// How long before each such try, and, where it is shorter than the refresh interval, after an attempt
    /// to learn the slots that failed; default from 10 ms, doubling, to 500 ms. Up to half of it is left
    /// out, by chance.
    pub backoff: Backoff,
    /// The most commands that wait for such a try; default 10,000. One too many gets the answer that it
    /// would have been tried again for.
    pub waiting: usize,
    /// The most bytes of them; default 64 MiB.
    pub waiting_bytes: usize,
    /// The shortest time between two times that the slots are asked for, at least 1 ms; default 500 ms. Between them each
    /// `MOVED` changes its own slot.
    pub refresh_interval: Duration,
}

impl ClusterOptions {
    /// Of nodes at these hosts and ports, all else by default.
    pub fn new<H: Into<String>>(seeds: impl IntoIterator<Item = (H, u16)>) -> Self {
        let seeds = seeds.into_iter();
        Self {
            seeds: seeds.map(|(host, port)| (host.into(), port)).collect(),
            node: RedisOptions::default(),
            redirections: 5,
            retries: 16,
            backoff: Backoff {
                min_ns: 10_000_000,
                max_ns: 500_000_000,
                factor: 2,
            },
            waiting: 10_000,
            waiting_bytes: 64 << 20,
            refresh_interval: Duration::from_millis(500),
        }
    }

    /// From `redis://user:password@host:port` of each node to learn the others from; who logs in is taken
    /// from the first.
    ///
    /// # Errors
    /// [`RedisOptionsError`]. No password is in its text.
    pub fn from_urls<'a>(
        urls: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, RedisOptionsError> {
        let nodes: Result<Vec<RedisOptions>, _> =
            urls.into_iter().map(RedisOptions::from_url).collect();
        let nodes = nodes?;
        let mut options = Self::new(nodes.iter().map(|node| (node.host.as_str(), node.port)));
        options.node = nodes.into_iter().next().unwrap_or_default();
        Ok(options)
    }

    pub(crate) fn validate(&self) -> Result<(), RedisOptionsError> {
        let interval_ms = self.refresh_interval.as_millis();
        let interval_ms = usize::try_from(interval_ms).unwrap_or(usize::MAX);
        for (name, value, min, max) in [
            ("refresh_interval in ms", interval_ms, 1, usize::MAX),
            ("seeds", self.seeds.len(), 1, NODES_MAX),
            ("database", self.node.database as usize, 0, 0),
        ] {
            if !(min..=max).contains(&value) {
                return Err(RedisOptionsError::Range { name, min, max });
            }
        }
        self.backoff.validate()?;
        self.node.validate()
    }

    pub(super) fn seed_addresses(&self) -> impl Iterator<Item = Address> {
        self.seeds.iter().map(|(host, port)| Address {
            host: host.clone(),
            port: *port,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slots_are_not_asked_for_without_a_rest() {
        let mut options = ClusterOptions::new([("127.0.0.1", 1)]);
        assert_eq!(options.validate(), Ok(()));
        options.refresh_interval = Duration::ZERO;
        let text = options.validate().unwrap_err().to_string();
        assert!(text.starts_with("refresh_interval in ms must be"), "{text}");
    }
}
