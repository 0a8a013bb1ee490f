//! What a poller can watch, and the functions that make sockets: of the kernel, or of a simulated host.

use std::{
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
};

use mio::{
    Interest, Registry, Token, Waker, event,
    net::{TcpListener, TcpStream},
};

#[cfg(unix)]
use crate::datagram;
#[cfg(feature = "simulated")]
use crate::simulated;
use crate::tcp::{ListenSocket, Stream};

use super::Poller;

/// A socket that a [`Poller`] can watch: each source of [`mio`], and the sockets of this crate.
pub trait Pollable {
    /// The socket inside.
    fn pollee(&mut self) -> Pollee<'_>;
}

impl<S: event::Source> Pollable for S {
    fn pollee(&mut self) -> Pollee<'_> {
        Pollee::Kernel(self)
    }
}

/// A socket of the kernel, or a simulated one.
#[expect(missing_debug_implementations, reason = "sources have no such text")]
#[non_exhaustive]
pub enum Pollee<'a> {
    /// The kernel watches it.
    Kernel(&'a mut dyn event::Source),
    /// A simulated network has it.
    #[cfg(feature = "simulated")]
    Simulated(&'a simulated::SocketHandle),
}

/// The kernel's registry, or the watcher of a simulated host.
pub(crate) enum Sockets {
    Kernel {
        registry: Registry,
        waker: Waker,
    },
    #[cfg(feature = "simulated")]
    Simulated(simulated::Watcher),
}

impl Sockets {
    pub(super) fn register(
        &self,
        socket: Pollee<'_>,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        match (self, socket) {
            (Self::Kernel { registry, .. }, Pollee::Kernel(socket)) => {
                registry.register(socket, token, interest)
            }
            #[cfg(feature = "simulated")]
            (Self::Simulated(watcher), Pollee::Simulated(socket)) => {
                watcher.watch(socket, token, interest)
            }
            #[cfg(feature = "simulated")]
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    pub(super) fn reregister(
        &self,
        socket: Pollee<'_>,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        match (self, socket) {
            (Self::Kernel { registry, .. }, Pollee::Kernel(socket)) => {
                registry.reregister(socket, token, interest)
            }
            #[cfg(feature = "simulated")]
            (_, socket) => self.register(socket, token, interest),
        }
    }

    pub(super) fn wake(&self) {
        match self {
            // It fails only when its counter is full, and then a wake is already pending.
            Self::Kernel { waker, .. } => drop(waker.wake()),
            #[cfg(feature = "simulated")]
            Self::Simulated(_) => {}
        }
    }
}

impl Poller {
    /// Begins to connect to `address`, without Nagle's algorithm: writes are already combined, and it would only delay
    /// them.
    ///
    /// # Errors
    /// An immediate error of the operating system.
    pub fn connect(&self, address: SocketAddr) -> io::Result<Stream> {
        match self.sockets() {
            Sockets::Kernel { .. } => {
                let stream = TcpStream::connect(address)?;
                let _ = stream.set_nodelay(true);
                Ok(stream.into())
            }
            #[cfg(feature = "simulated")]
            Sockets::Simulated(watcher) => Ok(Stream::Simulated(watcher.connect(address)?)),
        }
    }

    /// A listening socket with an accept queue of `backlog` connections, and its address. Accepted sockets are without
    /// Nagle's algorithm where they inherit that.
    pub(crate) fn listen(
        &self,
        address: SocketAddr,
        backlog: u16,
    ) -> io::Result<(ListenSocket, SocketAddr)> {
        match self.sockets() {
            Sockets::Kernel { .. } => {
                let socket = TcpListener::bind(address)?;
                // `bind` listens already, with an accept queue that a burst of clients overflows.
                #[cfg(unix)]
                rustix::net::listen(&socket, backlog.into())?;
                #[cfg(target_os = "linux")]
                rustix::net::sockopt::set_tcp_nodelay(&socket, true)?;
                let bound = socket.local_addr()?;
                Ok((ListenSocket::Tcp(socket), bound))
            }
            #[cfg(feature = "simulated")]
            Sockets::Simulated(watcher) => {
                let (socket, bound) = watcher.listen(address, backlog)?;
                Ok((ListenSocket::Simulated(socket), bound))
            }
        }
    }

    /// A bound UDP socket, and its address.
    #[cfg(unix)]
    pub(crate) fn bind_datagrams(
        &self,
        address: SocketAddr,
    ) -> io::Result<(datagram::Socket, SocketAddr)> {
        match self.sockets() {
            Sockets::Kernel { .. } => {
                let socket = UdpSocket::bind(address)?;
                socket.set_nonblocking(true)?;
                let bound = socket.local_addr()?;
                Ok((datagram::Socket::Kernel(socket.into()), bound))
            }
            #[cfg(feature = "simulated")]
            Sockets::Simulated(watcher) => {
                let (socket, bound) = watcher.bind_datagrams(address)?;
                Ok((datagram::Socket::Simulated(socket), bound))
            }
        }
    }

    /// Whether `address` can be bound: it is one of this host.
    pub(crate) fn is_local(&self, address: IpAddr) -> bool {
        match self.sockets() {
            Sockets::Kernel { .. } => UdpSocket::bind((address, 0)).is_ok(),
            #[cfg(feature = "simulated")]
            Sockets::Simulated(watcher) => watcher.is_local(address),
        }
    }
}
