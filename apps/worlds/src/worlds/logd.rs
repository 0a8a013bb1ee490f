//! Clients post lines to a log server over HTTP, and send lines over TCP, while it crashes and its disk fails.
//!
//! It holds: a line whose request was answered with 200 is in the stream at the end, also after kills and power losses;
//! the lines of a TCP connection are there in their order; the server's last counters add up.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use freeboard::{
    platform::thread,
    sim::{FaultRates, Machine, Random, World},
    stream::{ReaderOptions, StreamOptions, storage::simulated::SimulatedSettings},
};
use freeboard_logd::{
    Config, Framing, HttpConfig, InputConfig, LogRecord, Server, StreamSinkConfig, TcpConfig,
};

use crate::{
    client::{Client, Requests},
    record::Record,
};

const RUN_TIME: Duration = Duration::from_secs(4);
const STOP_TIME: Duration = Duration::from_secs(60);

/// The pause before a server that could not start starts again.
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

/// The requests of a client, or its lines.
struct Logs {
    way: Way,
    sent: Record<Sent>,
    /// The number of the connection.
    number: u64,
    line: u64,
    /// The lines of the request that waits for its answer.
    asked: Vec<String>,
    answer: String,
}

impl Logs {
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

impl Requests for Logs {
    fn has_more(&self) -> bool {
        self.sent.lock().left > 0
    }

    fn begin(&mut self) {
        let mut sent = self.sent.lock();
        sent.connections += 1;
        self.number = sent.connections;
        self.line = 0;
        self.asked.clear();
        self.answer.clear();
    }

    fn next(&mut self, random: &mut Random) -> Option<(String, bool)> {
        {
            let mut sent = self.sent.lock();
            sent.left = sent.left.checked_sub(1)?;
        }
        let numbers = self.line + 1..=self.line + random.within(1..=3) as u64;
        self.line = *numbers.end();
        // Each line has a name of its own.
        let name = |line| format!("{:?} {} line {line}", self.way, self.number);
        let lines: Vec<_> = numbers.map(name).collect();
        let body = lines.join("\n") + "\n";
        let length = body.len();
        Some(match self.way {
            Way::Tcp => (body, false),
            Way::Http => {
                self.asked = lines;
                let head =
                    format!("POST / HTTP/1.1\r\nHost: logs\r\nContent-Length: {length}\r\n\r\n");
                (head + &body, true)
            }
        })
    }

    fn received(&mut self, bytes: &[u8]) -> bool {
        self.answer.push_str(&String::from_utf8_lossy(bytes));
        let Some(status) = self.status() else {
            return false;
        };
        self.answer.clear();
        let lines = std::mem::take(&mut self.asked);
        if status == 200 {
            self.sent.lock().acknowledged.extend(lines);
        }
        true
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
    let (seed, of_clients) = (world.random("clients").number(), sent.clone());
    let (http, tcp) = (node.at(HTTP), node.at(TCP));
    let senders = world.node("clients", move |machine| {
        for id in 0..clients {
            let (way, server) = match id {
                1 => (Way::Tcp, tcp),
                _ => (Way::Http, http),
            };
            let logs = Logs {
                way,
                sent: of_clients.clone(),
                number: 0,
                line: 0,
                asked: Vec::new(),
                answer: String::new(),
            };
            let random = Random::new(seed.wrapping_add(machine.starts), &id.to_string());
            let client = Client::new(&machine.poller, server, random, logs);
            machine.system.spawn(client);
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
