//! Clients open connections to a server and send datagrams, while connections break, links are slow, and nodes crash.
//!
//! Both sides of a connection write numbered bytes, and grant credit late. It holds: the bytes arrive in order and without
//! gaps; an end of the stream comes only behind all bytes; each connection has one first and one last event; no more
//! arrives than the credit allows; a datagram is one that was sent. Afterwards new connections work.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::LazyLock,
    time::Duration,
};

use freeboard::{
    ActorRef,
    net::{
        datagram::{DatagramActor, DatagramOptions, DatagramSocket, Received, SendTo},
        simulated::LinkSettings,
        tcp::{
            Close, Connection, ConnectionEvent, ConnectionOptions, End, Event, Listener,
            ListenerOptions, Peer, ReadCredit, Write,
        },
    },
    prelude::*,
    sim::{FaultRates, Machine, Random, World},
};

use crate::record::{Mistakes, Record};

const RUN_TIME: Duration = Duration::from_secs(10);
/// Half-open connections are over after their idle time.
const IDLE_TIME: Duration = Duration::from_secs(15);
const SETTLE_TIME: Duration = Duration::from_secs(60);
/// A stream is written in about this time at most. The server has no place for another connection meanwhile.
const LONG_STREAM_MS: usize = 10_000;
/// All connections together, so that a run stays short.
const CONNECTIONS_MAX: usize = 6;
/// The server accepts no more at a time.
const OPEN_MAX: usize = 3;
const CREDIT: u32 = 3;
const SHORT_BYTES: usize = 8 << 10;
const READ_BYTES: usize = 16 << 10;
/// The bytes of one write at most.
const CHUNK_BYTES: usize = 60 << 10;
/// A closed connection's owner waits so long for an event that must not come.
const LINGER_TIME: Duration = Duration::from_secs(1);
const PORT: u16 = 7_000;
const DATAGRAM_CREDIT: u32 = 2;
const DATAGRAMS_MAX: usize = 4;
/// Datagrams of a client behind the faults.
const LAST_DATAGRAMS: u64 = 4;

/// The bytes repeat with a prime period, so that a gap of a round number of bytes shows.
const PERIOD: usize = 4_099;
static PATTERN: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let bytes = (0..PERIOD).map(|at| (at * at / 7) as u8);
    bytes.cycle().take(PERIOD + CHUNK_BYTES).collect()
});

/// The bytes of a stream from an offset on.
fn bytes_at(stream: usize, offset: usize, count: usize) -> &'static [u8] {
    let begin = (offset + stream * 131) % PERIOD;
    &PATTERN[begin..begin + count]
}

/// One direction of a connection.
type StreamKey = (usize, Side);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Client,
    Server,
}

impl Side {
    const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// What both sides of all connections have done, outside of their nodes.
#[derive(Debug, Default)]
struct Account {
    /// Connections begun.
    begun: usize,
    /// The bytes of each direction of a connection.
    bytes: BTreeMap<usize, usize>,
    written: BTreeMap<StreamKey, usize>,
    read: BTreeMap<StreamKey, usize>,
    /// Streams whose writer has ended them.
    ended: BTreeSet<StreamKey>,
    /// Streams that were read up to their end.
    whole: BTreeSet<StreamKey>,
    /// Streams whose connection was closed by its own side.
    left: BTreeSet<StreamKey>,
    /// Talkers that have had no last event, with the start of their node.
    open: BTreeSet<(String, u64, usize)>,
    datagrams_sent: BTreeMap<SocketAddr, u64>,
    /// How often each datagram came.
    datagrams_received: BTreeMap<(SocketAddr, u64), u64>,
}

#[derive(Clone)]
struct Shared {
    account: Record<Account>,
    mistakes: Mistakes,
    /// Bytes of a long stream, which fills the buffers of both sockets.
    bytes: usize,
    /// Bytes of a write.
    chunk: usize,
    period: Duration,
    /// Whether a datagram may arrive twice.
    may_copy: bool,
}

/// One end of a connection.
struct Talker {
    shared: Shared,
    side: Side,
    /// The node, and its start.
    place: (String, u64),
    /// Which connection it is; the server learns it from the first byte.
    id: Option<usize>,
    connection: Option<ActorRef<Connection>>,
    /// Whether it closes when it has written everything, or lets the other side go on.
    closes: bool,
    written: usize,
    read: usize,
    credit: u32,
    owed: u32,
    is_armed: bool,
    is_open: bool,
    is_closed: bool,
    is_pressed: bool,
    has_ended: bool,
}

impl Talker {
    fn new(
        shared: &Shared,
        side: Side,
        machine: &Machine,
        id: Option<usize>,
        closes: bool,
    ) -> Self {
        let mut talker = Self {
            shared: shared.clone(),
            side,
            place: (machine.host.ip().to_string(), machine.starts),
            id: None,
            connection: None,
            closes,
            written: 0,
            read: 0,
            credit: CREDIT,
            owed: 0,
            is_armed: false,
            is_open: false,
            is_closed: false,
            is_pressed: false,
            has_ended: false,
        };
        if let Some(id) = id {
            talker.learn(id);
        }
        talker
    }

