//! The peers: the programs that are measured.

use crate::component::{self, Component};

/// The kind of a peer, which decides the comparisons that it is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Freeboard itself, with any settings.
    Ours,
    /// An actor crate for Rust.
    ActorCrate,
    /// An actor runtime of another language.
    ActorRuntime,
    /// A runtime for tasks or goroutines, which are no actors.
    TaskRuntime,
    /// A channel between threads or tasks: the alternative without actors.
    Channel,
    /// A ring between threads, published to and read by sequence numbers.
    Ring,
    /// A log or a durable store.
    Log,
    /// The disk itself.
    Disk,
    /// An HTTP server, or a log server.
    Server,
    /// A TCP proxy.
    Proxy,
    /// Messages between processes, without actors.
    Messaging,
    /// A client of Redis for Rust.
    RedisClient,
    /// A load generator.
    LoadGenerator,
    /// The machine itself: a plain thread, or a direct connection.
    Machine,
}

/// The tool that builds and runs a peer's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    Rust,
    Beam,
    Go,
    /// Built with Go, started and asked by the program of the peers in Rust.
    GoServer,
    Jvm,
    /// Started by the program of the peers in Rust.
    Program(&'static Component),
}

/// One runtime, channel or ring.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) host: Host,
}

impl Peer {
    const fn new(name: &'static str, kind: Kind, host: Host) -> Self {
        Self { name, kind, host }
    }
}

/// The peer that the others are compared with.
pub(crate) const OURS: &str = "freeboard";
/// The name under which the programs of `peers/beam` report.
pub(crate) const BEAM: &str = "beam";

/// All peers, in the order in which they run and are shown.
pub(crate) const PEERS: &[Peer] = &[
    Peer::new(OURS, Kind::Ours, Host::Rust),
    Peer::new("freeboard-producer", Kind::Ours, Host::Rust),
    Peer::new("freeboard-drain", Kind::Ours, Host::Rust),
    Peer::new("freeboard-dedicated", Kind::Ours, Host::Rust),
    Peer::new("freeboard-snapshot", Kind::Ours, Host::Rust),
    Peer::new("freeboard-codel", Kind::Ours, Host::Rust),
    Peer::new("freeboard-adaptive", Kind::Ours, Host::Rust),
    Peer::new(BEAM, Kind::ActorRuntime, Host::Beam),
    Peer::new("actix", Kind::ActorCrate, Host::Rust),
    Peer::new("ractor", Kind::ActorCrate, Host::Rust),
    Peer::new("kameo", Kind::ActorCrate, Host::Rust),
    Peer::new("tokio", Kind::TaskRuntime, Host::Rust),
    Peer::new("tokio-no-yield", Kind::TaskRuntime, Host::Rust),
    Peer::new("tokio-mpsc", Kind::Channel, Host::Rust),
    Peer::new("tokio-mpsc-bounded", Kind::Channel, Host::Rust),
    Peer::new("tachyonix", Kind::Channel, Host::Rust),
    Peer::new("go", Kind::TaskRuntime, Host::Go),
    Peer::new("lmax", Kind::Ring, Host::Jvm),
    Peer::new("disruptor-rs", Kind::Ring, Host::Rust),
    Peer::new("disruptor-rs-hint", Kind::Ring, Host::Rust),
    Peer::new("crossbeam", Kind::Channel, Host::Rust),
    Peer::new("kanal", Kind::Channel, Host::Rust),
    Peer::new("flume", Kind::Channel, Host::Rust),
    Peer::new("mutex-vecdeque", Kind::Channel, Host::Rust),
    Peer::new("fio", Kind::Disk, Host::Program(&component::FIO)),
    Peer::new("okaywal", Kind::Log, Host::Rust),
    Peer::new("fjall", Kind::Log, Host::Rust),
    Peer::new("plain-file", Kind::Log, Host::Rust),
    Peer::new("nginx", Kind::Server, Host::Program(&component::NGINX)),
    Peer::new("haproxy", Kind::Proxy, Host::Program(&component::HAPROXY)),
    Peer::new("hyper", Kind::Server, Host::Rust),
    Peer::new("go-http", Kind::Server, Host::GoServer),
    Peer::new("go-net", Kind::TaskRuntime, Host::GoServer),
    Peer::new("go-net-yield", Kind::TaskRuntime, Host::GoServer),
    Peer::new("thread", Kind::Machine, Host::Rust),
    Peer::new("direct", Kind::Machine, Host::Rust),
    Peer::new("redis-rs", Kind::RedisClient, Host::Rust),
    Peer::new("redis-rs-limited", Kind::RedisClient, Host::Rust),
    Peer::new("rustis", Kind::RedisClient, Host::Rust),
    Peer::new(
        "redis-benchmark",
        Kind::LoadGenerator,
        Host::Program(&component::REDIS_BENCHMARK),
    ),
    Peer::new(
        "redis",
        Kind::Log,
        Host::Program(&component::REDIS_BENCHMARK),
    ),
    Peer::new("bare-loop", Kind::Machine, Host::Rust),
    Peer::new("axum", Kind::Server, Host::Rust),
    Peer::new("axum-untuned", Kind::Server, Host::Rust),
    Peer::new("axum-freeboard", Kind::Server, Host::Rust),
    Peer::new("rsyslog", Kind::Server, Host::Program(&component::RSYSLOG)),
    Peer::new(
        "async-nats",
        Kind::Messaging,
        Host::Program(&component::NATS),
    ),
    Peer::new("tonic", Kind::Messaging, Host::Rust),
    Peer::new(
        "syslog-ng",
        Kind::Server,
        Host::Program(&component::SYSLOG_NG),
    ),
];
