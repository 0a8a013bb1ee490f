//! UDP.

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, SocketAddr},
};

use bytes::Bytes;

use super::{
    host::Host,
    network::{Key, Network, State, is_at},
    socket::{SimulatedDatagrams, SocketHandle},
    watcher::Watch,
};

/// The receive buffer of a socket in bytes by default, as on Linux.
const RECEIVE_BUFFER_BYTES: usize = 208 << 10;
/// What a received datagram takes of the buffer besides its bytes.
const OVERHEAD_BYTES: usize = 256;
/// The largest datagram.
const DATAGRAM_BYTES_MAX: usize = 65_507;
/// The bytes of a packet besides its data, for the rate of a link.
const HEADER_BYTES: usize = 28;
/// A late datagram has so many times the largest delay, and at least a millisecond more.
const LATE_DELAYS: u64 = 4;
const LATE_MIN_NS: u64 = 1_000_000;

/// A datagram under way.
#[derive(Clone, Debug)]
pub(super) struct Datagram {
    from: SocketAddr,
    /// The sender's and the receiver's host.
    hosts: [IpAddr; 2],
    to: SocketAddr,
    bytes: Bytes,
}

/// A received datagram.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    pub(crate) from: SocketAddr,
    pub(crate) bytes: Bytes,
}

/// A bound socket.
pub(super) struct DatagramPort {
    pub(super) host: IpAddr,
    address: SocketAddr,
    received: VecDeque<Arrived>,
    buffer_bytes: usize,
    buffer_bytes_max: usize,
    /// Datagrams that found the buffer full.
    dropped: u32,
    pub(super) watch: Option<Watch>,
}

impl DatagramPort {
    pub(super) fn is_empty(&self) -> bool {
        self.received.is_empty()
    }
}

impl Network {
    pub(super) fn bind_datagrams(
        &self,
        host: &Host,
        address: SocketAddr,
    ) -> io::Result<(SimulatedDatagrams, SocketAddr)> {
        let mut state = self.lock();
        let is_taken = |state: &State, address: SocketAddr| {
            let mut own = state.datagrams.values().filter(|it| it.host == host.ip);
            own.any(|it| {
                it.address.port() == address.port()
                    && (is_at(it.address.ip(), address.ip()) || address.ip().is_unspecified())
            })
        };
        let address = state.choose_address(host, address, is_taken)?;
        let id = state.next_id();
        let port = DatagramPort {
            host: host.ip,
            address,
            received: VecDeque::new(),
            buffer_bytes: 0,
            buffer_bytes_max: RECEIVE_BUFFER_BYTES,
            dropped: 0,
            watch: None,
        };
        state.datagrams.insert(id, port);
        let handle = SocketHandle::new(state.weak(), Key::Datagrams(id));
        Ok((SimulatedDatagrams(handle), address))
    }
}

impl State {
    pub(super) fn send_datagram(
        &mut self,
        id: u64,
        to: SocketAddr,
        bytes: &Bytes,
    ) -> io::Result<()> {
        let port = self.datagrams.get(&id).ok_or(io::ErrorKind::NetworkDown)?;
        if bytes.len() > DATAGRAM_BYTES_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let here = port.host;
        let there = Self::host_of(to.ip(), here);
        let mut from = port.address;
        if from.ip().is_unspecified() {
            from.set_ip(if to.ip().is_loopback() { to.ip() } else { here });
        }
        let datagram = Datagram {
            from,
            hosts: [here, there],
            to,
            bytes: bytes.clone(),
        };
        let settings = self.link_settings(here, there);
        if self.random.is_one_of(settings.datagram_loss_ppm) {
            self.note_datagram(&datagram, ": lost");
            return Ok(());
        }
        let copies = 1 + usize::from(self.random.is_one_of(settings.datagram_copy_ppm));
        for _ in 0..copies {
            let due_ns = self.send(here, there, bytes.len() + HEADER_BYTES);
            let due_ns = if self.random.is_one_of(settings.datagram_late_ppm) {
                let delay_ns = super::link::ns(settings.delay_max);
                let more_ns = delay_ns.saturating_mul(LATE_DELAYS).max(LATE_MIN_NS);
                due_ns + self.random.below_u64(more_ns)
            } else {
                self.link_mut(here, there).after_earlier(due_ns)
            };
            let datagram = datagram.clone();
            self.call_at(due_ns, "datagram", |state| state.deliver_datagram(datagram));
        }
        Ok(())
    }

    fn note_datagram(&mut self, datagram: &Datagram, what: &str) {
        let Datagram {
            from, to, bytes, ..
        } = datagram;
        self.note(|| format!("{from} -> {to} datagram of {} bytes{what}", bytes.len()));
    }

    /// A datagram arrives, or is lost.
    pub(super) fn deliver_datagram(&mut self, datagram: Datagram) {
        let [here, there] = datagram.hosts;
        let host = self.hosts.get_mut(&there).filter(|host| host.is_up);
        let Some(host) = host else {
            return self.note_datagram(&datagram, ": no such host");
        };
        if host.is_paused {
            return host.held.push(datagram);
        }
        if self.is_cut(here, there) {
            return self.note_datagram(&datagram, ": lost");
        }
        let port = self.datagrams.iter_mut().find(|(_, it)| {
            it.host == there
                && it.address.port() == datagram.to.port()
                && is_at(it.address.ip(), datagram.to.ip())
        });
        let Some((id, port)) = port else {
            return self.note_datagram(&datagram, ": no such port");
        };
        let key = Key::Datagrams(*id);
        let bytes = datagram.bytes.len() + OVERHEAD_BYTES;
        if port.buffer_bytes + bytes > port.buffer_bytes_max {
            port.dropped = port.dropped.wrapping_add(1);
            return self.note_datagram(&datagram, ": the buffer is full");
        }
        port.buffer_bytes += bytes;
        port.received.push_back(Arrived {
            from: datagram.from,
            bytes: datagram.bytes.clone(),
        });
        self.note_datagram(&datagram, "");
        self.notify(key);
    }

    /// At most so many datagrams, and the number of those dropped so far.
    pub(super) fn receive_datagrams(
        &mut self,
        id: u64,
        datagrams_max: usize,
    ) -> io::Result<(Vec<Arrived>, u32)> {
        let port = self.datagrams.get_mut(&id);
        let port = port.ok_or(io::ErrorKind::NetworkDown)?;
        let count = port.received.len().min(datagrams_max);
        if count == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let received: Vec<_> = port.received.drain(..count).collect();
        let sizes = received.iter().map(|it| it.bytes.len() + OVERHEAD_BYTES);
        port.buffer_bytes -= sizes.sum::<usize>();
        Ok((received, port.dropped))
    }

    pub(super) fn set_receive_buffer(&mut self, id: u64, bytes: usize) {
        if let Some(port) = self.datagrams.get_mut(&id) {
            port.buffer_bytes_max = bytes;
        }
    }

    pub(super) fn receive_buffer_bytes(&self, id: u64) -> usize {
        self.datagrams.get(&id).map_or(0, |it| it.buffer_bytes_max)
    }
}