    fn learn(&mut self, id: usize) {
        self.id = Some(id);
        let (node, start) = self.place.clone();
        self.shared.account.lock().open.insert((node, start, id));
    }

    /// For its mailbox: no event may wait for capacity, or the connection would be held up.
    fn options() -> SpawnOptions {
        SpawnOptions::new().lane(LaneConfig::bounded(64))
    }

    fn wrong(&self, what: &str) {
        let text = format!("connection {:?}, {:?}: {what}", self.id, self.side);
        self.shared.mistakes.note(text);
    }

    fn received(&mut self, bytes: &[u8]) {
        if self.credit == 0 {
            self.wrong("bytes without credit");
        }
        self.credit = self.credit.saturating_sub(1);
        self.owed += 1;
        let mut bytes = bytes;
        if self.read == 0 {
            let (first, others) = bytes.split_first().expect("at least a byte");
            let named = usize::from(*first);
            match self.id {
                None => self.learn(named),
                Some(id) if id == named => {}
                Some(_) => self.wrong("the bytes are those of another connection"),
            }
            self.read = 1;
            bytes = others;
        }
        let id = self.id.unwrap_or_default();
        let stream = (id, self.side.other());
        if bytes != bytes_at(id, self.read, bytes.len()) {
            self.wrong(&format!("other bytes than were written at {}", self.read));
        }
        self.read += bytes.len();
        let account = &mut *self.shared.account.lock();
        account.read.insert(stream, self.read);
        let written = account.written.get(&stream).copied().unwrap_or_default();
        if self.read > written {
            self.shared
                .mistakes
                .note(format!("{stream:?}: {} of {written} bytes", self.read));
        }
    }

    fn saw_end(&self) {
        let Some(id) = self.id else { return };
        let stream = (id, self.side.other());
        let account = &mut *self.shared.account.lock();
        let written = account.written.get(&stream).copied().unwrap_or_default();
        // A server that has read nothing does not know which connection it has left.
        let is_nameless = !account.read.contains_key(&(id, self.side));
        let has_ended =
            is_nameless || account.ended.contains(&stream) || account.left.contains(&stream);
        if !has_ended || self.read != written {
            let text = format!("{stream:?} ended after {} of {written} bytes", self.read);
            self.shared.mistakes.note(text);
        }
        account.whole.insert(stream);
    }

    fn write(&mut self) {
        let (Some(connection), Some(id)) = (&self.connection, self.id) else {
            return;
        };
        if !self.is_open || self.is_closed || self.is_pressed || self.has_ended {
            return;
        }
        let stream = (id, self.side);
        let all = self.shared.account.lock().bytes[&id];
        let count = (all - self.written).min(self.shared.chunk);
        if count > 0 {
            let mut bytes = bytes_at(id, self.written, count).to_vec();
            if self.written == 0 {
                bytes[0] = id as u8;
            }
            self.written += count;
            let account = &mut *self.shared.account.lock();
            account.written.insert(stream, self.written);
            // A connection that has just ended does not take it.
            let _ = connection.tell(Write(bytes.into()));
        }
        if self.written == all {
            self.has_ended = true;
            self.shared.account.lock().ended.insert(stream);
            // The writes before it may still be queued.
            let lane = Connection::CONTROL_LANE;
            let _ = match self.closes {
                true => connection.tell_lane(lane, Close).is_ok(),
                false => connection.tell_lane(lane, End).is_ok(),
            };
        }
    }

