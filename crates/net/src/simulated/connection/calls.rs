//! The calls of a program on TCP sockets.

use std::{
    collections::VecDeque,
    io::{self, Read},
    net::{Shutdown, SocketAddr},
};

use freeboard_meter::clock;

use crate::simulated::{
    host::Host,
    link::ns,
    network::{Key, Network, State},
    socket::{SimulatedListener, SimulatedStream, SocketHandle},
};

use super::{Connection, Listening, Packet, Phase, Side, SideOf};

impl Network {
    pub(in crate::simulated) fn connect(
        &self,
        host: &Host,
        to: SocketAddr,
    ) -> io::Result<SimulatedStream> {
        let mut state = self.lock();
        let own = match to.ip() {
            ip if ip.to_canonical().is_loopback() => ip,
            _ => host.ip,
        };
        let is_taken = |state: &State, address| state.is_listening(host.ip, address);
        let from = state.choose_address(host, (own, 0).into(), is_taken)?;
        let connection = state.next_id();
        let there = State::host_of(to.ip(), host.ip);
        let to = match to.ip().is_unspecified() {
            true => (host.ip, to.port()).into(),
            false => to,
        };
        let sides = [
            Side::new(host.ip, from, Phase::Connecting),
            Side::new(there, to, Phase::Absent),
        ];
        let of = SideOf {
            connection,
            side: 0,
        };
        state.connections.insert(
            connection,
            Connection {
                sides,
                is_silenced: false,
            },
        );
        state.transmit(of, Packet::Syn);
        let due_ns = clock::now_ns().saturating_add(ns(state.settings.connect_time));
        state.call_at(due_ns, "connect timeout", move |state| {
            if state
                .side(of)
                .is_some_and(|side| side.phase == Phase::Connecting)
            {
                state.fail(of, io::ErrorKind::TimedOut);
            }
        });
        Ok(SimulatedStream(self.handle(&state, Key::Side(of))))
    }

    fn handle(&self, state: &State, key: Key) -> SocketHandle {
        SocketHandle::new(state.weak(), key)
    }

    pub(in crate::simulated) fn listen(
        &self,
        host: &Host,
        address: SocketAddr,
        backlog: u16,
    ) -> io::Result<(SimulatedListener, SocketAddr)> {
        let mut state = self.lock();
        let is_taken = |state: &State, address| state.is_listening(host.ip, address);
        let address = state.choose_address(host, address, is_taken)?;
        let id = state.next_id();
        let listening = Listening {
            host: host.ip,
            address,
            backlog: usize::from(backlog).max(1),
            pending: VecDeque::new(),
            watch: None,
        };
        state.listeners.insert(id, listening);
        let handle = self.handle(&state, Key::Listener(id));
        Ok((SimulatedListener(handle), address))
    }

    pub(in crate::simulated) fn accept(
        &self,
        key: Key,
    ) -> io::Result<(SimulatedStream, SocketAddr)> {
        let mut state = self.lock();
        let Key::Listener(id) = key else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let listening = state.listeners.get_mut(&id);
        let listening = listening.ok_or(io::ErrorKind::NetworkDown)?;
        let connection = listening.pending.pop_front();
        let connection = connection.ok_or(io::ErrorKind::WouldBlock)?;
        let of = SideOf {
            connection,
            side: 1,
        };
        let peer = state.side(of.other()).map(|side| side.address);
        let peer = peer.ok_or(io::ErrorKind::ConnectionAborted)?;
        Ok((SimulatedStream(self.handle(&state, Key::Side(of))), peer))
    }

    pub(in crate::simulated) fn close_listener(&self, id: u64) {
        let mut state = self.lock();
        let closed = state.listeners.remove(&id);
        for connection in closed.into_iter().flat_map(|it| it.pending) {
            state.abort(SideOf {
                connection,
                side: 1,
            });
        }
    }
}

impl State {
    /// The side of a socket, unless its host has crashed.
    fn open_side(&mut self, of: SideOf) -> io::Result<&mut Side> {
        let side = self.side_mut(of).filter(|side| side.phase != Phase::Absent);
        side.ok_or_else(|| io::ErrorKind::NetworkDown.into())
    }

    pub(in crate::simulated) fn read(
        &mut self,
        of: SideOf,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        let side = self.open_side(of)?;
        let count = side.received.len().min(buffer.len());
        if count > 0 {
            side.received.read_exact(&mut buffer[..count])?;
            self.pump(of.other());
            return Ok(count);
        }
        // An end that came before a reset is still an end; writes report the error.
        if !side.has_fin
            && let Some(error) = side.error.take()
        {
            return Err(error.into());
        }
        match side.is_broken || side.has_fin {
            true => Ok(0),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    pub(in crate::simulated) fn write(
        &mut self,
        of: SideOf,
        slices: &[io::IoSlice<'_>],
    ) -> io::Result<usize> {
        let send_buffer_bytes = self.settings.send_buffer_bytes;
        let side = self.open_side(of)?;
        if let Some(error) = side.error.take() {
            return Err(error.into());
        }
        if side.is_broken || side.to_other.is_shut {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut space = send_buffer_bytes.saturating_sub(side.to_other.queued());
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        // Less than asked for: the next write blocks, and its writer waits for space.
        side.wants_space |= total > space;
        if side.phase == Phase::Connecting || space == 0 && total > 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut count = 0;
        for slice in slices {
            let piece = &slice[..slice.len().min(space)];
            side.to_other.unsent.extend(piece);
            space -= piece.len();
            count += piece.len();
        }
        self.pump(of);
        Ok(count)
    }

    pub(in crate::simulated) fn shutdown(&mut self, of: SideOf, how: Shutdown) -> io::Result<()> {
        let side = self.open_side(of)?;
        if !side.is_connected() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        if how != Shutdown::Write {
            return Err(io::ErrorKind::Unsupported.into());
        }
        side.to_other.is_shut = true;
        self.pump(of);
        Ok(())
    }

    pub(in crate::simulated) fn take_error(&mut self, of: SideOf) -> io::Result<Option<io::Error>> {
        Ok(self.open_side(of)?.error.take().map(Into::into))
    }

    pub(in crate::simulated) fn is_connected(&mut self, of: SideOf) -> io::Result<()> {
        let side = self.open_side(of)?;
        match side.is_connected() {
            true => Ok(()),
            false => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    pub(in crate::simulated) fn set_reset_on_close(&mut self, of: SideOf) {
        if let Some(side) = self.side_mut(of) {
            side.resets_on_close = true;
        }
    }

    /// The program closes its socket.
    pub(in crate::simulated) fn close(&mut self, of: SideOf) {
        let Some(side) = self.side_mut(of) else {
            return;
        };
        side.watch = None;
        let is_graceful = side.phase == Phase::Open
            && !side.is_broken
            && !side.resets_on_close
            && side.received.is_empty();
        if !is_graceful {
            return self.abort(of);
        }
        side.phase = Phase::Closed;
        side.to_other.is_shut = true;
        self.pump(of);
        self.remove_if_over(of.connection);
    }

    pub(in crate::simulated) fn unread(&self, of: SideOf) -> usize {
        self.side(of).map_or(0, |side| side.received.len())
    }

    pub(in crate::simulated) fn describe(&self, of: SideOf) -> String {
        self.name_of(of)
    }
}
