//! The sockets behind listeners and connections: TCP, or Unix stream sockets.

use std::{
    fmt,
    io::{self, IoSlice, Read, Write},
    net::{Shutdown, SocketAddr},
};
#[cfg(unix)]
use std::{os::fd::AsFd, time::Duration};

#[cfg(unix)]
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::sockopt,
};

#[cfg(unix)]
use crate::poller::mio::net::{UnixListener, UnixStream};
use crate::poller::{
    Pollable, Pollee,
    mio::net::{TcpListener, TcpStream},
};
#[cfg(feature = "simulated")]
use crate::simulated::{SimulatedListener, SimulatedStream};

/// The process at the other end of a Unix socket, as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Credentials {
    /// Its process id; 0 if it is not visible from this process' namespace.
    pub pid: u32,
    /// Its effective user id.
    pub uid: u32,
    /// Its effective group id.
    pub gid: u32,
}

#[cfg(target_os = "linux")]
impl From<nix::sys::socket::UnixCredentials> for Credentials {
    fn from(of: nix::sys::socket::UnixCredentials) -> Self {
        Self {
            pid: u32::try_from(of.pid()).unwrap_or(0),
            uid: of.uid(),
            gid: of.gid(),
        }
    }
}

/// The other end of a connection, or the sender of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// An IP address and a port.
    Ip(SocketAddr),
    /// A process of this machine, if the operating system names it. Linux does.
    Unix(Option<Credentials>),
}

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(formatter),
            Self::Unix(Some(Credentials { pid, uid, .. })) => {
                write!(formatter, "pid={pid},uid={uid}")
            }
            Self::Unix(None) => formatter.write_str("unknown"),
        }
    }
}

/// A connected socket.
#[derive(Debug)]
pub enum Stream {
    /// Of TCP.
    Tcp(TcpStream),
    /// A Unix stream socket.
    #[cfg(unix)]
    Unix(UnixStream),
    /// Of a simulated network.
    #[cfg(feature = "simulated")]
    Simulated(SimulatedStream),
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Self {
        Self::Tcp(stream)
    }
}

#[cfg(unix)]
impl From<UnixStream> for Stream {
    fn from(stream: UnixStream) -> Self {
        Self::Unix(stream)
    }
}

/// Evaluates an expression for the socket inside.
macro_rules! each {
    ($kind:ident, $of:expr, $socket:ident => $result:expr) => {
        match $of {
            $kind::Tcp($socket) => $result,
            #[cfg(unix)]
            $kind::Unix($socket) => $result,
            #[cfg(feature = "simulated")]
            $kind::Simulated($socket) => $result,
        }
    };
}

impl Stream {
    /// Turns Nagle's algorithm off. A Unix socket has none.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn set_nodelay(&self) {
        if let Self::Tcp(stream) = self {
            let _ = stream.set_nodelay(true);
        }
    }

    /// Makes the close a reset, which discards unsent bytes. If the option cannot be set, the close is a normal one.
    pub(crate) fn set_reset_on_close(&self) {
        match self {
            #[cfg(unix)]
            Self::Tcp(stream) => {
                let _ = sockopt::set_socket_linger(stream, Some(Duration::ZERO));
            }
            #[cfg(not(unix))]
            Self::Tcp(_) => {}
            #[cfg(unix)]
            Self::Unix(_) => {}
            #[cfg(feature = "simulated")]
            Self::Simulated(stream) => stream.set_reset_on_close(),
        }
    }

    /// The bytes that have arrived and are not read.
    pub(super) fn unread_bytes(&self) -> io::Result<usize> {
        match self {
            #[cfg(unix)]
            Self::Tcp(stream) => Ok(rustix::io::ioctl_fionread(stream)? as usize),
            #[cfg(unix)]
            Self::Unix(stream) => Ok(rustix::io::ioctl_fionread(stream)? as usize),
            // A lower bound.
            #[cfg(not(unix))]
            Self::Tcp(stream) => stream.peek(&mut [0; 4096]),
            #[cfg(feature = "simulated")]
            Self::Simulated(stream) => stream.unread_bytes(),
        }
    }

    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        each!(Self, self, stream => stream.shutdown(how))
    }

    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        each!(Self, self, stream => stream.take_error())
    }

    pub(crate) fn is_connected(&self) -> io::Result<()> {
        each!(Self, self, stream => stream.peer_addr().map(drop))
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        each!(Self, self, stream => stream.read(buffer))
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        each!(Self, self, stream => stream.write(bytes))
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        each!(Self, self, stream => stream.write_vectored(slices))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A listening socket.
#[derive(Debug)]
pub(crate) enum ListenSocket {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixListener),
    #[cfg(feature = "simulated")]
    Simulated(SimulatedListener),
}

impl ListenSocket {
    pub(crate) fn accept(&self) -> io::Result<(Stream, Peer)> {
        match self {
            Self::Tcp(socket) => {
                let (stream, address) = socket.accept()?;
                Ok((stream.into(), Peer::Ip(address)))
            }
            #[cfg(unix)]
            Self::Unix(socket) => {
                let (stream, _) = socket.accept()?;
                let peer = Peer::Unix(credentials(&stream));
                Ok((stream.into(), peer))
            }
            #[cfg(feature = "simulated")]
            Self::Simulated(socket) => {
                let (stream, address) = socket.accept()?;
                Ok((Stream::Simulated(stream), Peer::Ip(address)))
            }
        }
    }

    /// Whether another connection is pending. An accept that finds none costs the kernel as much as one that succeeds,
    /// because it creates the socket first; this poll costs a sixth of it. A connection that arrives after the poll is
    /// an event of its own, because the poller's edges are arrivals (`sk_data_ready` for each, in Linux'
    /// net/ipv4/tcp_minisocks.c and net/unix/af_unix.c), so none is missed.
    pub(super) fn has_pending(&self) -> bool {
        #[cfg(unix)]
        let socket = match self {
            Self::Tcp(socket) => socket.as_fd(),
            Self::Unix(socket) => socket.as_fd(),
            #[cfg(feature = "simulated")]
            Self::Simulated(_) => return true,
        };
        #[cfg(unix)]
        // If the poll fails, the accept decides.
        return poll(
            &mut [PollFd::from_borrowed_fd(socket, PollFlags::IN)],
            Some(&Timespec::default()),
        )
        .map_or(true, |found| found > 0);
        #[cfg(not(unix))]
        true
    }
}

/// The process that connected, or that listened when this process connected.
#[cfg(target_os = "linux")]
pub(crate) fn credentials(stream: &UnixStream) -> Option<Credentials> {
    use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
    getsockopt(stream, PeerCredentials).ok().map(Into::into)
}

#[cfg(all(unix, not(target_os = "linux")))]
pub(crate) fn credentials(_: &UnixStream) -> Option<Credentials> {
    None
}

impl Pollable for Stream {
    fn pollee(&mut self) -> Pollee<'_> {
        match self {
            Self::Tcp(stream) => Pollee::Kernel(stream),
            #[cfg(unix)]
            Self::Unix(stream) => Pollee::Kernel(stream),
            #[cfg(feature = "simulated")]
            Self::Simulated(stream) => Pollee::Simulated(stream.handle()),
        }
    }
}

impl Pollable for ListenSocket {
    fn pollee(&mut self) -> Pollee<'_> {
        match self {
            Self::Tcp(socket) => Pollee::Kernel(socket),
            #[cfg(unix)]
            Self::Unix(socket) => Pollee::Kernel(socket),
            #[cfg(feature = "simulated")]
            Self::Simulated(socket) => Pollee::Simulated(socket.handle()),
        }
    }
}
