//! A TCP proxy: a listener whose connections are forwarded to a backend, byte by byte.
//!
//! An end of stream on one side is forwarded behind all bytes before it. A reset of one side is forwarded at
//! once: bytes not yet delivered are lost, as on a direct connection.

mod link;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use freeboard_actor::{SpawnOptions, System};
use freeboard_flow::LaneConfig;
use freeboard_meter::{Counter, Exposition, metrics};

use crate::{
    poller::Poller,
    tcp::{BindError, Listener, ListenerOptions, ListenerSnapshot},
};
use link::Link;

metrics! {
    /// The counters of a proxy at one time.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ProxySnapshot: PROXY {}
    #[derive(Debug, Default)]
    counted by pub(super) struct ProxyCounters {
        counter to_backend_bytes: Counter = "freeboard_proxy_to_backend_bytes_total",
            "Bytes forwarded from clients to the backend.";
        counter to_client_bytes: Counter = "freeboard_proxy_to_client_bytes_total",
            "Bytes forwarded from the backend to clients.";
        counter backend_failures: Counter = "freeboard_proxy_backend_failures_total",
            "Connections closed because the backend could not be reached.";
        counter idle_timeouts: Counter = "freeboard_proxy_idle_timeouts_total",
            "Connections closed because no bytes moved for too long.";
        counter broken: Counter = "freeboard_proxy_broken_total",
            "Connections that broke; the other side was reset.";
    }
}

impl ProxySnapshot {
    /// Adds the metrics to `text`, labelled with `proxy`.
    pub fn render(&self, name: &str, text: &mut Exposition) {
        text.metrics(PROXY, &[("proxy", name)], self);
    }
}

/// Limits of a proxy and its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyOptions {
    /// Limits of the listener.
    pub listener: ListenerOptions,
    /// The most bytes buffered in each direction, at least 1; default 64 KiB.
    pub window_bytes: usize,
    /// The time for connecting to the backend; default 5 s.
    pub connect_time: Duration,
    /// A connection is closed after so long without a byte; default five minutes.
    pub idle_time: Duration,
    /// The same while the proxy drains; default 1 s.
    pub drain_idle_time: Duration,
}

impl Default for ProxyOptions {
    fn default() -> Self {
        Self {
            listener: ListenerOptions::default(),
            window_bytes: 64 << 10,
            connect_time: Duration::from_secs(5),
            idle_time: Duration::from_secs(300),
            drain_idle_time: Duration::from_secs(1),
        }
    }
}

/// The state that all links of a proxy share.
#[derive(Debug)]
struct Shared {
    backend: SocketAddr,
    options: ProxyOptions,
    poller: Poller,
    counters: ProxyCounters,
}

/// A handle of a TCP proxy. Dropping it does not stop the proxy; see [`Proxy::drain`].
#[derive(Clone, Debug)]
pub struct Proxy {
    listener: Listener,
    shared: Arc<Shared>,
}

impl Proxy {
    /// Listens on `address` and forwards each connection to `backend`.
    ///
    /// # Errors
    /// [`BindError`], for example because the port is in use, or because `backend` is this listener: each
    /// connection would open another until no file descriptors are left.
    pub fn bind(
        system: &System,
        poller: &Poller,
        address: SocketAddr,
        backend: SocketAddr,
        options: ProxyOptions,
    ) -> Result<Self, BindError> {
        let check = |address| match is_itself(poller, address, backend) {
            true => {
                let error = format!("the backend {backend} is the proxy itself");
                let error = io::Error::new(io::ErrorKind::InvalidInput, error);
                Err(BindError { address, error })
            }
            false => Ok(()),
        };
        check(address)?;
        let shared = Arc::new(Shared {
            backend,
            options,
            poller: poller.clone(),
            counters: ProxyCounters::default(),
        });
        let of_link = shared.clone();
        let spawn_options = SpawnOptions::new().lane(LaneConfig::bounded(1));
        let listener = Listener::bind(
            system,
            poller,
            address,
            options.listener,
            move |accepted, cx| {
                let link = Link::new(accepted.stream, accepted.guard, of_link.clone());
                cx.spawn_once(spawn_options.clone(), link).map(drop)
            },
        )?;
        // The operating system may have chosen the backend's port.
        check(listener.address()).inspect_err(|_| {
            listener.drain(Duration::ZERO);
        })?;
        Ok(Self { listener, shared })
    }

    /// The bound address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// The counters now.
    #[must_use]
    pub fn snapshot(&self) -> ProxySnapshot {
        self.shared.counters.snapshot()
    }

    /// The counters of its listener now.
    #[must_use]
    pub fn connections(&self) -> ListenerSnapshot {
        self.listener.snapshot()
    }

    /// Stops accepting and waits until all connections have closed, or have been idle for
    /// [`ProxyOptions::drain_idle_time`]. It blocks the thread, so it must not be called in a handler. Returns the
    /// number of connections still open.
    pub fn drain(&self, timeout: Duration) -> usize {
        self.listener.drain(timeout)
    }
}

/// Whether connections to `backend` reach a listener at `listen`.
fn is_itself(poller: &Poller, listen: SocketAddr, backend: SocketAddr) -> bool {
    // Connecting to the unspecified address reaches loopback.
    let to = match backend.ip().to_canonical() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let at = listen.ip().to_canonical();
    let is_there = if at.is_unspecified() {
        // It listens on all local addresses, which are those that can be bound. An IPv6 listener also gets IPv4.
        (at.is_ipv6() || to.is_ipv4()) && poller.is_local(to)
    } else {
        at == to
    };
    listen.port() == backend.port() && is_there
}
