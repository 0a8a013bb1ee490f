//! TCP: connections, their packets and their faults. The calls of programs are in `calls`.

mod calls;

use std::{
    collections::VecDeque,
    io::{self, Read},
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use freeboard_meter::clock;

use crate::poller::Ready;

use super::{
    link::ns,
    network::{Key, State, is_at},
    watcher::Watch,
};

/// The first packet of a connection is sent again after this time if the accept queue is full.
const SYN_AGAIN: Duration = Duration::from_secs(1);
/// The first retransmission after a partition comes within this time at least.
const RETRANSMIT_MIN: Duration = Duration::from_millis(200);
/// Retransmissions are at most so far from each other.
const RETRANSMIT_MAX: Duration = Duration::from_secs(120);
/// The bytes of a packet besides its data, for the rate of a link.
const HEADER_BYTES: usize = 40;

/// One side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SideOf {
    pub(super) connection: u64,
    /// 0 for the side that connected.
    side: usize,
}

impl SideOf {
    fn other(self) -> Self {
        Self {
            side: 1 - self.side,
            ..self
        }
    }
}

/// A listening socket.
pub(super) struct Listening {
    pub(super) host: IpAddr,
    address: SocketAddr,
    backlog: usize,
    /// Connections that wait to be accepted.
    pub(super) pending: VecDeque<u64>,
    pub(super) watch: Option<Watch>,
}

/// What a host knows about its side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing: not yet or no longer.
    Absent,
    Connecting,
    /// A socket, accepted or not.
    Open,
    /// The program has closed it, and the rest is sent.
    Closed,
}

#[derive(Debug)]
enum Packet {
    Syn,
    SynAck,
    Data(Vec<u8>),
    Fin,
    Rst,
}

/// The packets to the other side.
#[derive(Debug, Default)]
struct Pipe {
    /// Bytes of the send buffer that are not under way.
    unsent: VecDeque<u8>,
    /// In their order. Each has an event, which delivers the first of them.
    in_flight: VecDeque<Packet>,
    in_flight_bytes: usize,
    /// When the last of them arrives.
    last_due_ns: u64,
    /// Events of an earlier number are void.
    epoch: u64,
    /// Since when nothing arrives.
    stalled_ns: Option<u64>,
    /// The program sends no more.
    is_shut: bool,
    is_fin_sent: bool,
    is_fin_delivered: bool,
}

impl Pipe {
    fn queued(&self) -> usize {
        self.unsent.len() + self.in_flight_bytes
    }

    /// Discards all packets.
    fn clear(&mut self) {
        self.unsent.clear();
        self.in_flight.clear();
        self.in_flight_bytes = 0;
        self.stalled_ns = None;
        self.epoch += 1;
    }

    fn is_empty(&self) -> bool {
        self.unsent.is_empty() && self.in_flight.is_empty() && (!self.is_shut || self.is_fin_sent)
    }
}

pub(super) struct Side {
    host: IpAddr,
    address: SocketAddr,
    phase: Phase,
    received: VecDeque<u8>,
    has_fin: bool,
    /// It broke: `error` says why, until it is reported.
    is_broken: bool,
    error: Option<io::ErrorKind>,
    /// A write would have blocked: the writer is told when there is space.
    wants_space: bool,
    resets_on_close: bool,
    to_other: Pipe,
    pub(super) watch: Option<Watch>,
}

impl Side {
    fn new(host: IpAddr, address: SocketAddr, phase: Phase) -> Self {
        Self {
            host,
            address,
            phase,
            received: VecDeque::new(),
            has_fin: false,
            is_broken: false,
            error: None,
            wants_space: false,
            resets_on_close: false,
            to_other: Pipe::default(),
            watch: None,
        }
    }

    /// Whether its host would answer data with a reset.
    fn is_unknown(&self) -> bool {
        self.phase == Phase::Absent || self.is_broken
    }

    /// Not before it is connected, not after it broke, and not after both sides have ended.
    fn is_connected(&self) -> bool {
        let is_over = self.has_fin && self.to_other.is_fin_delivered;
        self.phase == Phase::Open && !self.is_broken && !is_over
    }

