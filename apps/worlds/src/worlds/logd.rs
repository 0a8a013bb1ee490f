//! Clients post lines to a log server over HTTP, and send lines over TCP, while it crashes and its disk fails.
//!
//! It holds: a line whose request was answered with 200 is in the stream at the end, also after kills and power losses;
//! the lines of a TCP connection are there in their order; the server's last counters add up.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use freeboard::{
    net::{
        poller::Poller,
        tcp::{Connection, ConnectionEvent, ConnectionOptions, Event, ReadCredit, Write},
    },
    platform::thread,
    prelude::*,
    sim::{FaultRates, Machine, Random, World},
    stream::{ReaderOptions, StreamOptions, storage::simulated::SimulatedSettings},
};
use freeboard_logd::{
    Config, Framing, HttpConfig, InputConfig, LogRecord, Server, StreamSinkConfig, TcpConfig,
};

use crate::record::Record;

const RUN_TIME: Duration = Duration::from_secs(4);
const STOP_TIME: Duration = Duration::from_secs(60);

/// A client gives an answer up after this time.
const PATIENCE: Duration = Duration::from_secs(1);

/// The pause before a client connects again, or a server that could not start starts again.
const PAUSE: Duration = Duration::from_millis(100);

/// Attempts to start the server.
const STARTS_MAX: usize = 200;

const HTTP: u16 = 80;
const TCP: u16 = 601;

/// What clients know.
#[derive(Debug, Default)]
struct Sent {
    acknowledged: BTreeSet<String>,
    /// Requests and lines that may still be sent.
    left: usize,
    connections: u64,
}

/// How a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Http,
    Tcp,
}

/// Sends one request, or some lines, after the other, over a connection that it makes again.
struct Client {
    way: Way,
    poller: Poller,
    server: SocketAddr,
    sent: Record<Sent>,
    random: Random,
    connection: Option<ActorRef<Connection>>,
    /// The number of the connection.
    number: u64,
    line: u64,
    /// The lines of the request that waits for its answer.
    asked: Vec<String>,
    answer: String,
    /// Counts requests, so that the time-out of an earlier one is known.
    turn: u64,
}

#[derive(Clone)]
struct Connect;
struct Next;
struct GiveUp(u64);

impl Client {
    fn disconnect(&mut self, cx: &mut Context<Self>) {
        if let Some(connection) = self.connection.take() {
            connection.stop();
        }
        self.asked.clear();
        self.answer.clear();
        self.turn += 1;
        cx.send_after(PAUSE, Connect).expect("a timer");
    }

    /// Lines with names of their own.
    fn lines(&mut self) -> Vec<String> {
        (0..self.random.within(1..=3))
            .map(|_| {
                self.line += 1;
                format!("{:?} {} line {}", self.way, self.number, self.line)
            })
            .collect()
    }

    /// Whether the answer is whole, and its status. It has a length.
    fn status(&self) -> Option<u16> {
        let (head, body) = self.answer.split_once("\r\n\r\n")?;
        let mut lines = head.lines();
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let length = lines.find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length").then_some(value)
        });
        let length: usize = length.unwrap_or("0").parse().ok()?;
        (body.len() >= length).then_some(status)
    }
}

impl Actor for Client {
    fn started(&mut self, cx: &mut Context<Self>) {
        cx.send_after(PAUSE, Connect).expect("a timer");
    }
}

impl Handler<Connect> for Client {
    type Reply = ();

    fn handle(&mut self, _: Connect, cx: &mut Context<Self>) {
        if self.connection.is_some() || self.sent.lock().left == 0 {
            return;
        }
        self.number = {
            let mut sent = self.sent.lock();
            sent.connections += 1;
            sent.connections
        };
        self.line = 0;
        let (options, owner) = (ConnectionOptions::default(), cx.actor_ref().recipient());
        let connected =
            Connection::connect(&cx.system(), &self.poller, self.server, options, owner);
        self.connection = connected.ok();
        self.turn += 1;
        cx.send_after(PATIENCE, GiveUp(self.turn)).expect("a timer");
    }
}

impl Handler<GiveUp> for Client {
    type Reply = ();

    fn handle(&mut self, GiveUp(turn): GiveUp, cx: &mut Context<Self>) {
        if turn == self.turn {
            self.disconnect(cx);
        }
    }
}

impl Handler<Next> for Client {
    type Reply = ();

    fn handle(&mut self, _: Next, cx: &mut Context<Self>) {
        let Some(connection) = self.connection.clone().filter(|_| self.asked.is_empty()) else {
            return;
        };
        {
            let mut sent = self.sent.lock();
            if sent.left == 0 {
                return;
            }
            sent.left -= 1;
        }
        let lines = self.lines();
        let body = lines.join("\n") + "\n";
        let bytes = match self.way {
            Way::Tcp => body,
            Way::Http => {
                let length = body.len();
                format!("POST / HTTP/1.1\r\nHost: logs\r\nContent-Length: {length}\r\n\r\n{body}")
            }
        };
        self.turn += 1;
        if connection.try_tell(Write(bytes.into())).is_err() {
            return self.disconnect(cx);
        }
        match self.way {
            Way::Http => {
                self.asked = lines;
                cx.send_after(PATIENCE, GiveUp(self.turn)).expect("a timer");
            }
            Way::Tcp => {
                let pause = self.random.time(PAUSE);
                cx.send_after(pause, Next).expect("a timer");
            }
        }
    }
}