    fn grant(&mut self) {
        let owed = std::mem::take(&mut self.owed);
        if owed > 0
            && let Some(connection) = &self.connection
        {
            self.credit += owed;
            let lane = Connection::CONTROL_LANE;
            let _ = connection.tell_lane(lane, ReadCredit(owed));
        }
    }
}

impl Actor for Talker {}

impl Talker {
    /// Acts after a while, if there is something to do.
    fn arm(&mut self, cx: &mut Context<Self>) {
        let has_work = self.owed > 0 || !self.has_ended && self.id.is_some();
        if has_work && !self.is_closed && !self.is_armed {
            self.is_armed = true;
            cx.wake_after(self.shared.period, Self::tick)
                .expect("a timer");
        }
    }

    fn tick(&mut self, cx: &mut Context<Self>) {
        self.is_armed = false;
        self.write();
        self.grant();
        self.arm(cx);
    }
}

impl Handler<ConnectionEvent> for Talker {
    type Reply = ();

    fn handle(
        &mut self,
        ConnectionEvent { connection, event }: ConnectionEvent,
        cx: &mut Context<Self>,
    ) {
        self.connection = Some(connection);
        if self.is_closed {
            return self.wrong(&format!("{event:?} behind the last event"));
        }
        let is_first = !std::mem::replace(&mut self.is_open, true);
        match event {
            Event::Opened(_) if is_first => {}
            Event::Opened(_) => self.wrong("a second Opened"),
            Event::Closed(_) => {
                self.is_closed = true;
                // Another event would be a mistake.
                cx.wake_after(LINGER_TIME, |_, cx| cx.stop())
                    .expect("a timer");
                if let Some(id) = self.id {
                    let (node, start) = self.place.clone();
                    let account = &mut *self.shared.account.lock();
                    account.open.remove(&(node, start, id));
                    account.left.insert((id, self.side));
                }
            }
            _ if is_first => self.wrong("an event before Opened"),
            Event::Received(bytes) => self.received(&bytes),
            Event::Ended => self.saw_end(),
            Event::Pressure(is_pressed) => self.is_pressed = is_pressed,
            Event::Refused(_) => self.wrong("a write before the end was refused"),
        }
        self.arm(cx);
    }
}

/// Opens the connections of a node, and sends its datagrams.
struct Opener {
    shared: Shared,
    machine: Machine,
    server: SocketAddr,
    random: Random,
    socket: ActorRef<DatagramActor>,
    /// Of its datagram socket.
    address: SocketAddr,
}

/// Opens a connection, and sends datagrams.
#[derive(Clone, Copy)]
struct Open {
    datagrams: u64,
}

impl Actor for Opener {
    fn started(&mut self, cx: &mut Context<Self>) {
        cx.wake_after(self.random.time(RUN_TIME / 8), Self::open_next)
            .expect("a timer");
    }
}

impl Opener {
    fn open_next(&mut self, cx: &mut Context<Self>) {
        if self.shared.account.lock().begun < CONNECTIONS_MAX {
            self.open(2, cx);
            cx.wake_after(self.random.time(RUN_TIME / 4), Self::open_next)
                .expect("a timer");
        }
    }

    fn open(&mut self, datagrams: u64, cx: &mut Context<Self>) {
        let id = {
            let mut account = self.shared.account.lock();
            account.begun += 1;
            let id = account.begun;
            let bytes = match self.random.once_in(4) {
                true => self.shared.bytes,
                false => 1 + self.random.below(SHORT_BYTES),
            };
            account.bytes.insert(id, bytes);
            id
        };
        for _ in 0..datagrams {
            let number = {
                let mut account = self.shared.account.lock();
                let sent = account.datagrams_sent.entry(self.address).or_default();
                *sent += 1;
                *sent
            };
            let to = self.server;
            let bytes = number.to_be_bytes().to_vec().into();
            self.socket.tell(SendTo { to, bytes }).expect("it is alive");
        }
        // A close with unread bytes is a reset, and what is under way may be lost.
        let closes = datagrams < LAST_DATAGRAMS && self.random.once_in(3);
        let talker = Talker::new(&self.shared, Side::Client, &self.machine, Some(id), closes);
        let talker = cx.spawn_once(Talker::options(), talker);
        let owner = talker.expect("valid options").recipient();
        let opened = Connection::connect(
            &cx.system(),
            &self.machine.poller,
            self.server,
            options(),
            owner,
        );
        opened.expect("a connection attempt");
    }
}

impl Handler<Open> for Opener {
    type Reply = ();

