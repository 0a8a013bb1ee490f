//! The sockets behind listeners and connections: TCP, or Unix stream sockets.

use std::{
    fmt,
    io::{self, IoSlice, Read, Write},
    net::{Shutdown, SocketAddr},
};

#[cfg(unix)]
use std::os::fd::{AsFd, BorrowedFd};

#[cfg(unix)]
use crate::poller::mio::net::{UnixListener, UnixStream};
use crate::poller::mio::{
    Interest, Registry, Token, event,
    net::{TcpListener, TcpStream},
};

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
        }
    };
}

impl Stream {
    /// Turns Nagle's algorithm off. A Unix socket has none.
    pub(crate) fn set_nodelay(&self) {
        if let Self::Tcp(stream) = self {
            let _ = stream.set_nodelay(true);
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
pub(super) enum ListenSocket {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixListener),
}

impl ListenSocket {
    pub(super) fn accept(&self) -> io::Result<(Stream, Peer)> {
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
        }
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

macro_rules! source {
    ($kind:ident) => {
        impl event::Source for $kind {
            fn register(
                &mut self,
                registry: &Registry,
                token: Token,
                interest: Interest,
            ) -> io::Result<()> {
                each!(Self, self, socket => socket.register(registry, token, interest))
            }

            fn reregister(
                &mut self,
                registry: &Registry,
                token: Token,
                interest: Interest,
            ) -> io::Result<()> {
                each!(Self, self, socket => socket.reregister(registry, token, interest))
            }

            fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
                each!(Self, self, socket => socket.deregister(registry))
            }
        }

        #[cfg(unix)]
        impl AsFd for $kind {
            fn as_fd(&self) -> BorrowedFd<'_> {
                each!(Self, self, socket => socket.as_fd())
            }
        }
    };
}

source!(Stream);
source!(ListenSocket);
