//! The production code on a simulated network: connections, HTTP, the proxy and datagrams, with faults, in virtual time.

use std::{
    net::IpAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use freeboard_actor::{
    Actor, ActorRef, Context, Handler,
    testing::{TestSystem, each_seed},
};
use freeboard_net::{
    datagram::{DatagramOptions, DatagramSocket, Received, SendTo},
    http::{HttpServer, Limits},
    poller::Poller,
    proxy::{Proxy, ProxyOptions},
    simulated::{Host, LinkSettings, Network, NetworkSettings},
    tcp::{
        Connection, ConnectionEvent, ConnectionOptions, End, Event, Listener, ListenerOptions,
        ReadCredit, Write,
    },
};

use crate::common::echo as echo_requests;

const SECOND: Duration = Duration::from_secs(1);

/// A client and a server, and the network between them.
struct World<'a> {
    system: &'a TestSystem,
    network: Network,
    client: Node,
    server: Node,
}

struct Node {
    host: Host,
    poller: Poller,
}

impl Node {
    fn new(network: &Network, ip: [u8; 4]) -> Self {
        let host = network.host(ip);
        let poller = Poller::simulated(&host);
        Self { host, poller }
    }

    fn ip(&self) -> IpAddr {
        self.host.ip()
    }
}

/// What a connection's owner got.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<Event>>>);

impl Events {
    fn all(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }

    fn bytes(&self) -> Vec<u8> {
        let all = self.all();
        let received = all.iter().filter_map(|event| match event {
            Event::Received(bytes) => Some(&bytes[..]),
            _ => None,
        });
        received.collect::<Vec<_>>().concat()
    }

    /// Why the connection closed, once it has.
    fn closed(&self) -> Option<Option<std::io::ErrorKind>> {
        match self.all().last() {
            Some(Event::Closed(why)) => Some(*why),
            _ => None,
        }
    }
}

/// Notes events, and grants credit for what it reads.
struct Owner(Events);

impl Actor for Owner {}

impl Handler<ConnectionEvent> for Owner {
    type Reply = ();

    fn handle(&mut self, event: ConnectionEvent, _: &mut Context<Self>) {
        if matches!(event.event, Event::Received(_)) {
            let control = Connection::CONTROL_LANE;
            let _ = event.connection.try_tell_lane(control, ReadCredit(1));
        }
        self.0.0.lock().unwrap().push(event.event);
    }
}

/// Sends back what it reads, and ends when its peer does.
struct Echo;

impl Actor for Echo {}

impl Handler<ConnectionEvent> for Echo {
    type Reply = ();

    fn handle(
        &mut self,
        ConnectionEvent { connection, event }: ConnectionEvent,
        _: &mut Context<Self>,
    ) {
        // The connection may have closed.
        match event {
            Event::Received(bytes) => {
                let _ = connection.tell(Write(bytes));
                let _ = connection.tell(ReadCredit(1));
            }
            Event::Ended => drop(connection.tell(End)),
            _ => {}
        }
    }
}

impl<'a> World<'a> {
    fn new(system: &'a TestSystem) -> Self {
        Self::with(system, |settings| settings)
    }

    fn with(
        system: &'a TestSystem,
        change: impl FnOnce(NetworkSettings) -> NetworkSettings,
    ) -> Self {
        let settings = change(NetworkSettings {
            seed: system.seed(),
            ..NetworkSettings::default()
        });
        let network = Network::new(system.executor(), settings);
        Self {
            system,
            client: Node::new(&network, [10, 0, 0, 1]),
            server: Node::new(&network, [10, 0, 0, 2]),
            network,
        }
    }

    /// Serves echoes at port 7 of the server.
    fn serve_echo(&self) -> Listener {
        let echo = self.system.spawn(Echo).recipient();
        let poller = self.server.poller.clone();
        let serve = move |accepted, cx: &mut _| {
            let options = ConnectionOptions::default();
            Connection::spawn(accepted, &poller, options, echo.clone(), cx).map(drop)
        };
        let options = ListenerOptions::default();
        let address = self.server.host.at(7);
        Listener::bind(self.system, &self.server.poller, address, options, serve).unwrap()
    }