    /// Linux reports space when at least a third of the buffer is free.
    fn has_space(&self, send_buffer_bytes: usize) -> bool {
        let queued = self.to_other.queued();
        send_buffer_bytes.saturating_sub(queued) >= queued.div_ceil(2).max(1)
    }
}

pub(super) struct Connection {
    sides: [Side; 2],
    /// No packet arrives any more.
    is_silenced: bool,
}

impl State {
    pub(super) fn side(&self, of: SideOf) -> Option<&Side> {
        Some(&self.connections.get(&of.connection)?.sides[of.side])
    }

    pub(super) fn side_mut(&mut self, of: SideOf) -> Option<&mut Side> {
        Some(&mut self.connections.get_mut(&of.connection)?.sides[of.side])
    }

    fn is_listening(&self, host: IpAddr, address: SocketAddr) -> bool {
        let mut own = self.listeners.values().filter(|it| it.host == host);
        own.any(|it| {
            it.address.port() == address.port()
                && (is_at(it.address.ip(), address.ip()) || address.ip().is_unspecified())
        })
    }

    fn name_of(&self, of: SideOf) -> String {
        let name = |of| {
            self.side(of)
                .map_or_else(String::new, |side| side.address.to_string())
        };
        format!("{} -> {}", name(of), name(of.other()))
    }

    fn note_packet(&mut self, from: SideOf, what: &str) {
        let name = self.name_of(from);
        self.note(|| format!("{name} {what}"));
    }

    /// Sends a packet to the other side.
    fn transmit(&mut self, from: SideOf, packet: Packet) {
        let other = self.side(from.other()).map(|side| side.host);
        let (Some(side), Some(to)) = (self.side(from), other) else {
            return;
        };
        let here = side.host;
        let bytes = match &packet {
            Packet::Data(bytes) => bytes.len(),
            _ => 0,
        };
        let is_stalled = side.to_other.stalled_ns.is_some();
        let due_ns = match is_stalled {
            true => 0,
            false => self.send(here, to, bytes + HEADER_BYTES),
        };
        let Some(side) = self.side_mut(from) else {
            return;
        };
        let pipe = &mut side.to_other;
        pipe.in_flight_bytes += bytes;
        pipe.in_flight.push_back(packet);
        if !is_stalled {
            pipe.last_due_ns = due_ns.max(pipe.last_due_ns + 1);
            let due_ns = pipe.last_due_ns;
            self.schedule(from, due_ns);
        }
    }

    /// The first packet of a side arrives at a time.
    fn schedule(&mut self, from: SideOf, due_ns: u64) {
        let Some(epoch) = self.side(from).map(|side| side.to_other.epoch) else {
            return;
        };
        self.call_at(due_ns, "packet", move |state| state.arrive(from, epoch));
    }

    /// The first packet of a side arrives, or does not.
    fn arrive(&mut self, from: SideOf, epoch: u64) {
        let Some(connection) = self.connections.get(&from.connection) else {
            return;
        };
        let (here, to) = (&connection.sides[from.side], from.other());
        if here.to_other.epoch != epoch || here.to_other.stalled_ns.is_some() {
            return;
        }
        if !self.is_open_way(from) {
            return self.stall(from);
        }
        let Some(side) = self.side_mut(from) else {
            return;
        };
        let Some(packet) = side.to_other.in_flight.pop_front() else {
            return;
        };
        match packet {
            Packet::Syn => self.take_syn(from),
            Packet::SynAck => {
                self.note_packet(from, "connected");
                match self.side_mut(to) {
                    Some(side) if side.phase == Phase::Connecting => {
                        side.phase = Phase::Open;
                        self.notify(Key::Side(to));
                    }
                    _ => self.refuse(to),
                }
            }
            Packet::Data(bytes) => self.take_data(from, bytes),
            Packet::Fin => self.take_fin(from),
            Packet::Rst => {
                self.note_packet(from, "reset");
                let why = self.side(to).map(|side| (side.phase, side.has_fin));
                let why = match why {
                    Some((Phase::Connecting, _)) => io::ErrorKind::ConnectionRefused,
                    Some((_, true)) => io::ErrorKind::BrokenPipe,
                    _ => io::ErrorKind::ConnectionReset,
                };
                self.fail(to, why);
            }
        }
        self.pump(from);
        self.remove_if_over(from.connection);
    }

