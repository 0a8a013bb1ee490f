//! The inputs on a simulated network, whose connections break and whose datagrams are lost, and a sealed stream on a
//! simulated disk, whose power fails.

use std::{cell::Cell, collections::BTreeMap, env, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use freeboard::{
    net::{
        datagram::{DatagramOptions, DatagramSocket, Received, SendTo},
        poller::Poller,
        simulated::{LinkSettings, Network, NetworkSettings},
        tcp::{Close, Connection, ConnectionEvent, ConnectionOptions, Write},
    },
    stream::{
        MasterKey, ReaderOptions, StreamOptions,
        format::{Algorithm, SealUnit},
        storage::simulated::{SimulatedDisk, SimulatedSettings},
    },
    testing::{Probe, TestSystem, each_seed},
};
use freeboard_logd::{
    Config, Framing, InputConfig, LogRecord, Server, SpillConfig, StreamSinkConfig, TcpConfig,
    UdpConfig,
};

use crate::common::TestSink;

const SECOND: Duration = Duration::from_secs(1);
const CLIENTS: usize = 3;
const LINES: usize = 200;
const DATAGRAMS: usize = 100;

/// Clients send lines while links break. Returns the lines that were taken.
fn run(system: &TestSystem) -> Vec<String> {
    let sound = LinkSettings::default();
    let settings = NetworkSettings {
        seed: system.seed(),
        ..NetworkSettings::default()
    };
    let network = Network::new(system.executor(), settings);
    let hosts = [network.host([10, 0, 0, 1]), network.host([10, 0, 0, 2])];
    let [at_client, at_server] = hosts.each_ref().map(Poller::simulated);
    let sink = TestSink::default();
    let disk = SimulatedDisk::new(SimulatedSettings {
        seed: system.seed(),
        latency_max: Duration::from_millis(5),
        ..SimulatedSettings::default()
    });
    let key = MasterKey::new(b"a key for tests, and only for tests").unwrap();
    let stream = StreamSinkConfig {
        path: PathBuf::new(),
        options: StreamOptions::new()
            .seal(Algorithm::HmacSha256, SealUnit::Batch)
            .key(key.clone())
            .segment_bytes(256 << 10),
    };
    let stream = stream.sink_on("stream", Arc::new(disk.clone()));
    // Its memory has space for all lines, so that it needs no disk.
    let queue = SpillConfig::new(env::temp_dir().join("no spool of a simulation"));
    let config = Config {
        inputs: vec![
            InputConfig::Tcp(TcpConfig {
                address: hosts[1].at(601),
                framing: Framing::Newline,
            }),
            InputConfig::Udp(UdpConfig::new(hosts[1].at(514))),
        ],
        ..Config::new(vec![sink.config().spill(queue), stream])
    };
    let server = Server::start(system, &at_server, config).unwrap();

    let faulty = LinkSettings {
        break_ppm: 10_000,
        split_ppm: 300_000,
        datagram_loss_ppm: 100_000,
        ..sound
    };
    network.set_link(hosts[0].ip(), hosts[1].ip(), faulty);
    let (events, received) = (
        Probe::<ConnectionEvent>::spawn(system),
        Probe::<Received>::spawn(system),
    );
    let options = ConnectionOptions::default();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let owner = events.recipient();
            Connection::connect(system, &at_client, hosts[1].at(601), options, owner).unwrap()
        })
        .collect();
    let (from, owner) = (hosts[0].at(0), received.recipient());
    let options = DatagramOptions::default();
    let socket = DatagramSocket::bind_udp(system, &at_client, from, options, owner).unwrap();
    for line in 0..LINES {
        for (client, connection) in clients.iter().enumerate() {
            // It may have closed.
            let _ = connection.tell(Write(format!("client {client} line {line}\n").into()));
        }
        if line < DATAGRAMS {
            let (to, bytes) = (hosts[1].at(514), Bytes::from(format!("datagram {line}")));
            socket.actor().tell(SendTo { to, bytes }).unwrap();
        }
        system.advance(Duration::from_millis(1));
    }
    for connection in &clients {
        let _ = connection.tell(Close);
    }
    system.advance(SECOND);
    let report = server.stop(SECOND * 60);
    assert!(report.is_drained, "{report:?}");
    assert!(report.sinks_failed.is_empty(), "{report:?}");
    let totals = server.totals();
    assert_eq!(totals.held, 0);
    assert_eq!(
        totals.accepted,
        totals.taken + totals.shed.iter().sum::<u64>()
    );
    // The power fails: the stream has what the sink without a disk has.
    let reader = ReaderOptions::new().key(key);
    let records = reader.open_on(Arc::new(disk.reboot())).unwrap();
    let text = |payload: &[u8]| {
        let record = LogRecord::decode(payload).unwrap();
        String::from_utf8(record.text.to_vec()).unwrap()
    };
    let kept = records.map(|record| text(&record.unwrap().payload));
    let texts = sink.texts();
    assert_eq!(kept.collect::<Vec<_>>(), texts);
    texts
}

#[test]
fn of_each_connection_the_first_lines_are_taken_in_their_order() {
    let broken = Cell::new(false);
    each_seed(0..30, |system| {
        let mut next = BTreeMap::<String, usize>::new();
        let texts = run(system);
        for text in &texts {
            let Some((client, line)) = text.split_once(" line ") else {
                continue;
            };
            let next = next.entry(client.to_owned()).or_default();
            // A cut line is the last of its connection.
            if line.parse() != Ok(*next) {
                assert!(next.to_string().starts_with(line), "{text} for {next}");
                broken.set(true);
            }
            *next += 1;
        }
        broken.set(broken.get() || next.values().any(|lines| *lines < LINES));
        let datagrams = texts.iter().filter(|text| text.starts_with("datagram"));
        assert!((DATAGRAMS / 2..DATAGRAMS).contains(&datagrams.count()));
    });
    assert!(broken.get(), "no connection broke");
}

#[test]
fn two_runs_of_one_seed_are_equal() {
    for seed in 0..20 {
        let run = || {
            let system = TestSystem::new(seed);
            (run(&system), system.trace_checksum())
        };
        assert_eq!(run(), run(), "seed {seed}");
    }
}