    /// Connects from the client to a port of the server.
    fn connect(&self, port: u16, options: ConnectionOptions) -> (ActorRef<Connection>, Events) {
        let events = Events::default();
        let owner = self
            .system
            .spawn_once(Default::default(), Owner(events.clone()));
        let owner = owner.unwrap().recipient();
        let address = self.server.host.at(port);
        let connection =
            Connection::connect(self.system, &self.client.poller, address, options, owner);
        (connection.unwrap(), events)
    }

    /// All texts of the network from now on.
    fn texts(&self) -> Arc<Mutex<String>> {
        let texts = Arc::new(Mutex::new(String::new()));
        let to = texts.clone();
        self.network.on_event(move |text| {
            let mut to = to.lock().unwrap();
            to.push_str(text);
            to.push('\n');
        });
        texts
    }

    fn run_until_closed(&self, events: &Events) -> Option<std::io::ErrorKind> {
        self.system.run_until(|| events.closed().is_some());
        events.closed().unwrap()
    }
}

/// Bytes that tell where they belong.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index % 251) as u8).collect()
}

fn write_all(connection: &ActorRef<Connection>, bytes: &[u8], piece: usize) {
    for piece in bytes.chunks(piece) {
        let piece = Bytes::copy_from_slice(piece);
        connection.tell(Write(piece)).unwrap();
    }
}

#[test]
fn an_echo_comes_back_whole_and_both_sides_end() {
    each_seed(0..40, |system| {
        let world = World::new(system);
        let listener = world.serve_echo();
        let (connection, events) = world.connect(7, ConnectionOptions::default());
        let sent = pattern(300_000);
        write_all(&connection, &sent, 7_000);
        connection.tell(End).unwrap();
        assert_eq!(world.run_until_closed(&events), None);
        assert!(events.bytes() == sent);
        let all = events.all();
        assert!(matches!(all.first(), Some(Event::Opened(_))));
        assert_eq!(all[all.len() - 2..], [Event::Ended, Event::Closed(None)]);
        assert_eq!(listener.drain(SECOND), 0);
    });
}

#[test]
fn nobody_listens_and_nobody_answers() {
    each_seed(0..20, |system| {
        use std::io::ErrorKind::{ConnectionRefused, TimedOut};
        let world = World::new(system);
        let (_, refused) = world.connect(7, ConnectionOptions::default());
        assert_eq!(world.run_until_closed(&refused), Some(ConnectionRefused));
        assert!(system.now() < SECOND);
        world
            .network
            .partition(world.client.ip(), world.server.ip());
        let (_, unanswered) = world.connect(7, ConnectionOptions::default());
        assert_eq!(world.run_until_closed(&unanswered), Some(TimedOut));
        assert!(system.now() >= SECOND * 127);
    });
}

#[test]
fn a_slow_reader_presses_the_writer_and_loses_nothing() {
    each_seed(0..10, |system| {
        let world = World::new(system);
        let written = Events::default();
        let owner = system.spawn_once(Default::default(), Owner(written.clone()));
        let owner = owner.unwrap().recipient();
        let sent = pattern(1 << 20);
        let (to_write, poller) = (sent.clone(), world.server.poller.clone());
        let options = ConnectionOptions {
            write_bytes: 256 << 10,
            ..ConnectionOptions::default()
        };
        let serve = move |accepted, cx: &mut Context<_>| {
            let connection = Connection::spawn(accepted, &poller, options, owner.clone(), cx)?;
            let bytes = to_write.clone();
            cx.pipe_writes(connection, bytes);
            Ok(())
        };
        let address = world.server.host.at(7);
        let options = ListenerOptions::default();
        let _listener =
            Listener::bind(system, &world.server.poller, address, options, serve).unwrap();
        let options = ConnectionOptions {
            credit: 0,
            ..ConnectionOptions::default()
        };
        let (reader, read) = world.connect(7, options);
        system.run_until(|| written.all().contains(&Event::Pressure(true)));
        system.advance(SECOND * 3_600);
        assert!(read.bytes().is_empty());
        reader.tell(ReadCredit(1)).unwrap();
        assert_eq!(world.run_until_closed(&written), None);
        system.run_until(|| read.all().contains(&Event::Ended));
        assert!(read.bytes() == sent);
        assert!(written.all().contains(&Event::Pressure(false)));
    });
}

/// Writes in a task of its own: a handler that waits would be muted.
trait PipeWrites {
    fn pipe_writes(&mut self, to: ActorRef<Connection>, bytes: Vec<u8>);
}