    fn handle(&mut self, Open { datagrams }: Open, cx: &mut Context<Self>) {
        self.open(datagrams, cx);
    }
}

fn options() -> ConnectionOptions {
    ConnectionOptions {
        credit: CREDIT,
        read_bytes: READ_BYTES,
        idle_time: Some(IDLE_TIME),
        ..ConnectionOptions::default()
    }
}

fn datagram_options() -> DatagramOptions {
    DatagramOptions {
        credit: DATAGRAM_CREDIT,
        datagrams_max: DATAGRAMS_MAX,
        datagram_bytes: 64,
        ..DatagramOptions::default()
    }
}

/// Receives the server's datagrams, and grants credit late.
struct DatagramReader {
    shared: Shared,
    credit: u32,
    owed: u32,
    socket: Option<ActorRef<DatagramActor>>,
}

impl Actor for DatagramReader {}

impl DatagramReader {
    fn grant(&mut self, _: &mut Context<Self>) {
        let owed = std::mem::take(&mut self.owed);
        if owed > 0
            && let Some(socket) = &self.socket
        {
            self.credit += owed;
            let lane = DatagramActor::CONTROL_LANE;
            let _ = socket.tell_lane(lane, ReadCredit(owed));
        }
    }
}

impl Handler<Received> for DatagramReader {
    type Reply = ();

