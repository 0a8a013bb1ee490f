//! A host: an IP address with sockets, that crashes and pauses.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use super::{network::Network, watcher::Watcher};

/// The first port that a host chooses by itself.
const FIRST_PORT: u16 = 49_152;

/// A host of a [`Network`], from one start to its crash.
#[derive(Clone)]
pub struct Host {
    pub(super) network: Network,
    pub(super) ip: IpAddr,
    /// Counts the starts. Handles of an earlier one are void.
    pub(super) boot: u64,
}

impl Host {
    /// Its address.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        self.ip
    }

    /// Its address, and a port.
    #[must_use]
    pub fn at(&self, port: u16) -> SocketAddr {
        (self.ip, port).into()
    }

    /// Its sockets vanish, and so do the packets that it has not delivered. Its peers learn that when they send something
    /// after its next start ([`Network::host`]), which gets a reset; before, nothing comes back. Nothing happens if it has
    /// crashed already.
    pub fn crash(&self) {
        self.network.crash(self);
    }

    /// Nothing arrives at it until [`Host::resume`]: its peers wait, and time out. What it sends itself is delivered.
    pub fn pause(&self) {
        self.network.set_paused(self, true);
    }

    /// Ends a pause. What has waited arrives.
    pub fn resume(&self) {
        self.network.set_paused(self, false);
    }

    /// A poller's sockets. `poll` is called by a step of the executor when one is ready.
    pub(crate) fn watcher(&self, poll: Box<dyn Fn() + Send + Sync>) -> Watcher {
        Watcher::new(self.clone(), poll)
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Host({})", self.ip)
    }
}

/// A host's state in its network.
#[derive(Debug)]
pub(super) struct HostState {
    pub(super) boot: u64,
    pub(super) is_up: bool,
    pub(super) is_paused: bool,
    next_port: u16,
    /// Datagrams that arrived during a pause.
    pub(super) held: Vec<super::datagram::Datagram>,
}

impl HostState {
    pub(super) fn new() -> Self {
        Self {
            boot: 0,
            is_up: false,
            is_paused: false,
            next_port: FIRST_PORT,
            held: Vec::new(),
        }
    }

    pub(super) fn crash(&mut self) {
        self.boot += 1;
        self.is_up = false;
        self.is_paused = false;
        self.held.clear();
    }

    pub(super) fn is_reachable(&self) -> bool {
        self.is_up && !self.is_paused
    }

    /// The next port that it chooses by itself.
    pub(super) fn choose_port(&mut self) -> u16 {
        let port = self.next_port;
        self.next_port = port.checked_add(1).unwrap_or(FIRST_PORT);
        port
    }
}