    /// Whether packets of a side arrive.
    fn is_open_way(&self, from: SideOf) -> bool {
        let Some(connection) = self.connections.get(&from.connection) else {
            return false;
        };
        let [here, there] = [from, from.other()].map(|of| connection.sides[of.side].host);
        let is_reachable = |host: &super::host::HostState| host.is_reachable();
        !connection.is_silenced
            && !self.is_cut(here, there)
            && self.hosts.get(&there).is_some_and(is_reachable)
    }

    /// Nothing arrives: the side waits, and gives up in the end.
    fn stall(&mut self, from: SideOf) {
        self.note_packet(from, "lost");
        let Some(side) = self.side_mut(from) else {
            return;
        };
        if side.is_unknown() {
            // Nobody sends these again.
            side.to_other.clear();
            return self.remove_if_over(from.connection);
        }
        let now_ns = clock::now_ns();
        side.to_other.stalled_ns = Some(now_ns);
        side.to_other.epoch += 1;
        let epoch = side.to_other.epoch;
        if side.phase == Phase::Connecting {
            // The attempt has a timeout of its own.
            return;
        }
        let due_ns = now_ns.saturating_add(ns(self.settings.retransmit_time));
        self.call_at(due_ns, "retransmission timeout", move |state| {
            let pipe = state.side(from).map(|side| &side.to_other);
            if pipe.is_some_and(|it| it.epoch == epoch && it.stalled_ns.is_some()) {
                state.note_packet(from, "gives up");
                state.fail(from, io::ErrorKind::TimedOut);
                state.remove_if_over(from.connection);
            }
        });
    }

    /// Sends again what has waited and can arrive now.
    pub(super) fn resume_all(&mut self) {
        let ids: Vec<_> = self.connections.keys().copied().collect();
        for connection in ids {
            for side in 0..2 {
                let of = SideOf { connection, side };
                let stalled_ns = self.side(of).and_then(|side| side.to_other.stalled_ns);
                if let Some(stalled_ns) = stalled_ns
                    && self.is_open_way(of)
                {
                    self.resume(of, stalled_ns);
                }
            }
        }
    }

    fn resume(&mut self, from: SideOf, stalled_ns: u64) {
        let now_ns = clock::now_ns();
        let waited_ns = (now_ns - stalled_ns).clamp(ns(RETRANSMIT_MIN), ns(RETRANSMIT_MAX));
        let mut due_ns = now_ns + self.random.below_u64(waited_ns);
        let Some(side) = self.side_mut(from) else {
            return;
        };
        let pipe = &mut side.to_other;
        pipe.stalled_ns = None;
        pipe.epoch += 1;
        let packets = pipe.in_flight.len();
        for _ in 0..packets {
            due_ns += 1;
            self.schedule(from, due_ns);
        }
        if let Some(side) = self.side_mut(from) {
            side.to_other.last_due_ns = due_ns;
        }
        self.pump(from);
    }

    /// A connection attempt arrives at the other side's host.
    fn take_syn(&mut self, from: SideOf) {
        let to = from.other();
        let Some(side) = self.side(to) else {
            return;
        };
        let (host, address) = (side.host, side.address);
        let mut listeners = self.listeners.iter_mut().filter(|(_, it)| {
            it.host == host
                && it.address.port() == address.port()
                && is_at(it.address.ip(), address.ip())
        });
        let Some((id, listening)) = listeners.next() else {
            self.note_packet(from, "refused");
            return self.refuse(to);
        };
        let key = Key::Listener(*id);
        if listening.pending.len() >= listening.backlog {
            self.note_packet(from, "waits: the accept queue is full");
            if let Some(side) = self.side_mut(from) {
                side.to_other.in_flight.push_front(Packet::Syn);
            }
            return self.schedule(from, clock::now_ns() + ns(SYN_AGAIN));
        }
        listening.pending.push_back(from.connection);
        self.note_packet(from, "connects");
        if let Some(side) = self.side_mut(to) {
            side.phase = Phase::Open;
        }
        self.notify(key);
        self.transmit(to, Packet::SynAck);
    }

