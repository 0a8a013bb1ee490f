//! The handles of simulated sockets. Their drop closes them.

use std::{
    fmt, io,
    net::{Shutdown, SocketAddr},
};

use bytes::Bytes;

use crate::poller::{Pollable, Pollee};

use super::{
    connection::SideOf,
    datagram::Arrived,
    network::{Key, State, WeakNetwork},
};

/// Names a socket of a network. Its drop closes the socket.
pub struct SocketHandle {
    network: WeakNetwork,
    key: Key,
}

impl SocketHandle {
    pub(super) fn new(network: WeakNetwork, key: Key) -> Self {
        Self { network, key }
    }

    pub(super) fn key(&self) -> Key {
        self.key
    }

    /// Calls the network. A network that was dropped has crashed all its hosts.
    fn call<R>(&self, call: impl FnOnce(&mut State) -> io::Result<R>) -> io::Result<R> {
        match self.network.get() {
            Some(network) => call(&mut network.lock()),
            None => Err(io::ErrorKind::NetworkDown.into()),
        }
    }
}

impl Drop for SocketHandle {
    fn drop(&mut self) {
        let Some(network) = self.network.get() else {
            return;
        };
        match self.key {
            Key::Listener(id) => network.close_listener(id),
            Key::Side(side) => network.lock().close(side),
            Key::Datagrams(id) => drop(network.lock().datagrams.remove(&id)),
        }
    }
}

impl fmt::Debug for SocketHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.key)
    }
}

/// A side of a TCP connection.
pub struct SimulatedStream(pub(super) SocketHandle);

impl SimulatedStream {
    pub(crate) fn handle(&self) -> &SocketHandle {
        &self.0
    }

    fn call<R>(&self, call: impl FnOnce(&mut State, SideOf) -> io::Result<R>) -> io::Result<R> {
        match self.0.key {
            Key::Side(side) => self.0.call(|state| call(state, side)),
            Key::Listener(_) | Key::Datagrams(_) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.call(|state, side| state.shutdown(side, how))
    }

    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.call(State::take_error)
    }

    /// Fails with `NotConnected` before it is connected and after it broke.
    pub(crate) fn peer_addr(&self) -> io::Result<()> {
        self.call(State::is_connected)
    }

    /// The bytes that have arrived and are not read.
    pub(crate) fn unread_bytes(&self) -> io::Result<usize> {
        self.call(|state, side| Ok(state.unread(side)))
    }

    /// Its readiness at present, and the bytes that can be read.
    #[cfg(all(test, target_os = "linux", not(loom)))]
    pub(super) fn readiness(&self) -> (crate::poller::Ready, usize) {
        let bits = self.call(|state, _| Ok(state.readiness(self.0.key)));
        let bits = crate::poller::Ready::from_bits(bits.unwrap_or_default());
        (bits, self.unread_bytes().unwrap_or_default())
    }

    pub(crate) fn set_reset_on_close(&self) {
        let _ = self.call(|state, side| {
            state.set_reset_on_close(side);
            Ok(())
        });
    }
}

impl io::Read for SimulatedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.call(|state, side| state.read(side, buffer))
    }
}

impl io::Write for SimulatedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[io::IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.call(|state, side| state.write(side, slices))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for SimulatedStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.call(|state, side| Ok(state.describe(side)));
        write!(formatter, "SimulatedStream({})", text.unwrap_or_default())
    }
}

/// A listening TCP socket.
#[derive(Debug)]
pub struct SimulatedListener(pub(super) SocketHandle);

impl SimulatedListener {
    pub(crate) fn handle(&self) -> &SocketHandle {
        &self.0
    }

    pub(crate) fn accept(&self) -> io::Result<(SimulatedStream, SocketAddr)> {
        match self.0.network.get() {
            Some(network) => network.accept(self.0.key),
            None => Err(io::ErrorKind::NetworkDown.into()),
        }
    }
}

impl Pollable for SimulatedDatagrams {
    fn pollee(&mut self) -> Pollee<'_> {
        Pollee::Simulated(&self.0)
    }
}

/// A UDP socket.
#[derive(Debug)]
pub(crate) struct SimulatedDatagrams(pub(super) SocketHandle);

impl SimulatedDatagrams {
    fn call<R>(&self, call: impl FnOnce(&mut State, u64) -> io::Result<R>) -> io::Result<R> {
        match self.0.key {
            Key::Datagrams(id) => self.0.call(|state| call(state, id)),
            Key::Listener(_) | Key::Side(_) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    pub(crate) fn send_to(&self, to: SocketAddr, bytes: &Bytes) -> io::Result<()> {
        self.call(|state, id| state.send_datagram(id, to, bytes))
    }

    /// At least one datagram, and the number of those that found the buffer full so far.
    pub(crate) fn receive(&self, datagrams_max: usize) -> io::Result<(Vec<Arrived>, u32)> {
        self.call(|state, id| state.receive_datagrams(id, datagrams_max))
    }

    pub(crate) fn set_receive_buffer(&self, bytes: usize) -> io::Result<()> {
        self.call(|state, id| {
            state.set_receive_buffer(id, bytes);
            Ok(())
        })
    }

    pub(crate) fn receive_buffer_bytes(&self) -> io::Result<usize> {
        self.call(|state, id| Ok(state.receive_buffer_bytes(id)))
    }
}
