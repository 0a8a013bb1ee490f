//! The standard worlds: the parts of the library under faults, with what must hold.
//!
//! Each [`StandardWorld`] is a test of [`freeboard::sim`]. Continuous integration runs some seeds of all, the soak test
//! many. [`PLANTED`] lists mistakes that are planted into the code, each with the world that finds it. They exist only in a
//! build with `--cfg planted`.

#![forbid(unsafe_code)]

mod client;
pub mod linearizability;
mod planted;
mod record;
mod worlds;

use freeboard::sim::World;

pub use planted::{PLANTED, Planted, find};

/// A test with a name.
#[derive(Clone, Copy, Debug)]
pub struct StandardWorld {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it runs, in a line.
    pub about: &'static str,
    /// The test.
    pub test: fn(&mut World),
}

const fn world(name: &'static str, about: &'static str, test: fn(&mut World)) -> StandardWorld {
    StandardWorld { name, about, test }
}

/// All of them.
#[rustfmt::skip]
pub const ALL: &[StandardWorld] = &[
    world("mailboxes", "senders, lanes with each policy, a dam, supervision and timers", worlds::mailboxes::run),
    world("services", "asks with deadlines, a group, a topic and a directory", worlds::services::run),
    world("connections", "TCP connections and datagrams between clients and a server", worlds::connections::run),
    world("redis", "clients of one Redis, and subscriptions", worlds::redis::run),
    world("streams", "a stream's producers, consumer and follower, while its node crashes and its disk fails", worlds::streams::run),
    world("kvs", "a key-value store and its clients, while nodes crash and links break", worlds::kvs::run),
    world("fetcher", "the fetcher between a broker, Redis and slow stores, while nodes crash and links break", worlds::fetcher::run),
    world("cache", "processes that share a cache, and change its values", worlds::cache::run),
    world("logd", "a log server's clients over HTTP and TCP, while it crashes and its disk fails", worlds::logd::run),
    world("cluster", "nodes with a directory over one NATS, while nodes and NATS fail", worlds::cluster::run),
    world("storm", "as cluster, with a fault each half second and a short lease", worlds::cluster::storm),
];

/// The world with this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static StandardWorld> {
    ALL.iter().find(|world| world.name == name)
}