    fn take_data(&mut self, from: SideOf, bytes: Vec<u8>) {
        let to = from.other();
        let count = bytes.len();
        let send_buffer_bytes = self.settings.send_buffer_bytes;
        let Some(side) = self.side_mut(from) else {
            return;
        };
        side.to_other.in_flight_bytes -= count;
        if side.wants_space && side.has_space(send_buffer_bytes) {
            side.wants_space = false;
            self.notify(Key::Side(from));
        }
        match self.side_mut(to) {
            Some(side) if side.phase == Phase::Open && !side.is_broken => {
                side.received.extend(bytes);
                self.notify(Key::Side(to));
                self.note_packet(from, &format!("{count} bytes"));
            }
            _ => {
                self.note_packet(from, &format!("{count} bytes to a closed socket"));
                self.refuse(to);
            }
        }
    }

    fn take_fin(&mut self, from: SideOf) {
        let to = from.other();
        self.note_packet(from, "end");
        if let Some(side) = self.side_mut(from) {
            side.to_other.is_fin_delivered = true;
            self.notify(Key::Side(from));
        }
        match self.side_mut(to) {
            Some(side) if side.is_unknown() => self.refuse(to),
            Some(side) => {
                side.has_fin = true;
                self.notify(Key::Side(to));
            }
            None => {}
        }
    }

    /// A side answers with a reset, and knows the connection no longer.
    fn refuse(&mut self, of: SideOf) {
        let Some(side) = self.side_mut(of) else {
            return;
        };
        if side.phase == Phase::Closed {
            side.phase = Phase::Absent;
        }
        let pipe = &mut side.to_other;
        if pipe.stalled_ns.is_some() {
            // The reset would be lost, too.
            return pipe.clear();
        }
        pipe.unsent.clear();
        if !matches!(pipe.in_flight.back(), Some(Packet::Rst)) {
            self.transmit(of, Packet::Rst);
        }
    }

    /// A side breaks.
    fn fail(&mut self, of: SideOf, why: io::ErrorKind) {
        let Some(side) = self.side_mut(of) else {
            return;
        };
        match side.phase {
            Phase::Absent => side.to_other.clear(),
            Phase::Closed => {
                side.phase = Phase::Absent;
                side.to_other.clear();
            }
            Phase::Connecting | Phase::Open if !side.is_broken => {
                side.phase = Phase::Open;
                side.is_broken = true;
                side.error = Some(why);
                side.to_other.clear();
                self.notify(Key::Side(of));
            }
            Phase::Connecting | Phase::Open => {}
        }
    }

    /// Closes a side with a reset.
    fn abort(&mut self, of: SideOf) {
        let Some(side) = self.side_mut(of) else {
            return;
        };
        // A connection that both sides have ended is over already.
        let tells_peer = side.is_connected();
        side.phase = Phase::Absent;
        side.received.clear();
        side.watch = None;
        if tells_peer {
            self.refuse(of);
        }
        self.remove_if_over(of.connection);
    }

    /// Sends as much as the window allows.
    fn pump(&mut self, from: SideOf) {
        loop {
            let (window, largest) = (
                self.settings.receive_buffer_bytes,
                self.settings.segment_bytes.max(1),
            );
            let other = self.side(from.other());
            let unread = other.map_or(0, |side| side.received.len());
            let Some(side) = self.side(from) else {
                return;
            };
            let pipe = &side.to_other;
            let is_connected = matches!(side.phase, Phase::Open | Phase::Closed);
            if pipe.stalled_ns.is_some() || !is_connected || side.is_broken {
                return;
            }
            if pipe.unsent.is_empty() {
                if pipe.is_shut && !pipe.is_fin_sent {
                    if let Some(side) = self.side_mut(from) {
                        side.to_other.is_fin_sent = true;
                    }
                    self.transmit(from, Packet::Fin);
                }
                return;
            }
            let open = window.saturating_sub(pipe.in_flight_bytes + unread);
            let wanted = pipe.unsent.len().min(largest);
            // As in TCP, small windows are not used.
            if open < wanted && open < window / 2 {
                return;
            }
            let (here, there) = (side.host, other.map_or(side.host, |side| side.host));
            let settings = self.link_settings(here, there);
            let mut count = wanted.min(open);
            if self.random.is_one_of(settings.split_ppm) {
                count = 1 + self.random.below(count);
            }
            let is_breaking = self.random.is_one_of(settings.break_ppm);
            let Some(side) = self.side_mut(from) else {
                return;
            };
            let mut bytes = vec![0; count];
            if side.to_other.unsent.read_exact(&mut bytes).is_err() {
                return;
            }
            self.transmit(from, Packet::Data(bytes));
            if is_breaking {
                match self.random.below(2) {
                    0 => self.reset_both(from.connection),
                    _ => self.silence(from.connection),
                }
            }
        }
    }

