//! The inputs of a server: what is listened on, and how it stops.

use std::{
    fmt,
    net::SocketAddr,
    path::PathBuf,
    time::{Duration, Instant},
};

use freeboard::{
    ActorRef, SpawnError, System,
    meter::Exposition,
    net::{
        UnixBindError, UnixOptions,
        datagram::{DatagramSnapshot, DatagramSocket},
        http::HttpServer,
        poller::Poller,
        tcp::{BindError, Drain, Listener},
    },
};

use crate::{config::TcpConfig, frame::Framing, server::ServerHandle};

#[cfg(feature = "tls")]
use super::tls::{self, TlsConfig, TlsInput, TlsSnapshot};
use super::{
    datagram::{DatagramConfig, DatagramSource, Finish},
    http::{self, HttpConfig},
    tcp,
};

/// Something that takes lines.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InputConfig {
    /// TCP.
    Tcp(TcpConfig),
    /// UDP (RFC 5426): a datagram is a message.
    Udp {
        /// The address; port 0 takes any free port.
        address: SocketAddr,
        /// Of the socket.
        options: DatagramConfig,
    },
    /// A Unix datagram socket, as `/dev/log`.
    UnixDatagram {
        /// The socket's path.
        path: PathBuf,
        /// The permissions of its file; by default those that the umask leaves.
        mode: Option<u32>,
        /// Of the socket.
        options: DatagramConfig,
    },
    /// A Unix stream socket.
    UnixStream {
        /// The socket's path.
        path: PathBuf,
        /// The permissions of its file; by default those that the umask leaves.
        mode: Option<u32>,
        /// How lines are told apart.
        framing: Framing,
    },
    /// Syslog over TLS (RFC 5425).
    #[cfg(feature = "tls")]
    Tls(TlsConfig),
    /// HTTP `POST /` with lines.
    Http(HttpConfig),
}

impl InputConfig {
    /// Whether both listen at the same place, so that only one of them can be open.
    pub(crate) fn is_at_place_of(&self, other: &Self) -> bool {
        match (self.place(), other.place()) {
            (Place::Ip(kind, address), Place::Ip(other_kind, other)) => {
                kind == other_kind && address == other
            }
            (Place::Path(path), Place::Path(other)) => path == other,
            _ => false,
        }
    }

    /// Whether they differ in nothing but in what a reload can change.
    pub(crate) fn is_reloadable_to(&self, other: &Self) -> bool {
        match (self, other) {
            #[cfg(feature = "tls")]
            (Self::Tls(this), Self::Tls(other)) => {
                (this.framing, this.handshake_time) == (other.framing, other.handshake_time)
            }
            _ => self == other,
        }
    }

    fn place(&self) -> Place<'_> {
        match self {
            Self::Tcp(config) => Place::Ip("tcp", config.address),
            Self::Udp { address, .. } => Place::Ip("udp", *address),
            Self::UnixDatagram { path, .. } | Self::UnixStream { path, .. } => Place::Path(path),
            #[cfg(feature = "tls")]
            Self::Tls(config) => Place::Ip("tls", config.address),
            Self::Http(config) => Place::Ip("http", config.address),
        }
    }
}

