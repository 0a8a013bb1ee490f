//! A relay between two servers.

use std::{
    collections::{HashMap, HashSet},
    io::{BufRead, BufReader, Lines, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    num::NonZeroUsize,
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    sync::Arc,
};

use bytes::Bytes;
use freeboard::{
    flow::Backoff,
    stream::{
        ReaderOptions, StreamOptions,
        format::{ALIGNMENT, segment_name},
    },
};
use freeboard_logd::{
    BATCH_CONTENT_TYPE, BATCH_SEQUENCE_HEADER, BATCH_STREAM_HEADER, Config, Framing, HttpConfig,
    InputConfig, Intake, RelayConfig, SinkGauge, SpoolConfig, StreamSinkConfig, encode_batch,
};
use freeboard_test_servers::Port;

use crate::common::{LONG, Rig, TestSink, eventually, feed_durable, lines_of, send, stream_sink};

fn relay(url: String) -> RelayConfig {
    let mut relay = RelayConfig::new("peer", url).expect("an address");
    relay.request_bytes = 4 << 10;
    relay.timeout = LONG;
    relay.backoff = Backoff {
        min_ns: 1_000_000,
        max_ns: 50_000_000,
        factor: 2,
    };
    relay
}

/// A server that takes requests at this address.
fn receiver(address: SocketAddr, sink: freeboard_logd::SinkConfig) -> Rig {
    Rig::start(Config {
        inputs: vec![InputConfig::Http(HttpConfig::new(address))],
        ..Config::new(vec![sink])
    })
}

/// A server that relays from its own stream.
fn sender(directory: &Path, relay: RelayConfig) -> Rig {
    let stream = StreamSinkConfig {
        path: directory.to_owned(),
        options: StreamOptions::new(),
    };
    Rig::start(Config::new(vec![
        stream.sink_with_receivers("stream", vec![relay]),
    ]))
}

fn gauge(rig: &Rig) -> Arc<SinkGauge> {
    let gauges = rig.server.sinks();
    gauges.last().expect("the relay's").clone()
}

#[test]
fn lines_arrive_in_order_with_one_request_at_a_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let port = Port::reserve().expect("a port");
    let sink = TestSink::default();
    let to = receiver(port.address(), sink.config());
    let mut relay = relay(format!("http://{}/", port.address()));
    relay.requests_max = NonZeroUsize::MIN;
    let from = sender(directory.path(), relay);
    let lines: Vec<_> = (0..2_000).map(|line| format!("line {line}")).collect();
    let mut client = from.connect();
    let name = format!("tcp:{}", client.local_addr().expect("it is connected"));
    let text = lines.join("\n") + "\n";
    client.write_all(text.as_bytes()).expect("it reads");
    let gauge = gauge(&from);
    eventually("all is relayed", || gauge.lines() == 2_000);
    assert_eq!((gauge.behind(), gauge.lost()), (0, 0));
    assert_eq!(sink.texts(), lines);
    assert!(sink.lines().iter().all(|(source, ..)| *source == name));
    drop(client);
    assert!(from.stop().is_clean());
    assert!(to.stop().is_clean());
}

/// Reads a request to its end.
fn read_request(client: &mut TcpStream) {
    let mut reader = BufReader::new(client);
    let mut bytes = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a head");
        let line = line.trim().to_ascii_lowercase();
        if let Some(length) = line.strip_prefix("content-length:") {
            bytes = length.trim().parse().expect("a length");
        } else if line.is_empty() {
            break;
        }
    }
    reader.read_exact(&mut vec![0; bytes]).expect("a body");
}

#[test]
fn a_sender_whose_attempt_fails_after_the_success_of_another_tries_again_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("it is asked");
    let address = listener.local_addr().expect("it listens");
    let mut relay = relay(format!("http://{address}/"));
    relay.requests_max = NonZeroUsize::new(2).expect("two");
    relay.backoff.min_ns = 3_600_000_000_000;
    relay.backoff.max_ns = relay.backoff.min_ns;
    let from = sender(directory.path(), relay);
    // Each is a request.
    let line = "x".repeat(5_000);
    send(&from, &format!("{line}\n{line}\n"));
    let request = || {
        let mut found = None;
        eventually("a request", || {
            found = listener.accept().ok();
            found.is_some()
        });
        let (mut client, _) = found.expect("it was found");
        client.set_nonblocking(false).expect("it blocks");
        read_request(&mut client);
        client
    };
    let answer = |mut client: TcpStream, status: &str| {
        let text = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        client.write_all(text.as_bytes()).expect("it reads");
    };
    let (fails, succeeds) = (request(), request());
    let gauge = gauge(&from);
    answer(succeeds, "200 OK");
    eventually("one has succeeded", || gauge.lines() == 1);
    answer(fails, "503 Service Unavailable");
    answer(request(), "200 OK");
    eventually("both have", || gauge.lines() == 2);
    assert!(from.stop().is_clean());
}