    fn remove_if_over(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        for side in &mut connection.sides {
            let is_sent = side.to_other.is_empty() && side.to_other.is_fin_delivered;
            if side.phase == Phase::Closed && is_sent && side.has_fin {
                side.phase = Phase::Absent;
            }
        }
        let is_over = |side: &Side| {
            let is_gone = side.phase == Phase::Absent || side.phase == Phase::Closed;
            let pipe = &side.to_other;
            is_gone && (pipe.is_empty() || pipe.stalled_ns.is_some() && connection.is_silenced)
        };
        if connection.sides.iter().all(is_over) {
            self.connections.remove(&id);
        }
    }

    pub(super) fn connections_between(&self, a: IpAddr, b: IpAddr) -> Vec<u64> {
        let is_between = |connection: &Connection| {
            let [first, second] = connection.sides.each_ref().map(|side| side.host);
            (first, second) == (a, b) || (first, second) == (b, a)
        };
        let found = self.connections.iter().filter(|(_, it)| is_between(it));
        found.map(|(id, _)| *id).collect()
    }

    /// Both sides get a reset, each after its delay.
    pub(super) fn reset_both(&mut self, connection: u64) {
        for side in 0..2 {
            let of = SideOf { connection, side };
            let hosts = [of, of.other()].map(|of| self.side(of).map(|side| side.host));
            let [Some(host), Some(other)] = hosts else {
                return;
            };
            let due_ns = self.send(other, host, HEADER_BYTES);
            self.call_at(due_ns, "reset", move |state| {
                state.note_packet(of, "is broken");
                state.fail(of, io::ErrorKind::ConnectionReset);
                state.remove_if_over(connection);
            });
        }
    }

    pub(super) fn silence(&mut self, connection: u64) {
        if let Some(it) = self.connections.get_mut(&connection) {
            it.is_silenced = true;
            self.note_packet(
                SideOf {
                    connection,
                    side: 0,
                },
                "is half-open",
            );
        }
    }

    /// A host forgets its sides.
    pub(super) fn forget_connections(&mut self, host: IpAddr) {
        for connection in self.connections.values_mut() {
            for side in connection.sides.iter_mut().filter(|it| it.host == host) {
                let epoch = side.to_other.epoch + 1;
                *side = Side::new(host, side.address, Phase::Absent);
                side.to_other.epoch = epoch;
            }
        }
        let ids: Vec<_> = self.connections.keys().copied().collect();
        ids.into_iter().for_each(|id| self.remove_if_over(id));
    }

    pub(super) fn side_readiness(&self, of: SideOf) -> u8 {
        let Some(side) = self.side(of) else {
            return 0;
        };
        if side.phase == Phase::Connecting {
            return 0;
        }
        let pipe = &side.to_other;
        if side.is_broken || side.has_fin && pipe.is_shut {
            return Ready::READ | Ready::WRITE | Ready::READ_CLOSED | Ready::ERROR;
        }
        let mut ready = 0;
        if side.has_fin {
            ready |= Ready::READ | Ready::READ_CLOSED;
        }
        if !side.received.is_empty() {
            ready |= Ready::READ;
        }
        if pipe.is_shut || side.has_space(self.settings.send_buffer_bytes) {
            ready |= Ready::WRITE;
        }
        ready
    }
}
