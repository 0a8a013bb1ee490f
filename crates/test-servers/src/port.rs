//! A loopback port that stays reserved until a server listens on it and beyond.
//!
//! On Linux, a socket that is bound with `SO_REUSEADDR` and does not listen reserves the port: the kernel gives it
//! to no socket that asks for any port, neither as a listener nor as the near end of a connection. A server that
//! names the port and sets the same option, as all of ours do, can bind it (`inet_csk_find_open_port` and
//! `inet_csk_bind_conflict` in net/ipv4/inet_connection_sock.c). A port that was only found and released was seen
//! to go to two servers at once: both tests then spoke to the first one.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    os::fd::OwnedFd,
};

use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt,
};

/// A port, reserved as long as this is kept. On systems other than Linux it is only a port that was free.
#[derive(Debug)]
pub struct Port {
    address: SocketAddr,
    #[cfg(target_os = "linux")]
    _held: OwnedFd,
}

impl Port {
    /// Reserves any free port.
    ///
    /// # Errors
    /// No port is free, or no socket can be created.
    pub fn reserve() -> io::Result<Self> {
        let held: OwnedFd = socket_with(
            AddressFamily::INET,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        sockopt::set_socket_reuseaddr(&held, true)?;
        bind(&held, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        Ok(Self {
            address: getsockname(&held)?.try_into()?,
            #[cfg(target_os = "linux")]
            _held: held,
        })
    }

    /// The address to listen on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of the port.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.address.port()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{
        collections::HashSet,
        net::{TcpListener, TcpStream},
    };

    use super::*;

    #[test]
    fn a_listener_can_have_it_once() {
        let port = Port::reserve().unwrap();
        let listener = TcpListener::bind(port.address()).unwrap();
        let error = TcpListener::bind(port.address()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        // Again, as a restarted server does.
        TcpListener::bind(port.address()).unwrap();
    }

    #[test]
    fn nobody_else_is_given_it() {
        let reserved: Vec<_> = (0..500).map(|_| Port::reserve().unwrap()).collect();
        let numbers: HashSet<u16> = reserved.iter().map(Port::number).collect();
        assert_eq!(numbers.len(), reserved.len());
        let is_reserved = |address: SocketAddr| numbers.contains(&address.port());
        for _ in 0..500 {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            assert!(!is_reserved(address), "{address} for a listener");
            let near = TcpStream::connect(address).unwrap();
            let address = near.local_addr().unwrap();
            assert!(!is_reserved(address), "{address} for a connection");
        }
    }
}