impl Handler<ConnectionEvent> for Client {
    type Reply = ();

    fn handle(&mut self, event: ConnectionEvent, cx: &mut Context<Self>) {
        let ConnectionEvent { connection, event } = event;
        if self.connection.as_ref().map(ActorRef::id) != Some(connection.id()) {
            return;
        }
        match event {
            Event::Opened(_) => _ = cx.actor_ref().tell(Next),
            Event::Received(bytes) => {
                _ = connection.try_tell_lane(Connection::CONTROL_LANE, ReadCredit(1));
                self.answer.push_str(&String::from_utf8_lossy(&bytes));
                let Some(status) = self.status() else { return };
                self.answer.clear();
                self.turn += 1;
                let lines = std::mem::take(&mut self.asked);
                if status == 200 {
                    self.sent.lock().acknowledged.extend(lines);
                }
                let pause = self.random.time(PAUSE);
                cx.send_after(pause, Next).expect("a timer");
            }
            Event::Ended | Event::Closed(_) => self.disconnect(cx),
            _ => {}
        }
    }
}

/// Starts the server on the node's disk, which may fail for a while.
fn start(machine: &Machine) -> Arc<Server> {
    let mut last = None;
    for _ in 0..STARTS_MAX {
        let stream = StreamSinkConfig {
            path: PathBuf::new(),
            options: StreamOptions::new().segment_bytes(64 << 10),
        };
        let sink = stream.sink_on("stream", Arc::new(machine.disk.clone()));
        let config = Config {
            inputs: vec![
                InputConfig::Http(HttpConfig::new(machine.host.at(HTTP))),
                InputConfig::Tcp(TcpConfig {
                    address: machine.host.at(TCP),
                    framing: Framing::Newline,
                }),
            ],
            ..Config::new(vec![sink])
        };
        match Server::start(&machine.system, &machine.poller, config) {
            Ok(server) => return Arc::new(server),
            Err(error) => last = Some(error),
        }
        thread::sleep(PAUSE);
    }
    panic!("the server does not start: {last:?}");
}

/// Checks that the lines of each TCP connection are in their order, each once. The end of a connection may cut its last line
/// off, so that it lacks digits of its number.
fn check_order(texts: &[String]) {
    let mut last = BTreeMap::<&str, u64>::new();
    for text in texts.iter().filter(|text| text.starts_with("Tcp ")) {
        let Some((connection, line)) = text.split_once(" line ") else {
            continue;
        };
        let Ok(line) = line.parse::<u64>() else {
            continue;
        };
        let last = last.entry(connection).or_default();
        // A cut line has a smaller number, and none follows it.
        assert!(
            *last != u64::MAX,
            "{text} came after a line that was cut off"
        );
        *last = if line > *last { line } else { u64::MAX };
    }
}

pub(crate) fn run(world: &mut World) {
    let sent = Record::<Sent>::default();
    sent.lock().left = world.size("requests", 1..=40);
    let disk = SimulatedSettings {
        seed: world.random("disk").number(),
        latency_max: Duration::from_millis(2),
        ..SimulatedSettings::default()
    };
    let node = world.node_with_disk("logd", disk, start);
    let clients = world.size("clients", 1..=3);
    let (random, of_clients) = (world.random("clients"), sent.clone());
    let (http, tcp) = (node.at(HTTP), node.at(TCP));
    let senders = world.node("clients", move |machine| {
        for id in 0..clients {
            let (way, server) = match id {
                1 => (Way::Tcp, tcp),
                _ => (Way::Http, http),
            };
            let mut random = random.clone();
            (0..id).for_each(|_| _ = random.number());
            machine.system.spawn(Client {
                way,
                poller: machine.poller.clone(),
                server,
                sent: of_clients.clone(),
                random,
                connection: None,
                number: 0,
                line: 0,
                asked: Vec::new(),
                answer: String::new(),
                turn: 0,
            });
        }
    });
    let rates = FaultRates {
        kills: 15.0,
        power_losses: 15.0,
        pauses: 6.0,
        partitions: 4.0,
        resets: 10.0,
        silences: 4.0,
        disk_errors: 15.0,
        full_disks: 4.0,
        slow_disks: 4.0,
        late_wakeups: 6.0,
        ..FaultRates::default()
    };
    world.inject(rates, RUN_TIME);
    world.advance(RUN_TIME);
    world.end_faults();
    // A sink whose disk has failed tries again.
    world.advance(STOP_TIME);
    drop(senders);

    let server = node.state().expect("it is up");
    let report = server.stop(STOP_TIME);
    assert!(report.is_drained, "{report:?}");
    let totals = server.totals();
    let shed: u64 = totals.shed.iter().sum();
    assert_eq!(totals.accepted, totals.taken + shed + totals.held);
    let reader = ReaderOptions::new().open_on(Arc::new(node.disk()));
    let texts: Vec<_> = reader
        .expect("a stream")
        .map(|record| {
            let record = record.expect("a sound record");
            let record = LogRecord::decode(&record.payload).expect("a line");
            String::from_utf8_lossy(record.text).into_owned()
        })
        .collect();
    check_order(&texts);
    let found: BTreeSet<_> = texts.iter().collect();
    let sent = sent.lock();
    let lost: Vec<_> = sent
        .acknowledged
        .iter()
        .filter(|it| !found.contains(it))
        .collect();
    assert!(lost.is_empty(), "acknowledged, and lost: {lost:?}");
}