#[test]
fn an_address_that_takes_no_lines_is_named_with_the_reason() {
    for url in ["https://host/", "host:1", "http://user@host/", ""] {
        assert!(RelayConfig::new("peer", url).is_err(), "{url}");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let port = Port::reserve().expect("a port");
    let to = receiver(port.address(), TestSink::default().config());
    let url = format!("http://{}/elsewhere", port.address());
    let from = sender(directory.path(), relay(url.clone()));
    send(&from, "a line\n");
    let gauge = gauge(&from);
    eventually("it has failed twice", || gauge.errors() >= 2);
    let error = format!("{url}: 404 Not Found: lines go to /");
    assert_eq!(gauge.last_error(), Some(error));
    assert!(gauge.failing_for().is_some());
    assert_eq!((gauge.lines(), gauge.behind()), (0, 1));
    assert!(from.stop().is_clean());
    to.stop();
}

#[test]
fn while_the_other_server_is_away_the_spool_grows_up_to_its_bound() {
    let directory = tempfile::tempdir().expect("a directory");
    let port = Port::reserve().expect("a port");
    let spool = SpoolConfig {
        bytes_max: 512 << 10,
        ..SpoolConfig::new(directory.path().join("spool"))
    };
    let relay = relay(format!("http://{}/", port.address()));
    let from = Rig::start(Config::new(vec![relay.sink(spool)]));
    let line = "x".repeat(500);
    let text: String = (0..4_000)
        .map(|number| format!("{number} {line}\n"))
        .collect();
    send(&from, &text);
    from.wait_accepted(4_000);
    from.wait_settled();
    let gauge = gauge(&from);
    eventually("it has failed", || gauge.failing_for().is_some());
    let error = gauge.last_error().unwrap_or_default();
    assert!(error.contains(&port.address().to_string()), "{error}");
    let sink = TestSink::default();
    let to = receiver(port.address(), sink.config());
    eventually("all is relayed", || gauge.behind() == 0);
    eventually("all is counted", || gauge.lines() + gauge.lost() == 4_000);
    assert!(gauge.lost() > 1_000, "{gauge:?}");
    assert_eq!(sink.texts().len() as u64, gauge.lines());
    assert!(from.stop().is_clean());
    assert!(to.stop().is_clean());
}

#[test]
fn what_a_renamed_stream_has_not_sent_is_counted() {
    let directory = tempfile::tempdir().expect("a directory");
    let [path, renamed] = ["log", "renamed"].map(|name| directory.path().join(name));
    let port = Port::reserve().expect("a port");
    let from = sender(&path, relay(format!("http://{}/", port.address())));
    let mut intake = Intake::new(from.server.handle(), "test", Framing::Newline);
    for _ in 0..3 {
        assert!(feed_durable(&mut intake, "a line of the first stream"));
    }
    // The stream may create a file meanwhile.
    eventually("it is renamed", || std::fs::rename(&path, &renamed).is_ok());
    let stream = from.server.sinks()[0].clone();
    let mut fed = 3;
    eventually("it is noticed", || {
        feed_durable(&mut intake, "a line");
        fed += 1;
        stream.last_error().is_some()
    });
    assert!(feed_durable(&mut intake, "a line of the second stream"));
    fed += 1;
    let gauge = gauge(&from);
    assert!(gauge.lost() >= 3, "{gauge:?}");
    let sink = TestSink::default();
    let to = receiver(port.address(), sink.config());
    eventually("the last line is relayed", || gauge.lines() > 0);
    eventually("all is relayed", || gauge.behind() == 0);
    let counted = gauge.lines() + gauge.lost();
    // The line whose write found out may be in the first stream all the same.
    assert!((fed - stream.lost()..=fed).contains(&counted), "{gauge:?}");
    assert_eq!(sink.texts().len() as u64, gauge.lines());
    drop(intake);
    assert!(from.stop().is_clean());
    assert!(to.stop().is_clean());
}

#[test]
fn segments_that_cannot_be_read_are_passed_over_and_counted() {
    const LINES: u64 = 60;
    let directory = tempfile::tempdir().expect("a directory");
    let port = Port::reserve().expect("a port");
    let stream = StreamSinkConfig {
        path: directory.path().to_owned(),
        options: StreamOptions::new().segment_bytes(64 << 10),
    };
    let relay = relay(format!("http://{}/", port.address()));
    let from = Rig::start(Config::new(vec![
        stream.sink_with_receivers("stream", vec![relay]),
    ]));
    let mut intake = Intake::new(from.server.handle(), "test", Framing::Newline);
    for _ in 0..LINES {
        assert!(feed_durable(&mut intake, &"x".repeat(10_000)));
    }
    let change = |segment: u64, change: fn(&mut [u8])| {
        let path = directory.path().join(segment_name(segment));
        let mut bytes = std::fs::read(&path).expect("a segment");
        change(&mut bytes);
        std::fs::write(&path, bytes).expect("it can be written");
    };
    // At most 16 requests of a line each are read ahead: three segments. Damage, and behind it a version that is not known.
    change(5, |bytes| bytes[10_000] ^= 1);
    change(6, |bytes| {
        bytes[8..10].fill(0xff);
        let checksum = crc32c::crc32c(&bytes[..ALIGNMENT - 4]);
        bytes[ALIGNMENT - 4..ALIGNMENT].copy_from_slice(&checksum.to_le_bytes());
    });
    let sink = TestSink::default();
    let to = receiver(port.address(), sink.config());
    let gauge = gauge(&from);
    let counted = || gauge.lines() + gauge.lost();
    eventually("all is counted", || counted() >= LINES);
    eventually("all is relayed", || gauge.behind() == 0);
    assert_eq!(counted(), LINES, "{gauge:?}");
    assert!((2..20).contains(&gauge.lost()), "{gauge:?}");
    assert_eq!(sink.texts().len() as u64, gauge.lines());
    drop(intake);
    assert!(from.stop().is_clean());
    assert!(to.stop().is_clean());
}

#[test]
fn records_that_are_here_already_are_skipped() {
    let directory = tempfile::tempdir().expect("a directory");
    let from = directory.path().join("from");
    let rig = Rig::start(Config::new(vec![stream_sink(&from)]));
    let lines: Vec<_> = (1..=100).map(|line| format!("line {line}")).collect();
    send(&rig, &(lines.join("\n") + "\n"));
    rig.wait_accepted(100);
    assert!(rig.stop().is_clean());
    let records = ReaderOptions::new().open(&from).expect("a stream");
    let records: Vec<_> = records
        .map(|record| record.expect("it is whole").payload.to_vec())
        .collect();

    let port = Port::reserve().expect("a port");
    let sink = TestSink::default();
    let to = receiver(port.address(), sink.config());
    let post_with = |stream: &str, first: usize, end: usize, rest: &[u8]| {
        let mut body = Vec::new();
        for record in &records[first - 1..end - 1] {
            encode_batch(record, &mut body);
        }
        body.extend_from_slice(rest);
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .build();
        let request = agent
            .new_agent()
            .post(format!("http://{}/", port.address()));
        let request = request
            .header("content-type", BATCH_CONTENT_TYPE)
            .header(BATCH_STREAM_HEADER, stream)
            .header(BATCH_SEQUENCE_HEADER, first.to_string());
        request.send(&body).expect("an answer").status().as_u16()
    };
    let post = |stream: &str, first, end| post_with(stream, first, end, &[]);
    let stream = "0123456789abcdef0123456789abcdef";
    for (first, end) in [
        (1, 11),
        (1, 11),
        (31, 41),
        (5, 36),
        (1, 61),
        (41, 101),
        (1, 101),
    ] {
        assert_eq!(post(stream, first, end), 200, "{first}..{end}");
    }
    let mut texts = sink.texts();
    texts.sort_by_key(|text| text[5..].parse::<u32>().expect("a number"));
    assert_eq!(texts, lines);
    // Another stream has other records.
    assert_eq!(post("0123456789abcdef0123456789abcdee", 1, 11), 200);
    assert_eq!(sink.texts().len(), 110);
    // Those before a record that is refused are here.
    let stream = "0123456789abcdef0123456789abcded";
    assert_eq!(post_with(stream, 1, 11, &[0xff; 4]), 413);
    eventually("it is finished", || post(stream, 1, 11) == 200);
    assert_eq!(sink.texts().len(), 120);
    for stream in ["", "+123456789abcdef0123456789abcdef", "0123"] {
        assert_eq!(post(stream, 1, 2), 400, "{stream:?}");
    }
    assert!(to.stop().is_clean());
}

const ROLE: &str = "LOGD_TEST_RELAY";
const DIRECTORY: &str = "LOGD_TEST_RELAY_DIRECTORY";
const ADDRESS: &str = "LOGD_TEST_RELAY_ADDRESS";
const ROUND: &str = "LOGD_TEST_RELAY_ROUND";

/// Lines that a sender accepts in each of its lives.
const LINES: u32 = 2_000;

/// One of the two servers, in a process of its own, until it is killed.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let variable = |name| std::env::var(name).expect("it is set");
    let directory = variable(DIRECTORY);
    let address: SocketAddr = variable(ADDRESS).parse().expect("an address");
    let say = |text: String| writeln!(std::io::stdout(), "{text}").expect("the parent reads");
    if role == "receiver" {
        let _rig = receiver(address, stream_sink(Path::new(&directory)));
        say("says ready".to_owned());
        loop {
            std::thread::park();
        }
    }
    let rig = sender(Path::new(&directory), relay(format!("http://{address}/")));
    let mut intake = Intake::new(rig.server.handle(), "test", Framing::Newline);
    let gauge = gauge(&rig);
    let round = variable(ROUND);
    for number in 0..LINES {
        let line = Bytes::from(format!("round {round} line {number}\n"));
        let (sender, report) = std::sync::mpsc::channel();
        let done = move |is_durable| sender.send(is_durable).expect("it is awaited");
        let _ = intake.feed(line, 1, Some(Box::new(done)));
        assert_eq!(report.recv(), Ok(true));
        say(format!("says durable {number}"));
    }
    eventually("all is relayed", || gauge.behind() == 0);
    say("says relayed".to_owned());
    loop {
        std::thread::park();
    }
}

