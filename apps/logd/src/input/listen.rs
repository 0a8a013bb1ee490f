//! The inputs of a server: what is listened on, and how it stops.

use std::{
    fmt, fs,
    mem::discriminant,
    net::{IpAddr, SocketAddr},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use freeboard::{
    ActorRef, SpawnError, System,
    meter::{Exposition, clock},
    net::{
        UnixBindError, UnixOptions,
        datagram::{DatagramSnapshot, DatagramSocket},
        http::HttpServer,
        poller::Poller,
        tcp::{BindError, Drain, Listener},
    },
};

use crate::server::ServerHandle;

#[cfg(feature = "tls")]
use super::tls::{self, TlsConfig, TlsInput, TlsSnapshot};
use super::{
    datagram::{self, DatagramSource, Finish, UdpConfig, UnixConfig},
    http::{self, HttpConfig},
    tcp::{self, TcpConfig, UnixStreamConfig},
};

/// Something that takes lines.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InputConfig {
    /// TCP.
    Tcp(TcpConfig),
    /// UDP (RFC 5426): a datagram is a message.
    Udp(UdpConfig),
    /// A Unix datagram socket, as `/dev/log`.
    UnixDatagram(UnixConfig),
    /// A Unix stream socket.
    UnixStream(UnixStreamConfig),
    /// Syslog over TLS (RFC 5425).
    #[cfg(feature = "tls")]
    Tls(TlsConfig),
    /// HTTP `POST /` with lines.
    Http(HttpConfig),
}

impl InputConfig {
    /// Whether only one of them can be open. Those of one kind on any free port count as the same.
    pub(crate) fn conflicts_with(&self, other: &Self) -> bool {
        let (resource, others) = (self.resource(), other.resource());
        let is_same = discriminant(self) == discriminant(other) && resource == others;
        is_same || resource.conflicts_with(&others)
    }

    /// Whether they differ in nothing but in what a reload can change.
    pub(crate) fn is_reloadable_to(&self, other: &Self) -> bool {
        match (self, other) {
            #[cfg(feature = "tls")]
            (Self::Tls(this), Self::Tls(other)) => {
                (this.address, this.framing, this.handshake_time)
                    == (other.address, other.framing, other.handshake_time)
            }
            _ => self == other,
        }
    }

    pub(crate) fn resource(&self) -> ExclusiveResource {
        match self {
            Self::Tcp(config) => ExclusiveResource::Tcp(config.address),
            Self::Udp(config) => ExclusiveResource::Udp(config.address),
            Self::UnixDatagram(config) => ExclusiveResource::Path(config.path.clone()),
            Self::UnixStream(config) => ExclusiveResource::Path(config.path.clone()),
            #[cfg(feature = "tls")]
            Self::Tls(config) => ExclusiveResource::Tcp(config.address),
            Self::Http(config) => ExclusiveResource::Tcp(config.address),
        }
    }
}

/// What a setting takes for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExclusiveResource {
    Tcp(SocketAddr),
    Udp(SocketAddr),
    Path(PathBuf),
    Directory(PathBuf),
}

impl ExclusiveResource {
    /// Whether two settings cannot have both. Port 0 is any free port.
    pub(crate) fn conflicts_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tcp(this), Self::Tcp(other)) | (Self::Udp(this), Self::Udp(other)) => {
                this.port() == other.port() && this.port() != 0 && overlap(this.ip(), other.ip())
            }
            (Self::Directory(this), Self::Directory(other)) => {
                this.starts_with(other) || other.starts_with(this)
            }
            (
                Self::Path(this) | Self::Directory(this),
                Self::Path(other) | Self::Directory(other),
            ) => this == other,
            _ => false,
        }
    }
}

impl fmt::Display for ExclusiveResource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) | Self::Udp(address) => write!(formatter, "{address}"),
            Self::Path(path) | Self::Directory(path) => write!(formatter, "{}", path.display()),
        }
    }
}