impl<A: Actor> PipeWrites for Context<A> {
    fn pipe_writes(&mut self, to: ActorRef<Connection>, bytes: Vec<u8>) {
        let writer = self.spawn_once(Default::default(), Writer { to, bytes });
        writer.unwrap();
    }
}

struct Writer {
    to: ActorRef<Connection>,
    bytes: Vec<u8>,
}

impl Actor for Writer {
    fn started(&mut self, cx: &mut Context<Self>) {
        write_all(&self.to, &self.bytes, 16 << 10);
        self.to.tell(freeboard_net::tcp::Close).unwrap();
        cx.stop();
    }
}

#[test]
fn a_half_open_connection_times_out_and_a_new_one_works() {
    each_seed(0..20, |system| {
        let world = World::new(system);
        let _listener = world.serve_echo();
        let options = ConnectionOptions {
            idle_time: Some(SECOND * 10),
            ..ConnectionOptions::default()
        };
        let (connection, events) = world.connect(7, options);
        write_all(&connection, b"before", 6);
        system.run_until(|| events.bytes() == b"before");
        let ips = (world.client.ip(), world.server.ip());
        assert_eq!(world.network.silence_connections(ips.0, ips.1), 1);
        write_all(&connection, b"after", 5);
        let why = world.run_until_closed(&events);
        assert_eq!(why, Some(std::io::ErrorKind::TimedOut));
        assert_eq!(events.bytes(), b"before");
        let (connection, events) = world.connect(7, options);
        write_all(&connection, b"again", 5);
        system.run_until(|| events.bytes() == b"again");
    });
}

#[test]
fn a_partition_that_heals_loses_nothing_and_one_that_lasts_breaks_the_connection() {
    each_seed(0..20, |system| {
        let world = World::new(system);
        let _listener = world.serve_echo();
        let (connection, events) = world.connect(7, ConnectionOptions::default());
        let sent = pattern(200_000);
        write_all(&connection, &sent[..100_000], 10_000);
        system.run_until(|| events.bytes().len() > 20_000);
        let (client, server) = (world.client.ip(), world.server.ip());
        match system.seed() % 3 {
            0 => world.network.partition(client, server),
            1 => world.network.partition_one_way(client, server),
            _ => world.network.partition_one_way(server, client),
        }
        write_all(&connection, &sent[100_000..], 10_000);
        system.advance(SECOND * 60);
        assert!(events.bytes().len() < sent.len());
        world.network.heal(client, server);
        system.run_until(|| events.bytes().len() == sent.len());
        assert!(events.bytes() == sent);

        world.network.partition(client, server);
        write_all(&connection, b"never", 5);
        let why = world.run_until_closed(&events);
        assert_eq!(why, Some(std::io::ErrorKind::TimedOut));
    });
}

#[test]
fn a_crashed_host_answers_nothing_and_resets_after_its_next_start() {
    each_seed(0..20, |system| {
        let world = World::new(system);
        let _listener = world.serve_echo();
        let (connection, events) = world.connect(7, ConnectionOptions::default());
        write_all(&connection, b"before", 6);
        system.run_until(|| events.bytes() == b"before");
        world.server.host.crash();
        write_all(&connection, b"after", 5);
        system.advance(SECOND * 30);
        assert_eq!(events.closed(), None);
        let _again = world.network.host(world.server.ip());
        let why = world.run_until_closed(&events);
        assert_eq!(why, Some(std::io::ErrorKind::ConnectionReset));
        // The sockets of the earlier start are void.
        let (address, options) = (world.server.host.at(8), ListenerOptions::default());
        let late = Listener::bind(
            system,
            &world.server.poller,
            address,
            options,
            |_, _| Ok(()),
        );
        assert_eq!(
            late.unwrap_err().error.kind(),
            std::io::ErrorKind::NetworkDown
        );
    });
}

#[test]
fn a_reset_breaks_both_sides_and_a_pause_only_delays() {
    each_seed(0..20, |system| {
        let world = World::new(system);
        let listener = world.serve_echo();
        let (connection, events) = world.connect(7, ConnectionOptions::default());
        let sent = pattern(50_000);
        write_all(&connection, &sent, 10_000);
        world.server.host.pause();
        system.advance(SECOND * 10);
        assert!(events.bytes().is_empty());
        world.server.host.resume();
        system.run_until(|| events.bytes().len() == sent.len());
        let (client, server) = (world.client.ip(), world.server.ip());
        assert_eq!(world.network.reset_connections(client, server), 1);
        let why = world.run_until_closed(&events);
        assert_eq!(why, Some(std::io::ErrorKind::ConnectionReset));
        system.advance(SECOND);
        assert_eq!(listener.snapshot().open, 0);
    });
}