/// Where an input listens.
enum Place<'a> {
    Ip(&'static str, SocketAddr),
    Path(&'a PathBuf),
}

/// An input could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// An address cannot be listened on.
    #[error("{0}")]
    Bind(#[from] BindError),
    /// A Unix socket cannot be listened on.
    #[error("{0}")]
    Unix(#[from] UnixBindError),
    /// A certificate or a key cannot be used.
    #[error("{}: {reason}", path.display())]
    Certificate {
        /// Its file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// An actor could not be spawned.
    #[error("{0}")]
    Spawn(#[from] SpawnError),
}

/// An open input.
pub struct Input(Open);

/// What a reload has read for an input and not applied yet.
pub(crate) struct Prepared(#[cfg(feature = "tls")] tls::Loaded);

enum Open {
    Tcp(Listener),
    Udp(DatagramSocket, ActorRef<DatagramSource>),
    UnixDatagram(DatagramSocket<PathBuf>, ActorRef<DatagramSource>),
    UnixStream(Listener<PathBuf>),
    #[cfg(feature = "tls")]
    Tls(Listener, TlsInput),
    Http(HttpServer),
}

impl fmt::Debug for Input {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Input({self})")
    }
}

/// As a URL: `udp://127.0.0.1:514`.
impl fmt::Display for Input {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Open::Tcp(listener) => write!(formatter, "tcp://{}", listener.address()),
            Open::Udp(socket, _) => write!(formatter, "udp://{}", socket.address()),
            Open::UnixDatagram(socket, _) => {
                write!(formatter, "unix-datagram:{}", socket.path().display())
            }
            Open::UnixStream(listener) => write!(formatter, "unix:{}", listener.path().display()),
            #[cfg(feature = "tls")]
            Open::Tls(listener, _) => write!(formatter, "tls://{}", listener.address()),
            Open::Http(server) => write!(formatter, "http://{}", server.address()),
        }
    }
}

impl Input {
    pub(crate) fn open(
        system: &System,
        poller: &Poller,
        server: &ServerHandle,
        config: &InputConfig,
    ) -> Result<Self, InputError> {
        Ok(Self(match config {
            InputConfig::Tcp(config) => Open::Tcp(tcp::listen(system, poller, server, *config)?),
            InputConfig::Udp { address, options } => {
                let owner = DatagramSource::spawn(system, server, *options, false)?;
                let of_socket = options.options();
                let recipient = owner.recipient();
                let socket =
                    DatagramSocket::bind_udp(system, poller, *address, of_socket, recipient);
                Open::Udp(socket.inspect_err(|_| owner.stop())?, owner)
            }
            InputConfig::UnixDatagram {
                path,
                mode,
                options,
            } => {
                let owner = DatagramSource::spawn(system, server, *options, true)?;
                let unix = UnixOptions { mode: *mode };
                let of_socket = options.options();
                let recipient = owner.recipient();
                let socket =
                    DatagramSocket::bind_unix(system, poller, path, unix, of_socket, recipient);
                Open::UnixDatagram(socket.inspect_err(|_| owner.stop())?, owner)
            }
            InputConfig::UnixStream {
                path,
                mode,
                framing,
            } => {
                let serve = tcp::serve(server, poller, *framing, "unix", |_| None);
                let (unix, options) = (UnixOptions { mode: *mode }, tcp::listener(server));
                let listener = Listener::bind_unix(system, poller, path, unix, options, serve);
                Open::UnixStream(listener?)
            }
            #[cfg(feature = "tls")]
            InputConfig::Tls(config) => {
                let tls = TlsInput::new(server, config)?;
                let of_connections = tls.clone();
                let layer = move |peer| of_connections.layer(peer);
                let serve = tcp::serve(server, poller, config.framing, "tls", layer);
                let options = tcp::listener(server);
                let listener = Listener::bind(system, poller, config.address, options, serve)?;
                Open::Tls(listener, tls)
            }
            InputConfig::Http(config) => Open::Http(http::listen(system, poller, server, config)?),
        }))
    }

    /// The address, if it is one of IP.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.0 {
            Open::Tcp(listener) => Some(listener.address()),
            Open::Udp(socket, _) => Some(socket.address()),
            Open::UnixDatagram(..) | Open::UnixStream(_) => None,
            #[cfg(feature = "tls")]
            Open::Tls(listener, _) => Some(listener.address()),
            Open::Http(server) => Some(server.address()),
        }
    }

    /// The counters of a datagram socket; `None` for other inputs.
    #[must_use]
    pub fn datagrams(&self) -> Option<DatagramSnapshot> {
        match &self.0 {
            Open::Udp(socket, _) => Some(socket.snapshot()),
            Open::UnixDatagram(socket, _) => Some(socket.snapshot()),
            _ => None,
        }
    }

    /// The counters of TLS; `None` for other inputs.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(&self) -> Option<TlsSnapshot> {
        match &self.0 {
            Open::Tls(_, tls) => Some(tls.snapshot()),
            _ => None,
        }
    }

    /// Whether it is plain TCP.
    pub(crate) fn is_tcp(&self) -> bool {
        matches!(self.0, Open::Tcp(_))
    }

    /// Reads what these settings name, to be applied later; `None` if there is nothing.
    pub(crate) fn prepare(&self, config: &InputConfig) -> Result<Option<Prepared>, InputError> {
        match (&self.0, config) {
            #[cfg(feature = "tls")]
            (Open::Tls(..), InputConfig::Tls(config)) => Ok(Some(Prepared(tls::load(config)?))),
            _ => Ok(None),
        }
    }

    pub(crate) fn apply(&self, prepared: Prepared) {
        match &self.0 {
            #[cfg(feature = "tls")]
            Open::Tls(_, tls) => tls.set(prepared.0),
            _ => drop(prepared),
        }
    }

    /// When its certificate expires.
    #[cfg(feature = "tls")]
    pub(crate) fn expires(&self) -> Option<jiff::Timestamp> {
        match &self.0 {
            Open::Tls(_, tls) => Some(tls.expires()),
            _ => None,
        }
    }

    /// Adds its metrics.
    pub(crate) fn render(&self, text: &mut Exposition) {
        let name = self.to_string();
        match &self.0 {
            Open::Tcp(listener) => listener.snapshot().render(&name, text),
            Open::Udp(socket, _) => socket.snapshot().render(&name, text),
            Open::UnixDatagram(socket, _) => socket.snapshot().render(&name, text),
            Open::UnixStream(listener) => listener.snapshot().render(&name, text),
            #[cfg(feature = "tls")]
            Open::Tls(listener, _) => listener.snapshot().render(&name, text),
            Open::Http(server) => {
                server.connections().render(&name, text);
                server.snapshot().render(&name, text);
            }
        }
    }

    /// Takes nothing new from now on.
    pub(crate) fn begin_stop(&self) {
        let now = Duration::ZERO;
        match &self.0 {
            Open::Tcp(listener) => drop(listener.drain(now)),
            Open::Udp(socket, _) => drop(socket.actor().try_tell(Drain)),
            Open::UnixDatagram(socket, _) => drop(socket.actor().try_tell(Drain)),
            Open::UnixStream(listener) => drop(listener.drain(now)),
            #[cfg(feature = "tls")]
            Open::Tls(listener, _) => drop(listener.drain(now)),
            Open::Http(server) => drop(server.drain(now)),
        }
    }

    /// Waits until everything that has arrived is with the dams. HTTP requests get their answers first. Returns the
    /// number of datagram sockets that were cut off at the deadline; connections go on, and their sources stay open.
    pub(crate) fn stop(&self, deadline: Instant) -> usize {
        let left = deadline.saturating_duration_since(Instant::now());
        match &self.0 {
            Open::Udp(socket, owner) => return stop_datagrams(socket, owner, deadline),
            Open::UnixDatagram(socket, owner) => return stop_datagrams(socket, owner, deadline),
            Open::Tcp(listener) => drop(listener.drain(left)),
            Open::UnixStream(listener) => drop(listener.drain(left)),
            #[cfg(feature = "tls")]
            Open::Tls(listener, _) => drop(listener.drain(left)),
            Open::Http(server) => drop(server.drain(left)),
        }
        0
    }
}

/// The socket drains. Returns 1 if it was cut off, else 0.
fn stop_datagrams<A>(
    socket: &DatagramSocket<A>,
    owner: &ActorRef<DatagramSource>,
    deadline: Instant,
) -> usize {
    let is_read = socket.actor().wait_ended_until(deadline).is_some();
    if !is_read {
        socket.actor().stop();
    }
    // An error: it has terminated, or the deadline has passed.
    let _ = owner.ask(Finish).deadline(deadline).wait();
    let is_handed_over = owner.wait_ended_until(deadline).is_some();
    if !is_handed_over {
        owner.stop();
    }
    usize::from(!is_read || !is_handed_over)
}