    fn handle(&mut self, received: Received, cx: &mut Context<Self>) {
        cx.wake_after(self.shared.period, Self::grant)
            .expect("a timer");
        let Shared {
            account, mistakes, ..
        } = &self.shared;
        if self.credit == 0 || received.datagrams.len() > DATAGRAMS_MAX {
            mistakes.note("datagrams without credit".to_owned());
        }
        self.credit = self.credit.saturating_sub(1);
        self.owed += 1;
        self.socket = Some(received.socket);
        for datagram in received.datagrams {
            let number = datagram.bytes[..].try_into().map(u64::from_be_bytes);
            let (Peer::Ip(from), Ok(number)) = (datagram.from, number) else {
                return mistakes.note(format!("{datagram:?} was not sent"));
            };
            let mut account = account.lock();
            let sent = account.datagrams_sent.get(&from).copied();
            let times = account
                .datagrams_received
                .entry((from, number))
                .or_default();
            *times += 1;
            let is_twice = *times > 1 && !self.shared.may_copy;
            if sent.is_none_or(|sent| number > sent) || is_twice {
                mistakes.note(format!("datagram {number} from {from}: {times} times"));
            }
        }
    }
}

fn start_server(shared: &Shared, machine: &Machine) {
    let Machine {
        system,
        poller,
        host,
        ..
    } = machine;
    let limits = ListenerOptions {
        connections_max: OPEN_MAX,
    };
    let (of_talkers, here, to_poller) = (shared.clone(), machine.clone(), poller.clone());
    let serve = move |accepted, cx: &mut Context<_>| {
        let talker = Talker::new(&of_talkers, Side::Server, &here, None, false);
        let talker = cx.spawn_once(Talker::options(), talker)?;
        Connection::spawn(accepted, &to_poller, options(), talker.recipient(), cx).map(drop)
    };
    Listener::bind(system, poller, host.at(PORT), limits, serve).expect("a free port");
    let reader = system.spawn(DatagramReader {
        shared: shared.clone(),
        credit: DATAGRAM_CREDIT,
        owed: 0,
        socket: None,
    });
    let (at, owner) = (host.at(PORT), reader.recipient());
    DatagramSocket::bind_udp(system, poller, at, datagram_options(), owner).expect("a free port");
}

fn start_client(
    shared: &Shared,
    machine: &Machine,
    server: SocketAddr,
    random: Random,
) -> ActorRef<Opener> {
    let Machine {
        system,
        poller,
        host,
        ..
    } = machine;
    let reader = system.spawn(DatagramReader {
        shared: shared.clone(),
        credit: DATAGRAM_CREDIT,
        owed: 0,
        socket: None,
    });
    // A port for each start, so that the numbers of its datagrams begin anew.
    let at = host.at(PORT + machine.starts as u16);
    let owner = reader.recipient();
    let socket = DatagramSocket::bind_udp(system, poller, at, datagram_options(), owner);
    system.spawn(Opener {
        shared: shared.clone(),
        machine: machine.clone(),
        server,
        random,
        socket: socket.expect("a free port").actor().clone(),
        address: at,
    })
}

pub(crate) fn run(world: &mut World) {
    let mut random = world.random("connections");
    let may_copy = random.once_in(2);
    let kilobytes = world.size("kilobytes", 1..=240);
    let chunk_kilobytes = world.size("chunk_kilobytes", 1..=CHUNK_BYTES >> 10);
    let period_ms = world.size("period_ms", 20..=500);
    let shared = Shared {
        account: Record::default(),
        mistakes: Mistakes::watched(world),
        bytes: kilobytes << 10,
        // A long stream is over when the faults are, or soon after.
        chunk: chunk_kilobytes.max(kilobytes * period_ms / LONG_STREAM_MS) << 10,
        period: Duration::from_millis(period_ms as u64),
        may_copy,
    };
    let of_server = shared.clone();
    let server = world.node("server", move |machine| {
        start_server(&of_server, machine);
        machine.starts
    });
    let clients = world.size("clients", 1..=2);
    let clients: Vec<_> = (0..clients)
        .map(|client| {
            let name = format!("client-{client}");
            let (shared, at, random) = (shared.clone(), server.at(PORT), world.random(&name));
            world.node(&name, move |machine| {
                let opener = start_client(&shared, machine, at, random.clone());
                (opener, machine.starts)
            })
        })
        .collect();
    for client in &clients {
        let ppm = |is: bool| if is { 100_000 } else { 0 };
        let link = LinkSettings {
            datagram_loss_ppm: ppm(random.once_in(2)),
            datagram_copy_ppm: ppm(may_copy),
            datagram_late_ppm: ppm(random.once_in(2)),
            ..LinkSettings::default()
        };
        world.network().set_link(server.ip(), client.ip(), link);
    }
    let rates = FaultRates {
        kills: 6.0,
        pauses: 6.0,
        partitions: 6.0,
        resets: 9.0,
        silences: 6.0,
        slow_links: 12.0,
        slow_actors: 6.0,
        late_wakeups: 6.0,
        ..FaultRates::default()
    };
    world.inject(rates, RUN_TIME);
    world.advance(RUN_TIME);
    world.end_faults();
    world.advance(SETTLE_TIME);

    let open = Open {
        datagrams: LAST_DATAGRAMS,
    };
    let mut last = Vec::new();
    for client in &clients {
        let (opener, _) = client.state().expect("it is up");
        let begun = shared.account.lock().begun;
        opener.tell(open).expect("it is alive");
        world.run_until(|| shared.account.lock().begun > begun);
        last.push(begun + 1);
    }
    world.advance(SETTLE_TIME);
    let account = shared.account.lock();
    for id in last {
        for side in [Side::Client, Side::Server] {
            let stream = (id, side);
            let read = account.read.get(&stream);
            assert_eq!(read, account.bytes.get(&id), "{stream:?} after the faults");
            let is_whole = account.whole.contains(&stream);
            assert!(is_whole, "the end of {stream:?} was not seen");
        }
    }
    let servers = [(server.ip(), server.state().expect("it is up"))];
    let starts = clients
        .iter()
        .map(|it| (it.ip(), it.state().expect("it is up").1));
    for (ip, start) in starts.chain(servers) {
        let here = (ip.to_string(), start);
        let open = account.open.iter();
        let open: Vec<_> = open
            .filter(|(node, start, _)| (node, start) == (&here.0, &here.1))
            .collect();
        assert!(
            open.is_empty(),
            "connections without a last event: {open:?}"
        );
    }
    for client in &clients {
        let at = client.at(PORT + client.state().expect("it is up").1 as u16);
        let sent = account.datagrams_sent[&at];
        for number in sent + 1 - LAST_DATAGRAMS..=sent {
            let times = account.datagrams_received.get(&(at, number));
            assert_eq!(times, Some(&1), "datagram {number} after the faults");
        }
    }
}