#[test]
fn a_slow_link_takes_its_time() {
    each_seed(0..5, |system| {
        let world = World::new(system);
        let slow = LinkSettings {
            bytes_per_second: Some(10_000),
            ..LinkSettings::default()
        };
        let (client, server) = (world.client.ip(), world.server.ip());
        world.network.set_link(client, server, slow);
        let _listener = world.serve_echo();
        let (connection, events) = world.connect(7, ConnectionOptions::default());
        write_all(&connection, &pattern(100_000), 10_000);
        system.run_until(|| events.bytes().len() == 100_000);
        // Both directions at once.
        let now = system.now();
        assert!((SECOND * 10..SECOND * 25).contains(&now), "{now:?}");
    });
}

#[test]
fn http_keeps_connections_alive_and_answers_pipelined_requests_in_order_through_a_proxy() {
    each_seed(0..20, |system| {
        let world = World::with(system, |settings| NetworkSettings {
            link: LinkSettings {
                split_ppm: 300_000,
                ..settings.link
            },
            ..settings
        });
        let (poller, limits) = (&world.server.poller, Limits::default());
        let options = ListenerOptions::default();
        let local = ([127, 0, 0, 1], 8_080).into();
        let server = HttpServer::bind(system, poller, local, options, limits, echo_requests());
        let server = server.unwrap();
        let (public, options) = (world.server.host.at(80), ProxyOptions::default());
        let itself = Proxy::bind(system, poller, public, public, options);
        assert!(itself.is_err());
        let proxy = Proxy::bind(system, poller, public, server.address(), options).unwrap();
        let (connection, events) = world.connect(80, ConnectionOptions::default());
        let text = |events: &Events| String::from_utf8(events.bytes()).unwrap();
        for round in 0..3 {
            let mut requests = String::new();
            for number in 0..5 {
                let body = "x".repeat(number * 1_000);
                requests += &format!(
                    "POST /{round}/{number} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                );
            }
            write_all(&connection, requests.as_bytes(), 4_000);
            system.run_until(|| text(&events).matches("200 OK").count() == (round + 1) * 5);
            system.advance(SECOND);
        }
        let all = text(&events);
        let mut rest = &all[..];
        for (round, number) in (0..3).flat_map(|round| (0..5).map(move |number| (round, number))) {
            let wanted = format!("POST /{round}/{number} ");
            let at = rest.find(&wanted);
            rest = &rest[at.unwrap_or_else(|| panic!("{wanted} in {all}"))..];
        }
        assert_eq!(proxy.connections().accepted, 1);
        assert_eq!(server.connections().accepted, 1);
        assert_eq!(server.snapshot().requests, 15);
        // Both drain without threads.
        assert_eq!(proxy.drain(SECOND * 10), 0);
        assert_eq!(server.drain(SECOND * 10), 0);
        system.run_until(|| events.all().contains(&Event::Ended));
    });
}

/// Notes the numbers of datagrams.
struct Numbers(Arc<Mutex<Vec<u64>>>);

impl Actor for Numbers {}

impl Handler<Received> for Numbers {
    type Reply = ();

    fn handle(&mut self, received: Received, _: &mut Context<Self>) {
        for datagram in &received.datagrams {
            let number = u64::from_le_bytes(datagram.bytes[..].try_into().unwrap());
            self.0.lock().unwrap().push(number);
        }
        let _ = received.socket.try_tell(ReadCredit(1));
    }
}

#[test]
fn datagrams_are_lost_and_come_twice_and_late_as_the_link_says() {
    const SENT: u64 = 2_000;
    let (lost, twice, late) = (
        AtomicUsize::new(0),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
    );
    let exchange = |system: &TestSystem, link: LinkSettings| {
        let world = World::new(system);
        let (client, server) = (&world.client, &world.server);
        world.network.set_link(client.ip(), server.ip(), link);
        let numbers = Arc::<Mutex<Vec<u64>>>::default();
        let owner = system.spawn_once(Default::default(), Numbers(numbers.clone()));
        let owner = owner.unwrap().recipient();
        let options = DatagramOptions::default();
        let bind = |node: &Node, port| {
            let (address, owner) = (node.host.at(port), owner.clone());
            DatagramSocket::bind_udp(system, &node.poller, address, options, owner).unwrap()
        };
        let (receiver, sender) = (bind(server, 514), bind(client, 0));
        for number in 0..SENT {
            let (to, bytes) = (receiver.address(), number.to_le_bytes());
            let bytes = Bytes::copy_from_slice(&bytes);
            sender.actor().tell(SendTo { to, bytes }).unwrap();
            if number % 100 == 0 {
                system.advance(Duration::from_millis(1));
            }
        }
        system.advance(SECOND);
        assert_eq!(sender.snapshot().sent, SENT);
        assert_eq!(receiver.snapshot().kernel_dropped, 0);
        std::mem::take(&mut *numbers.lock().unwrap())
    };
    each_seed(0..10, |system| {
        let faulty = LinkSettings {
            datagram_loss_ppm: 100_000,
            datagram_copy_ppm: 50_000,
            datagram_late_ppm: 50_000,
            ..LinkSettings::default()
        };
        let got = exchange(system, faulty);
        let mut once = got.clone();
        once.sort_unstable();
        once.dedup();
        assert!(once.iter().all(|number| *number < SENT));
        lost.fetch_add(SENT as usize - once.len(), Ordering::Relaxed);
        twice.fetch_add(got.len() - once.len(), Ordering::Relaxed);
        let is_late = |pair: &&[u64]| pair[0] > pair[1];
        late.fetch_add(got.windows(2).filter(is_late).count(), Ordering::Relaxed);
    });
    each_seed(0..3, |system| {
        let got = exchange(system, LinkSettings::default());
        assert!(got.into_iter().eq(0..SENT), "a sound link keeps the order");
    });
    let expected = |count: AtomicUsize, range: std::ops::Range<usize>| {
        let count = count.into_inner();
        assert!(range.contains(&count), "{count}");
    };
    expected(lost, 1_500..2_500);
    expected(twice, 700..1_300);
    expected(late, 500..1_500);
}

/// A run with connections, datagrams and faults. Returns the network's texts and the checksum of all steps.
fn run_with_faults(seed: u64) -> (String, u64) {
    let system = TestSystem::new(seed);
    let world = World::with(&system, |settings| NetworkSettings {
        link: LinkSettings {
            split_ppm: 200_000,
            break_ppm: 5_000,
            ..settings.link
        },
        retransmit_time: SECOND * 20,
        ..settings
    });
    let texts = world.texts();
    let listener = world.serve_echo();
    let (client, server) = (world.client.ip(), world.server.ip());
    let options = ConnectionOptions {
        idle_time: Some(SECOND * 30),
        ..ConnectionOptions::default()
    };
    let connections: Vec<_> = (0..4).map(|_| world.connect(7, options)).collect();
    for round in 0..3 {
        for (connection, _) in &connections {
            // It may have closed.
            let _ = connection.try_tell(Write(pattern(30_000).into()));
        }
        system.advance(Duration::from_millis(3));
        match (seed + round) % 4 {
            0 => world.network.partition(client, server),
            1 => drop(world.network.reset_connections(client, server)),
            2 => world.server.host.pause(),
            _ => drop(world.network.silence_connections(client, server)),
        }
        system.advance(SECOND * 5);
        world.server.host.resume();
        world.network.heal(client, server);
    }
    for (connection, _) in &connections {
        let _ = connection.try_tell(End);
    }
    for (_, events) in &connections {
        world.run_until_closed(events);
    }
    listener.drain(SECOND * 60);
    let text = texts.lock().unwrap().clone();
    (text, system.trace_checksum())
}

#[test]
fn two_runs_of_one_seed_have_the_same_trace() {
    let mut checksums = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let (text, checksum) = run_with_faults(seed);
        assert!(text.contains("10.0.0.1:49152 -> 10.0.0.2:7 "), "{text}");
        assert_eq!((text, checksum), run_with_faults(seed), "seed {seed}");
        checksums.insert(checksum);
    }
    assert_eq!(checksums.len(), 200, "each seed is another run");
}