struct Process {
    child: Child,
    says: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(role: &str, directory: &Path, address: SocketAddr, round: u32) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "relays::child", "--nocapture"])
            .env(ROLE, role)
            .env(DIRECTORY, directory.join(role))
            .env(ADDRESS, address.to_string())
            .env(ROUND, round.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let says = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, says }
    }

    fn wait_for(&mut self, text: &str) {
        let text = format!("says {text}");
        let found = self
            .says
            .by_ref()
            .map_while(Result::ok)
            .find(|line| *line == text);
        assert!(found.is_some(), "it has not said {text:?}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// xorshift64*
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % end
    }
}

/// Kills the sender, and perhaps the receiver, and checks what has arrived.
#[allow(clippy::print_stderr, reason = "the seed of a failed test")]
fn check_kills(kills_receiver: bool) {
    let seed = std::time::UNIX_EPOCH
        .elapsed()
        .expect("after 1970")
        .subsec_nanos();
    eprintln!("seed {seed}");
    let mut random = Random(u64::from(seed) + 1);
    let kills = std::env::var("FREEBOARD_LOGD_KILLS");
    let kills = kills.map_or(5, |value| value.parse().expect("a number"));
    let directory = tempfile::tempdir().expect("a directory");
    let port = Port::reserve().expect("a port");
    let start = |role: &str, round| Process::start(role, directory.path(), port.address(), round);
    let mut receiver = start("receiver", 0);
    receiver.wait_for("ready");
    let mut sender = start("sender", 0);
    let mut receivers_killed = 0;
    for round in 1..=kills {
        sender.wait_for(&format!("durable {}", random.below(u64::from(LINES) - 1)));
        let victim = random.below(if kills_receiver { 3 } else { 1 });
        if victim != 1 {
            drop(sender);
        } else {
            drop(receiver);
            receivers_killed += 1;
            receiver = start("receiver", round);
            receiver.wait_for("ready");
            sender.wait_for(&format!("durable {}", LINES - 1));
            drop(sender);
        }
        if victim == 2 {
            drop(receiver);
            receivers_killed += 1;
            receiver = start("receiver", round);
            receiver.wait_for("ready");
        }
        sender = start("sender", round);
    }
    let texts = |role| {
        let lines = lines_of(&directory.path().join(role));
        lines.into_iter().map(|(.., text)| text)
    };
    sender.wait_for(&format!("durable {}", LINES - 1));
    // The gauge does not know of the last lines at once.
    let sent: HashSet<String> = texts("sender").collect();
    eventually("all arrives", || {
        texts("receiver").collect::<HashSet<_>>().is_superset(&sent)
    });
    sender.wait_for("relayed");
    drop((sender, receiver));

    let mut arrived: HashMap<String, u32> = HashMap::new();
    for text in texts("receiver") {
        *arrived.entry(text).or_default() += 1;
    }
    let doubled: u32 = arrived.values().map(|times| times - 1).sum();
    for text in texts("sender") {
        assert!(arrived.remove(&text).is_some(), "{text} is lost");
    }
    // What the sender has not, it has not sent.
    assert!(arrived.is_empty(), "{arrived:?}");
    // The requests on their way when the receiver was killed: four of 4 KiB, with more than 40 bytes for each line.
    let most = receivers_killed * 4 * 4_096 / 40;
    assert!(doubled <= most, "{doubled} lines twice, at most {most}");
}

#[test]
fn a_relay_that_is_killed_loses_and_doubles_nothing() {
    check_kills(false);
}

#[test]
fn when_either_side_is_killed_nothing_is_lost() {
    check_kills(true);
}