/// Whether a port cannot be bound on both. `::` covers IPv4 too.
fn overlap(this: IpAddr, other: IpAddr) -> bool {
    let covers =
        |all: IpAddr, one: IpAddr| all.is_unspecified() && (all.is_ipv6() || one.is_ipv4());
    let (this, other) = (this.to_canonical(), other.to_canonical());
    this == other || covers(this, other) || covers(other, this)
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
pub struct Input {
    open: Open,
    /// The file of its socket.
    file: Option<SocketFile>,
}

/// The file of a Unix socket as it was when it was bound.
struct SocketFile {
    path: PathBuf,
    /// Device and inode; `None` if it was removed.
    identity: Option<(u64, u64)>,
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

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
        match &self.open {
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
        let open = match config {
            InputConfig::Tcp(config) => Open::Tcp(tcp::listen(system, poller, server, *config)?),
            InputConfig::Udp(config) => {
                let owner = DatagramSource::spawn(system, server, config.senders_max, false)?;
                let options = datagram::options(config.receive_buffer_bytes);
                let (address, recipient) = (config.address, owner.recipient());
                let socket = DatagramSocket::bind_udp(system, poller, address, options, recipient);
                Open::Udp(socket.inspect_err(|_| owner.stop())?, owner)
            }
            InputConfig::UnixDatagram(config) => {
                let owner = DatagramSource::spawn(system, server, config.senders_max, true)?;
                let options = datagram::options(config.receive_buffer_bytes);
                let unix = UnixOptions { mode: config.mode };
                let (path, recipient) = (&config.path, owner.recipient());
                let socket =
                    DatagramSocket::bind_unix(system, poller, path, unix, options, recipient);
                Open::UnixDatagram(socket.inspect_err(|_| owner.stop())?, owner)
            }
            InputConfig::UnixStream(config) => {
                let serve = tcp::serve(server, poller, config.framing, "unix", |_| None);
                let unix = UnixOptions { mode: config.mode };
                let (path, options) = (&config.path, tcp::listener(server));
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
        };
        let path = match &open {
            Open::UnixDatagram(socket, _) => Some(socket.path()),
            Open::UnixStream(listener) => Some(listener.path()),
            _ => None,
        };
        let file = path.map(|path| SocketFile {
            path: path.to_owned(),
            identity: identity(path),
        });
        Ok(Self { open, file })
    }

    /// Whether the file of its Unix socket was removed or replaced: no client reaches it. A reload binds it again.
    #[must_use]
    pub fn has_lost_its_file(&self) -> bool {
        let file = self.file.as_ref();
        file.is_some_and(|it| it.identity.is_none() || identity(&it.path) != it.identity)
    }

    /// The address, if it is one of IP.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.open {
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
        match &self.open {
            Open::Udp(socket, _) => Some(socket.snapshot()),
            Open::UnixDatagram(socket, _) => Some(socket.snapshot()),
            _ => None,
        }
    }

    /// The counters of TLS; `None` for other inputs.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(&self) -> Option<TlsSnapshot> {
        match &self.open {
            Open::Tls(_, tls) => Some(tls.snapshot()),
            _ => None,
        }
    }

    /// Reads what these settings name, to be applied later; `None` if there is nothing.
    pub(crate) fn prepare(&self, config: &InputConfig) -> Result<Option<Prepared>, InputError> {
        match (&self.open, config) {
            #[cfg(feature = "tls")]
            (Open::Tls(..), InputConfig::Tls(config)) => Ok(Some(Prepared(tls::load(config)?))),
            _ => Ok(None),
        }
    }

    pub(crate) fn apply(&self, prepared: Prepared) {
        match &self.open {
            #[cfg(feature = "tls")]
            Open::Tls(_, tls) => tls.set(prepared.0),
            _ => drop(prepared),
        }
    }

    /// When its certificate expires.
    #[cfg(feature = "tls")]
    pub(crate) fn expires(&self) -> Option<jiff::Timestamp> {
        match &self.open {
            Open::Tls(_, tls) => Some(tls.expires()),
            _ => None,
        }
    }

    /// Adds its metrics.
    pub(crate) fn render(&self, text: &mut Exposition) {
        let name = self.to_string();
        match &self.open {
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
        match &self.open {
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
        let left = deadline.saturating_duration_since(clock::now());
        match &self.open {
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
