//! Who is measured.

/// What a peer is, and so which comparisons it takes part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Freeboard itself.
    Ours,
    /// An actor crate for Rust.
    ActorCrate,
    /// An actor runtime with a language of its own.
    ActorRuntime,
    /// A channel, with threads or tasks at its ends: what one can do without actors.
    Channel,
}

/// One runtime or channel.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
}

/// The peer that the others are compared with.
pub(crate) const OURS: &str = "freeboard";
/// The name under which the programs of `peers/beam` report.
pub(crate) const BEAM: &str = "beam";

/// All peers, in the order in which they run and are shown.
pub(crate) const PEERS: &[Peer] = &[
    Peer {
        name: OURS,
        kind: Kind::Ours,
    },
    Peer {
        name: BEAM,
        kind: Kind::ActorRuntime,
    },
    Peer {
        name: "actix",
        kind: Kind::ActorCrate,
    },
    Peer {
        name: "ractor",
        kind: Kind::ActorCrate,
    },
    Peer {
        name: "kameo",
        kind: Kind::ActorCrate,
    },
    Peer {
        name: "tokio-mpsc",
        kind: Kind::Channel,
    },
    Peer {
        name: "tokio-mpsc-bounded",
        kind: Kind::Channel,
    },
    Peer {
        name: "crossbeam",
        kind: Kind::Channel,
    },
    Peer {
        name: "mutex-vecdeque",
        kind: Kind::Channel,
    },
];

/// The names of all peers.
pub(crate) fn names() -> Vec<&'static str> {
    PEERS.iter().map(|peer| peer.name).collect()
}
