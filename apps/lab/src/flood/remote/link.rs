//! Where lines are sent to, and the socket that they are sent on.

use std::{
    fmt, io,
    io::{Read, Write},
    net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream, UdpSocket},
    os::fd::{AsFd, BorrowedFd},
    os::unix::net::{UnixDatagram, UnixStream},
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use crate::serve::resolve;

/// A syslog server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Tcp(SocketAddr),
    Udp(SocketAddr),
    /// A stream or a datagram socket; which one is found out.
    Unix(PathBuf),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address = |rest| resolve(rest).map_err(|error| error.to_string());
        match text.split_once(':') {
            Some(("tcp", rest)) => Ok(Self::Tcp(address(rest)?)),
            Some(("udp", rest)) => Ok(Self::Udp(address(rest)?)),
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Unix(path.into())),
            _ => Err("write tcp:HOST:PORT, udp:HOST:PORT or unix:PATH".to_owned()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(formatter, "tcp:{address}"),
            Self::Udp(address) => write!(formatter, "udp:{address}"),
            Self::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

impl Target {
    /// Whether the end of a connection tells that all was read. Of a Unix socket it depends on its type.
    pub(super) fn is_confirming(&self) -> bool {
        match self {
            Self::Tcp(_) => true,
            Self::Udp(_) => false,
            Self::Unix(_) => self.connect().is_ok_and(|link| !link.is_datagrams()),
        }
    }

    /// A socket that does not block.
    pub(super) fn connect(&self) -> io::Result<Link> {
        let link = match self {
            Self::Tcp(address) => Link::Tcp(TcpStream::connect(address)?),
            Self::Udp(address) => {
                let any: SocketAddr = match address {
                    SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                    SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
                };
                let socket = UdpSocket::bind(any)?;
                socket.connect(address)?;
                Link::Udp(socket)
            }
            Self::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                match socket.connect(path) {
                    Ok(()) => Link::UnixDatagram(socket),
                    Err(error) if error.raw_os_error() == Some(Errno::PROTOTYPE.raw_os_error()) => {
                        Link::UnixStream(UnixStream::connect(path)?)
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        match &link {
            Link::Tcp(socket) => socket.set_nonblocking(true)?,
            Link::Udp(socket) => socket.set_nonblocking(true)?,
            Link::UnixStream(socket) => socket.set_nonblocking(true)?,
            Link::UnixDatagram(socket) => socket.set_nonblocking(true)?,
        }
        Ok(link)
    }
}

/// A connected socket.
pub(super) enum Link {
    Tcp(TcpStream),
    Udp(UdpSocket),
    UnixStream(UnixStream),
    UnixDatagram(UnixDatagram),
}

impl Link {
    /// Whether each line is a message of its own.
    pub(super) fn is_datagrams(&self) -> bool {
        matches!(self, Self::Udp(_) | Self::UnixDatagram(_))
    }

    /// Sends bytes, as many as are taken; of a datagram all.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.write(bytes),
            Self::Udp(socket) => socket.send(bytes),
            Self::UnixStream(socket) => socket.write(bytes),
            Self::UnixDatagram(socket) => socket.send(bytes),
        }
    }

    /// Says that no more comes.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.shutdown(Shutdown::Write),
            Self::UnixStream(socket) => socket.shutdown(Shutdown::Write),
            Self::Udp(_) | Self::UnixDatagram(_) => Ok(()),
        }
    }

    /// Reads what the server says, which is nothing: 0 is its end.
    pub(super) fn read(&mut self) -> io::Result<usize> {
        let mut bytes = [0; 512];
        match self {
            Self::Tcp(socket) => socket.read(&mut bytes),
            Self::UnixStream(socket) => socket.read(&mut bytes),
            Self::Udp(_) | Self::UnixDatagram(_) => Ok(0),
        }
    }

    /// Waits until it can send or read, for up to this time.
    pub(super) fn wait(&self, flags: PollFlags, time: Duration) -> io::Result<()> {
        let time = Timespec::try_from(time).map_err(io::Error::other)?;
        match poll(
            &mut [PollFd::from_borrowed_fd(self.fd(), flags)],
            Some(&time),
        ) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(socket) => socket.as_fd(),
            Self::Udp(socket) => socket.as_fd(),
            Self::UnixStream(socket) => socket.as_fd(),
            Self::UnixDatagram(socket) => socket.as_fd(),
        }
    }
}
