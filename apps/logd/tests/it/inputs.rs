//! The inputs besides plain TCP, with real clients: `logger`, `openssl s_client`, an HTTP client.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{SocketAddr, TcpStream, UdpSocket},
    num::NonZeroUsize,
    os::unix::net::{UnixDatagram, UnixStream},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use flate2::{Compression, write::GzEncoder};
use freeboard::stream::ReaderOptions;
use freeboard_logd::{
    BATCH_CONTENT_TYPE, Config, FileSinkConfig, Format, HttpConfig, InputConfig, InputError,
    LogRecord, Marks, Policy, Priority, Reloaded, Shed, SourceBound, StartError, UdpConfig,
    UnixConfig, UnixStreamConfig, encode_batch,
};
use freeboard_test_servers::is_on_path;

use crate::common::{LONG, Rig, TestSink, eventually, lines_of, stream_sink};

fn any() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

fn start(sink: &TestSink, input: InputConfig) -> Rig {
    Rig::start(Config {
        inputs: vec![input],
        ..Config::new(vec![sink.config()])
    })
}

fn address(rig: &Rig) -> SocketAddr {
    rig.server.inputs()[0].address().expect("of IP")
}

fn udp(senders_max: usize) -> InputConfig {
    InputConfig::Udp(UdpConfig {
        senders_max: NonZeroUsize::new(senders_max).expect("not 0"),
        ..UdpConfig::new(any())
    })
}

/// Runs `logger`, which must be installed.
fn logger(arguments: &[&str]) {
    let status = Command::new("logger").args(arguments).status();
    assert!(status.expect("logger of bsdutils").success());
}

/// The texts by source.
fn by_source(sink: &TestSink) -> BTreeMap<String, Vec<String>> {
    let mut sources: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (source, _, text) in sink.lines() {
        sources.entry(source).or_default().push(text);
    }
    sources
}

#[test]
fn logger_reaches_udp_and_both_unix_sockets_and_tcp() {
    if !is_on_path("logger") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let [stream, datagram, log] = ["stream", "datagram", "log"].map(|it| directory.path().join(it));
    let rig = Rig::start(Config {
        inputs: vec![
            udp(10),
            InputConfig::UnixStream(UnixStreamConfig::new(stream.clone())),
            InputConfig::UnixDatagram(UnixConfig::new(datagram.clone())),
        ],
        ..Config::new(vec![stream_sink(&log)])
    });
    let port = address(&rig).port().to_string();
    let tcp = rig.tcp_addresses()[0].port().to_string();
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    logger(&[
        "-d",
        "-n",
        "127.0.0.1",
        "-P",
        &port,
        "-p",
        "user.err",
        "by udp",
    ]);
    logger(&["-T", "-n", "127.0.0.1", "-P", &tcp, "by tcp"]);
    logger(&[
        "-T",
        "--octet-count",
        "-n",
        "127.0.0.1",
        "-P",
        &tcp,
        "by counted tcp",
    ]);
    logger(&["-u", &text(&stream), "by stream"]);
    logger(&["-u", &text(&datagram), "by datagram"]);
    rig.wait_accepted(5);
    assert!(rig.stop().is_clean());
    assert!(
        !stream.exists() && !datagram.exists(),
        "the files are removed"
    );
    let lines = lines_of(&log);
    for (source, end) in [
        ("udp:127.0.0.1", "by udp"),
        ("tcp:127.0.0.1:", "by tcp"),
        ("unix:pid=", "by stream"),
        ("unix:pid=", "by datagram"),
    ] {
        let found = lines.iter().find(|(_, _, text)| text.ends_with(end));
        let (name, marks, _) = found.unwrap_or_else(|| panic!("{end} in {lines:?}"));
        assert!(name.starts_with(source), "{name}");
        assert!(!marks.has(Marks::MALFORMED), "{end}");
    }
}

#[test]
fn a_datagram_is_a_message_and_senders_are_bounded() {
    let sink = TestSink::default();
    let rig = start(&sink, udp(2));
    let clients = [1, 2, 3].map(|number| {
        UdpSocket::bind(SocketAddr::from(([127, 0, 0, number], 0))).expect("loopback")
    });
    let mut sent = 0;
    let mut send = |client: &UdpSocket, text: &str| {
        client
            .send_to(text.as_bytes(), address(&rig))
            .expect("sent");
        sent += u64::from(!text.is_empty());
        rig.wait_accepted(sent);
    };
    for client in &clients {
        send(client, "<14>two\nlines\n");
        send(client, "");
        send(client, "12 not a count");
    }
    // The table holds two: the first sender has left, and comes back as a new source.
    eventually(
        "two are open",
        || rig.server.totals().open == 3, /* and the server itself */
    );
    send(&clients[0], "again");
    rig.wait_settled();
    let sources = by_source(&sink);
    assert_eq!(
        sources["udp:127.0.0.1"],
        ["<14>two\nlines", "12 not a count", "again"]
    );
    assert_eq!(
        sources["udp:127.0.0.3"],
        ["<14>two\nlines", "12 not a count"]
    );
    assert!(rig.stop().is_clean());
}

#[test]
fn a_sender_at_its_bound_sheds_its_own_datagrams_and_no_others() {
    let sink = TestSink::default().shut();
    let config = Config {
        inputs: vec![udp(10)],
        source: SourceBound {
            lines: 10,
            bytes: 1 << 20,
        },
        ..Config::new(vec![sink.config()])
    };
    let rig = Rig::start(config);
    let [loud, quiet] = [1, 2].map(|number| {
        UdpSocket::bind(SocketAddr::from(([127, 0, 0, number], 0))).expect("loopback")
    });
    for sent in 1..=1_000 {
        loud.send_to(b"<11>loud", address(&rig)).expect("sent");
        if sent % 50 == 0 {
            rig.wait_accepted(sent);
        }
    }
    quiet.send_to(b"<11>quiet", address(&rig)).expect("sent");
    rig.wait_accepted(1_001);
    let source = |name: &str| {
        let sources = rig.server.sources();
        sources
            .into_iter()
            .find(|source| source.name() == name)
            .expect("it is open")
    };
    let (loud, quiet) = (source("udp:127.0.0.1"), source("udp:127.0.0.2"));
    // A read has at most 32 datagrams, and the one that reaches the bound is the last.
    assert!(loud.held() < 10 + 32, "{}", loud.held());
    assert_eq!(loud.shed(Shed::Full) + loud.held(), 1_000);
    assert_eq!((quiet.held(), quiet.shed(Shed::Full)), (1, 0));
    sink.open();
    rig.wait_settled();
    // It has room again.
    let before = loud.taken();
    eventually("it is read again", || {
        let again = UdpSocket::bind(any()).expect("loopback");
        again.send_to(b"<11>again", address(&rig)).expect("sent");
        loud.taken() > before
    });
    rig.stop();
}

#[test]
fn senders_on_a_unix_socket_wait_and_lose_nothing() {
    const DATAGRAMS: u64 = 5_000;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    let sink = TestSink::default().shut();
    let config = Config {
        inputs: vec![InputConfig::UnixDatagram(UnixConfig::new(path.clone()))],
        source: SourceBound {
            lines: 50,
            bytes: 1 << 20,
        },
        ..Config::new(vec![sink.config()])
    };
    let rig = Rig::start(config);
    let sender = UnixDatagram::unbound().expect("a socket");
    sender.connect(&path).expect("it listens");
    let sending = std::thread::spawn(move || {
        for number in 0..DATAGRAMS {
            sender
                .send(format!("<14>{number}").as_bytes())
                .expect("sent");
        }
    });
    rig.wait_accepted(50);
    assert!(
        rig.server.totals().held < 50 + 4 * 32,
        "{:?}",
        rig.server.totals()
    );
    assert!(!sending.is_finished(), "the sender waits");
    sink.open();
    sending.join().expect("it has sent");
    let report = rig.stop();
    assert!(report.is_clean(), "{report:?}");
    let texts = sink.texts();
    assert!(
        texts.iter().eq((0..DATAGRAMS)
            .map(|number| format!("<14>{number}"))
            .collect::<Vec<_>>()
            .iter())
    );
}

#[test]
fn a_datagram_that_is_too_long_is_marked_as_cut_off() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    let sink = TestSink::default();
    let rig = start(
        &sink,
        InputConfig::UnixDatagram(UnixConfig::new(path.clone())),
    );
    let sender = UnixDatagram::unbound().expect("a socket");
    sender.connect(&path).expect("it listens");
    let long = format!("<14>{}", "x".repeat(100_000));
    for text in ["<14>before", &long, "<14>after"] {
        sender.send(text.as_bytes()).expect("sent");
    }
    rig.wait_accepted(3);
    assert!(rig.stop().is_clean());
    let lines = sink.lines().into_iter();
    let lines: Vec<_> = lines
        .map(|(_, marks, text)| (text, marks.has(Marks::TRUNCATED)))
        .collect();
    let expected = [
        ("<14>before".to_owned(), false),
        (long[..64 << 10].to_owned(), true),
        ("<14>after".to_owned(), false),
    ];
    assert!(lines == expected, "{} lines", lines.len());
}

#[test]
fn what_the_kernel_drops_is_counted_and_the_log_says_so() {
    let sink = TestSink::default();
    let udp = UdpConfig {
        receive_buffer_bytes: Some(4_096),
        ..UdpConfig::new(any())
    };
    let rig = start(&sink, InputConfig::Udp(udp));
    let client = UdpSocket::bind(any()).expect("loopback");
    let dropped = || rig.server.totals().shed[Shed::Kernel as usize];
    eventually("the kernel drops some", || {
        for _ in 0..100 {
            client.send_to(&[b'x'; 500], address(&rig)).expect("sent");
        }
        dropped() > 0
    });
    // Both still grow, and the socket counts first.
    let shed = dropped();
    let counted = rig.server.inputs()[0].datagrams().expect("of UDP");
    assert!(counted.kernel_dropped >= shed);
    assert!(rig.stop().is_clean());
    let is_it = |text: &String| text.contains("; udp: kernel ");
    assert!(sink.texts().iter().any(is_it));
}

#[test]
fn a_stop_waits_until_the_dams_have_all_datagrams() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    let sink = TestSink::default().shut();
    let mut config = Config {
        inputs: vec![InputConfig::UnixDatagram(UnixConfig::new(path.clone()))],
        ..Config::new(vec![sink.config()])
    };
    for group in &mut config.groups {
        group.policy = Policy::Wait;
        group.reservoir.messages = 1;
    }
    let rig = Rig::start(config);
    let sender = UnixDatagram::unbound().expect("a socket");
    sender.connect(&path).expect("it listens");
    sender.set_nonblocking(true).expect("it can be set");
    // Batches of one line fill reservoir and mailboxes of the group. The further ones wait in the outbox of the input, in
    // its mailbox and in the kernel.
    let mut sent = 0;
    for _ in 0..60 {
        sender.send(b"<14>line").expect("sent");
        sent += 1;
        rig.wait_accepted(sent);
    }
    while sent < 500 && sender.send(b"<14>line").is_ok() {
        sent += 1;
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            eventually("the stop has begun", || !path.exists());
            sink.open();
        });
        let report = rig.stop();
        assert!(report.is_clean(), "{report:?}");
    });
    assert_eq!(sink.texts().len() as u64, sent);
}

#[test]
fn a_client_that_never_stops_sending_does_not_spoil_a_stop() {
    let sink = TestSink::default();
    let rig = Rig::start(Config::new(vec![sink.config()]));
    let mut client = rig.connect();
    let sending = std::thread::spawn(move || while client.write_all(b"a line\n").is_ok() {});
    rig.wait_accepted(1);
    let server = rig.server.clone();
    assert!(rig.stop().is_clean());
    sending.join().expect("it is cut off");
    let totals = server.totals();
    let whole = sink.texts().iter().filter(|text| *text == "a line").count() as u64;
    // The end may be within a line.
    assert!((whole..=whole + 1).contains(&totals.taken), "{totals:?}");
    assert_eq!((totals.accepted, totals.held), (totals.taken, 0));
}

#[test]
fn a_live_socket_is_an_error_and_names_its_path() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    let _other = UnixDatagram::bind(&path).expect("it is free");
    let input = InputConfig::UnixStream(UnixStreamConfig::new(path.clone()));
    let config = Config {
        inputs: vec![input],
        ..Config::new(vec![TestSink::default().config()])
    };
    let error = Rig::try_start(config).err().expect("it is in use");
    assert!(
        matches!(error, StartError::Input(InputError::Unix(_))),
        "{error}"
    );
    assert!(
        error.to_string().contains(path.to_str().expect("UTF-8")),
        "{error}"
    );
    assert!(UnixStream::connect(&path).is_err());
}

/// Sends a request on a connection of its own, and reads the answer to its end.
fn exchange(rig: &Rig, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address(rig)).expect("it listens");
    stream.set_read_timeout(Some(LONG)).expect("a timeout");
    stream.write_all(request).expect("it reads");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).expect("text")
}

fn post(body: &str) -> Vec<u8> {
    let head = "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: ";
    format!("{head}{}\r\n\r\n{body}", body.len()).into_bytes()
}

fn http(body_bytes_max: usize) -> InputConfig {
    InputConfig::Http(HttpConfig {
        body_bytes_max,
        ..HttpConfig::new(any())
    })
}

#[test]
fn posted_lines_are_durable_when_the_answer_comes() {
    let directory = tempfile::tempdir().expect("a directory");
    let rig = Rig::start(Config {
        inputs: vec![http(1 << 20)],
        ..Config::new(vec![stream_sink(directory.path())])
    });
    // Longer than a piece, with all groups, and without a newline at the end.
    let line = |number: u32| format!("<{}>line {number} {}", number % 8, "x".repeat(100));
    let mut body: String = (0..5_000).map(|number| line(number) + "\n").collect();
    body += "<14>the last";
    let answer = ureq::post(format!("http://{}/", address(&rig))).send(&body);
    let mut answer = answer.expect("200");
    assert_eq!(answer.status(), 200);
    let text = answer.body_mut().read_to_string().expect("text");
    assert_eq!(text, "{\"accepted\":5001,\"shed\":0}\n");
    // The stream is still open.
    let lines = lines_of(directory.path());
    assert_eq!(lines.len(), 5_001);
    assert!(
        lines
            .iter()
            .any(|(_, marks, text)| text == "<14>the last" && *marks == Marks::default())
    );

    for (request, status) in [
        (
            &b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"[..],
            200,
        ),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        (
            b"POST /other HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx",
            404,
        ),
        (
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\nx",
            415,
        ),
        (
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n",
            413,
        ),
    ] {
        let answer = exchange(&rig, request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
    }
    // What came of a body that breaks off is kept.
    let mut broken = TcpStream::connect(address(&rig)).expect("it listens");
    broken
        .write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n<14>whole\n<14>ha")
        .expect("it reads");
    drop(broken);
    rig.wait_accepted(5_002);
    assert!(rig.stop().is_clean());
    assert_eq!(lines_of(directory.path())[5_001].2, "<14>whole");
}

#[test]
fn a_stop_cuts_off_half_a_request_and_keeps_its_lines() {
    let sink = TestSink::default();
    let rig = start(&sink, http(1 << 20));
    let mut client = TcpStream::connect(address(&rig)).expect("it listens");
    client
        .write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n<14>whole\n<14>ha")
        .expect("it reads");
    rig.wait_accepted(1);
    // The incomplete request uses up half of the time.
    let report = rig.server.stop(Duration::from_secs(10));
    assert!(report.is_clean(), "{report:?}");
    assert!(rig.system.shutdown(LONG).is_clean());
    assert_eq!(sink.texts(), ["<14>whole"]);
}

#[test]
fn while_a_sink_fails_requests_are_answered_with_503() {
    let directory = tempfile::tempdir().expect("a directory");
    let [folder, aside] = ["folder", "aside"].map(|name| directory.path().join(name));
    let file = folder.join("app.log");
    let rig = Rig::start(Config {
        inputs: vec![http(1 << 20)],
        unhealthy_after: Duration::from_millis(50),
        summary_interval: Duration::from_millis(50),
        ..Config::new(vec![FileSinkConfig::new(&file).sink("file")])
    });
    assert!(exchange(&rig, &post("a\n")).starts_with("HTTP/1.1 200"));
    std::fs::rename(&folder, &aside).expect("it is there");
    // The first one waits for the sink, the second one is not taken.
    for _ in 0..2 {
        let answer = exchange(&rig, &post("b\n"));
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert!(answer.contains("retry-after: 1\r\n"), "{answer}");
        assert!(answer.contains("the sink file fails for "), "{answer}");
    }
    assert_eq!(rig.server.totals().accepted, 2);
    std::fs::rename(&aside, &folder).expect("it is there");
    eventually("it takes lines again", || {
        exchange(&rig, &post("c\n")).starts_with("HTTP/1.1 200")
    });
    assert!(rig.stop().is_clean());
    let text = std::fs::read_to_string(file).expect("text");
    let words: Vec<_> = text.lines().filter_map(|it| it.chars().last()).collect();
    // What was taken without an answer is written too.
    assert_eq!(words, ['a', 'b', 'c']);
}

#[test]
fn a_body_with_shed_lines_is_answered_with_503() {
    let sink = TestSink::default().shut();
    let mut config = Config {
        inputs: vec![http(1 << 20)],
        source: SourceBound {
            lines: 10,
            bytes: 1 << 20,
        },
        ..Config::new(vec![sink.config()])
    };
    config.groups[3].policy = Policy::Sample(std::num::NonZeroU32::MAX);
    let rig = Rig::start(config);
    std::thread::scope(|scope| {
        // Longer than a piece: the first one reaches the bound, and the lines of the others are shed.
        let answer = scope.spawn(|| exchange(&rig, &post(&"<15>a\n".repeat(50_000))));
        eventually("the lines are there", || {
            rig.server.totals().accepted >= 50_000
        });
        assert!(!answer.is_finished(), "the lines are with no sink");
        sink.open();
        let answer = answer.join().expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert!(answer.contains("retry-after: 1\r\n"), "{answer}");
        let shed = 50_000 - sink.texts().iter().filter(|text| *text == "<15>a").count();
        assert!(
            answer.contains(&format!("\"shed\":{shed}}}")),
            "{shed} in {answer}"
        );
    });
    rig.stop();
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).expect("memory");
    encoder.finish().expect("memory")
}

fn post_gzip(packed: &[u8]) -> Vec<u8> {
    let head = "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Encoding: gzip\r\nContent-Length: ";
    let mut request = format!("{head}{}\r\n\r\n", packed.len()).into_bytes();
    request.extend(packed);
    request
}

#[test]
fn packed_bodies_are_unpacked_and_bounded() {
    let sink = TestSink::default();
    let rig = start(&sink, http(1 << 20));
    let lines = |from: u32| -> String {
        let numbers = from..from + 1_000;
        numbers
            .map(|number| format!("<14>line {number}\n"))
            .collect()
    };
    // Two members, as `cat a.gz b.gz` gives them, in single bytes.
    let packed = [
        gzip(lines(0).as_bytes()),
        gzip(lines(1_000).trim_end().as_bytes()),
    ]
    .concat();
    let mut stream = TcpStream::connect(address(&rig)).expect("it listens");
    stream.set_nodelay(true).expect("TCP");
    for byte in post_gzip(&packed) {
        stream.write_all(&[byte]).expect("it reads");
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(
        answer.ends_with("{\"accepted\":2000,\"shed\":0}\n"),
        "{answer}"
    );
    let expected = lines(0) + &lines(1_000);
    assert!(sink.texts().iter().map(String::as_str).eq(expected.lines()));

    let check = |packed: &[u8], status: u16| {
        let answer = exchange(&rig, &post_gzip(packed));
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
    };
    let before = rig.server.totals().accepted;
    let bomb = gzip(&b"<14>again and again and again\n".repeat(1 << 20));
    assert!(bomb.len() < 1 << 17);
    check(&bomb, 413);
    rig.wait_settled();
    let accepted = rig.server.totals().accepted - before;
    assert!(accepted * 30 <= 1 << 20, "{accepted} lines");
    let mut corrupt = packed.clone();
    let end = corrupt.len() - 8;
    corrupt[end] ^= 1;
    check(&corrupt, 400);
    check(&packed[..packed.len() - 1], 400);
    check(&[&packed[..], b"rest"].concat(), 400);
    check(b"<14>plain\n", 400);
    check(b"", 400);
    let unknown =
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip, br\r\nContent-Length: 1\r\n\r\nx";
    let answer = exchange(&rig, unknown);
    assert!(answer.starts_with("HTTP/1.1 415"), "{answer}");
    assert!(answer.contains("accept-encoding: gzip\r\n"), "{answer}");
    assert!(rig.stop().is_clean());
}

#[test]
fn a_client_that_leaves_before_its_answer_loses_no_line() {
    let sink = TestSink::default().shut();
    let rig = start(&sink, http(1 << 20));
    for number in 0..20 {
        let mut client = TcpStream::connect(address(&rig)).expect("it listens");
        let request = post(&format!("<14>{number}\n"));
        client.write_all(&request).expect("it reads");
        rig.wait_accepted(number + 1);
    }
    sink.open();
    rig.wait_settled();
    assert!(exchange(&rig, &post("<14>the last\n")).starts_with("HTTP/1.1 200"));
    assert!(rig.stop().is_clean());
    assert_eq!(sink.texts().len(), 21);
}

#[test]
fn a_long_body_waits_for_the_sinks_in_bounded_memory() {
    check_long_body(post);
}

#[test]
fn a_long_packed_body_waits_for_the_sinks_in_bounded_memory() {
    check_long_body(|lines| post_gzip(&gzip(lines.as_bytes())));
}

fn check_long_body(request: impl Fn(&str) -> Vec<u8> + Sync) {
    let sink = TestSink::default().shut();
    let config = Config {
        inputs: vec![http(64 << 20)],
        source: SourceBound {
            lines: 1_000,
            bytes: 100_000,
        },
        ..Config::new(vec![sink.config()])
    };
    let rig = Rig::start(config);
    let line = format!("<14>{}\n", "x".repeat(995));
    std::thread::scope(|scope| {
        let answer = scope.spawn(|| exchange(&rig, &request(&line.repeat(20_000))));
        rig.wait_accepted(100);
        // The bound, and the piece that passed it.
        let totals = rig.server.totals();
        assert!(totals.held * 1_000 <= 100_000 + (64 << 10), "{totals:?}");
        assert!(!answer.is_finished());
        sink.open();
        let answer = answer.join().expect("an answer");
        assert!(
            answer.contains("{\"accepted\":20000,\"shed\":0}"),
            "{answer}"
        );
    });
    assert!(rig.stop().is_clean());
    assert_eq!(sink.lines().len(), 20_000);
}

#[test]
fn records_of_many_times_wait_for_the_sinks() {
    const RECORDS: u64 = 20_000;
    let body = |times: u64| {
        let mut body = Vec::new();
        for number in 0..RECORDS {
            record_of(number % times, &mut body);
        }
        body
    };
    // With two times, the decoder has many records when the body is complete.
    for (body, is_packed) in [
        (body(RECORDS), false),
        (gzip(&body(RECORDS)), true),
        (gzip(&body(2)), true),
    ] {
        check_records(&body, is_packed, RECORDS);
    }
}

/// Appends a record of this time.
fn record_of(received_ns: u64, body: &mut Vec<u8>) {
    let record = LogRecord {
        received_ns,
        priority: Priority::from_number(14).expect("in range"),
        format: Format::Plain,
        marks: Marks::none(),
        source: "it",
        host_at: 0,
        host_bytes: 0,
        text: b"x",
    };
    let mut encoded = Vec::new();
    record.encode(&mut encoded);
    encode_batch(&encoded, body);
}

fn check_records(body: &[u8], is_packed: bool, records: u64) {
    let sink = TestSink::default().shut();
    let mut config = Config {
        inputs: vec![http(64 << 20)],
        ..Config::new(vec![sink.config()])
    };
    for group in &mut config.groups {
        group.policy = Policy::Wait;
        group.reservoir.messages = 10;
    }
    let rig = Rig::start(config);
    let coding = if is_packed {
        "Content-Encoding: gzip\r\n"
    } else {
        ""
    };
    let kind = format!("Content-Type: {BATCH_CONTENT_TYPE}\r\n{coding}Connection: close");
    let head = format!(
        "POST / HTTP/1.1\r\nHost: x\r\n{kind}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    std::thread::scope(|scope| {
        let request = [head.as_bytes(), body].concat();
        let answer = scope.spawn(|| exchange(&rig, &{ request }));
        rig.wait_accepted(100);
        sink.open();
        let answer = answer.join().expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    });
    assert!(rig.stop().is_clean());
    assert_eq!(sink.lines().len() as u64, records);
}

#[test]
fn relayed_records_keep_source_priority_and_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let rig = Rig::start(Config {
        inputs: vec![http(1 << 20)],
        ..Config::new(vec![stream_sink(directory.path())])
    });
    let text = |number: u64| format!("line {number}");
    let texts: Vec<_> = (0..1_000).map(text).collect();
    let sources = ["tcp:10.0.0.1:5", "udp:10.0.0.2"];
    let record = |number: u64| LogRecord {
        received_ns: 1_000 + number / 10,
        priority: Priority::from_number((number % 8) as u8).expect("in range"),
        format: Format::Rfc3164,
        marks: Marks::CONTINUED,
        source: sources[(number / 20) as usize % 2],
        host_at: 1,
        host_bytes: 2,
        text: texts[number as usize].as_bytes(),
    };
    let mut body = Vec::new();
    for number in 0..1_000 {
        let mut encoded = Vec::new();
        record(number).encode(&mut encoded);
        encode_batch(&encoded, &mut body);
    }
    let send = |body: &[u8]| {
        let kind = format!("Content-Type: {BATCH_CONTENT_TYPE}\r\nConnection: close");
        let head = format!(
            "POST / HTTP/1.1\r\nHost: x\r\n{kind}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        exchange(&rig, &[head.as_bytes(), body].concat())
    };
    let answer = send(&body);
    assert!(
        answer.ends_with("{\"accepted\":1000,\"shed\":0}\n"),
        "{answer}"
    );
    for (broken, status) in [
        (&body[..body.len() - 1], 400),
        (&[5, 0, 0, 0, 9, 9, 9, 9, 9], 400),
        (&[0xff, 0xff, 0xff, 0xff, 9], 413),
    ] {
        let answer = send(broken);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
    }
    rig.wait_accepted(1_999);
    assert!(rig.stop().is_clean());
    let records = ReaderOptions::new()
        .open(directory.path())
        .expect("a stream");
    let mut found = BTreeMap::new();
    for stored in records.take(1_000) {
        let payload = stored.expect("it is whole").payload;
        let record = LogRecord::decode(&payload).expect("a line");
        let number: u64 = std::str::from_utf8(&record.text[5..])
            .expect("text")
            .parse()
            .expect("a number");
        found.insert(number, payload.to_vec());
    }
    for number in 0..1_000 {
        let mut wanted = Vec::new();
        record(number).encode(&mut wanted);
        assert_eq!(found[&number], wanted, "{number}");
    }
}

#[cfg(feature = "tls")]
mod tls {
    use std::{fs, path::PathBuf, sync::Arc, time::Duration};

    use freeboard_logd::{TlsConfig, TlsSnapshot};
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
    };
    use rustls::pki_types::{CertificateDer, pem::PemObject};

    use super::*;

    /// Files of a test's own authority.
    struct Authority {
        issuer: CertifiedIssuer<'static, KeyPair>,
        directory: tempfile::TempDir,
    }

    impl Authority {
        fn new() -> Self {
            let directory = tempfile::tempdir().expect("a directory");
            let mut params = CertificateParams::new(Vec::new()).expect("no names");
            // Clients look for the authority by its name.
            params
                .distinguished_name
                .push(DnType::CommonName, path(directory.path()));
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let key = KeyPair::generate().expect("a key");
            let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate");
            fs::write(directory.path().join("root.pem"), issuer.pem()).expect("written");
            Self { issuer, directory }
        }

        fn root(&self) -> PathBuf {
            self.directory.path().join("root.pem")
        }

        /// A certificate and its key, valid until this year.
        fn issue(&self, name: &str, until: i32) -> (PathBuf, PathBuf) {
            let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
            params.distinguished_name.push(DnType::CommonName, name);
            params.not_before = date_time_ymd(2000, 1, 1);
            params.not_after = date_time_ymd(until, 1, 1);
            let key = KeyPair::generate().expect("a key");
            let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
            let [of_certificate, of_key] =
                ["crt", "key"].map(|end| self.directory.path().join(name).with_extension(end));
            fs::write(&of_certificate, certificate.pem()).expect("written");
            fs::write(&of_key, key.serialize_pem()).expect("written");
            (of_certificate, of_key)
        }
    }

    fn config((certificates, key): (PathBuf, PathBuf)) -> TlsConfig {
        TlsConfig::new(any(), certificates, key)
    }

    /// `openssl s_client` with these arguments sends a text. Whether it succeeded.
    fn s_client(rig: &Rig, arguments: &[&str], text: &str) -> bool {
        let mut client = Command::new("openssl")
            .args([
                "s_client",
                "-quiet",
                "-no_ign_eof",
                "-verify_return_error",
                "-connect",
                &address(rig).to_string(),
            ])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl");
        // It may have failed already.
        let _ = client
            .stdin
            .take()
            .expect("a pipe")
            .write_all(text.as_bytes());
        client.wait().expect("it exits").success()
    }

    fn snapshot(rig: &Rig) -> TlsSnapshot {
        rig.server.inputs()[0].tls().expect("of TLS")
    }

    fn path(path: &Path) -> &str {
        path.to_str().expect("UTF-8")
    }

    #[test]
    fn lines_come_through_tls_and_a_distrusted_certificate_is_reported() {
        if !is_on_path("openssl") {
            return;
        }
        let (authority, other) = (Authority::new(), Authority::new());
        let sink = TestSink::default();
        let rig = start(
            &sink,
            InputConfig::Tls(config(authority.issue("server", 2_100))),
        );
        let text: String = (0..2_000)
            .map(|number| format!("<14>line {number}\n"))
            .collect();
        assert!(s_client(&rig, &["-CAfile", path(&authority.root())], &text));
        rig.wait_accepted(2_000);
        rig.wait_settled();
        let sources = by_source(&sink);
        let (name, lines) = sources
            .iter()
            .find(|(name, _)| name.starts_with("tls:127.0.0.1:"))
            .expect("a source");
        assert_eq!(lines.len(), 2_000, "{name}");
        assert_eq!(snapshot(&rig).established, 1);

        assert!(!s_client(&rig, &["-CAfile", path(&other.root())], ""));
        eventually("it is counted", || snapshot(&rig).bad_certificates == 1);
        eventually("it is written", || {
            let is_it = |text: &String| {
                text.contains("does not accept this server's certificate: UnknownCA")
            };
            sink.texts().iter().any(is_it)
        });
        assert!(rig.stop().is_clean());
    }

    #[test]
    fn the_end_of_a_client_is_answered() {
        let authority = Authority::new();
        let sink = TestSink::default();
        let rig = start(
            &sink,
            InputConfig::Tls(config(authority.issue("server", 2_100))),
        );
        let mut roots = rustls::RootCertStore::empty();
        let root = CertificateDer::from_pem_file(authority.root()).expect("a certificate");
        roots.add(root).expect("a root");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        for version in rustls::ALL_VERSIONS {
            let client = rustls::ClientConfig::builder_with_provider(provider.clone());
            let client = client.with_protocol_versions(&[version]).expect("known");
            let client = client.with_root_certificates(roots.clone());
            let client = Arc::new(client.with_no_client_auth());
            let name = "localhost".try_into().expect("a name");
            let mut client = rustls::ClientConnection::new(client, name).expect("valid");
            let mut socket = TcpStream::connect(address(&rig)).expect("it listens");
            socket.set_read_timeout(Some(LONG)).expect("a timeout");
            let mut tls = rustls::Stream::new(&mut client, &mut socket);
            tls.write_all(b"<14>last\n").expect("it reads");
            tls.conn.send_close_notify();
            // Without an answer it is an UnexpectedEof.
            let answer = tls.read_to_end(&mut Vec::new());
            assert_eq!(answer.expect("a close_notify"), 0, "{version:?}");
        }
        rig.wait_settled();
        assert_eq!(sink.texts(), ["<14>last", "<14>last"]);
        assert_eq!(snapshot(&rig).failed, 0);
        assert!(rig.stop().is_clean());
    }

    #[test]
    fn clients_need_a_certificate_that_is_valid() {
        if !is_on_path("openssl") {
            return;
        }
        let authority = Authority::new();
        let sink = TestSink::default();
        let config = TlsConfig {
            client_roots: Some(authority.root()),
            ..config(authority.issue("server", 2_100))
        };
        let rig = start(&sink, InputConfig::Tls(config));
        let root = authority.root();
        let send = |client: Option<(PathBuf, PathBuf)>, text: &str| {
            let mut arguments = vec!["-CAfile".to_owned(), path(&root).to_owned()];
            if let Some((certificate, key)) = client {
                arguments
                    .extend(["-cert", path(&certificate), "-key", path(&key)].map(str::to_owned));
            }
            let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
            s_client(&rig, &arguments, text)
        };
        send(None, "<14>none\n");
        send(Some(authority.issue("old", 2_001)), "<14>expired\n");
        eventually("both are counted", || snapshot(&rig).bad_certificates == 2);
        assert!(send(Some(authority.issue("client", 2_100)), "<14>valid\n"));
        eventually("the line is there", || {
            sink.texts().contains(&"<14>valid".to_owned())
        });
        let texts = sink.texts();
        assert!(
            !texts
                .iter()
                .any(|text| text.starts_with("<14>none") || text.starts_with("<14>expired"))
        );
        assert!(
            texts.iter().any(|text| text.contains("no certificate")),
            "{texts:?}"
        );
        assert!(rig.stop().is_clean());
    }

    #[test]
    fn half_handshakes_idle_clients_and_other_protocols_are_closed_and_counted() {
        const IDLE: u64 = 100;
        let authority = Authority::new();
        let sink = TestSink::default();
        let config = TlsConfig {
            handshake_time: Duration::from_millis(300),
            ..config(authority.issue("server", 2_100))
        };
        let rig = start(&sink, InputConfig::Tls(config));
        let connect = |text: &[u8]| {
            let mut client = TcpStream::connect(address(&rig)).expect("it listens");
            client.set_read_timeout(Some(LONG)).expect("a timeout");
            client.write_all(text).expect("it reads");
            client
        };
        // The head of a handshake record, without the rest.
        let mut clients: Vec<_> = (0..IDLE)
            .map(|_| connect(&[22, 3, 1, 2, 0, 1, 0]))
            .collect();
        clients.push(connect(b"<14>not TLS at all\n"));
        for client in &mut clients {
            // Closed by the server; the alert of the last one may be lost in a reset.
            let _ = client.read_to_end(&mut Vec::new());
        }
        eventually("all are counted", || {
            let found = snapshot(&rig);
            (found.late, found.failed) == (IDLE, 1)
        });
        eventually(
            "they have closed",
            || rig.server.totals().open == 1, /* the server itself */
        );
        assert!(
            sink.texts()
                .iter()
                .all(|text| !text.contains("not TLS at all"))
        );
        assert!(rig.stop().is_clean());
    }

    #[test]
    fn a_reload_changes_the_certificate_and_keeps_connections() {
        if !is_on_path("openssl") {
            return;
        }
        let (authority, other) = (Authority::new(), Authority::new());
        let sink = TestSink::default();
        let before = config(authority.issue("server", 2_100));
        let rig = start(&sink, InputConfig::Tls(before.clone()));
        let mut open = Command::new("openssl")
            .args([
                "s_client",
                "-quiet",
                "-no_ign_eof",
                "-CAfile",
                path(&authority.root()),
            ])
            .args(["-connect", &address(&rig).to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl");
        let mut stdin = open.stdin.take().expect("a pipe");
        stdin.write_all(b"<14>before\n").expect("it reads");
        rig.wait_accepted(1);

        let reload = |(certificates, key): (PathBuf, PathBuf)| {
            let tls = TlsConfig {
                certificates,
                key,
                ..before.clone()
            };
            let mut config = Config::clone(&rig.server.handle().config());
            config.inputs[0] = InputConfig::Tls(tls);
            rig.server.reload(&rig.system, &rig.poller, config)
        };
        let error = reload(other.issue("expired", 2_020)).expect_err("it is refused");
        assert!(
            error.to_string().contains("expired at 2020-01-01T"),
            "{error}"
        );
        let root = path(&authority.root()).to_owned();
        assert!(s_client(
            &rig,
            &["-CAfile", &root],
            "<14>with the old one\n"
        ));
        assert_eq!(
            reload(other.issue("server", 2_100)).expect("it is valid"),
            Reloaded::default()
        );
        assert!(!s_client(&rig, &["-CAfile", &root], ""));
        assert!(s_client(
            &rig,
            &["-CAfile", path(&other.root())],
            "<14>with the new one\n"
        ));
        stdin.write_all(b"<14>after\n").expect("it is open");
        drop(stdin);
        assert!(open.wait().expect("it exits").success());
        eventually("all are there", || {
            let texts = sink.texts();
            ["before", "with the old one", "with the new one", "after"]
                .iter()
                .all(|text| texts.contains(&format!("<14>{text}")))
        });
        assert!(rig.stop().is_clean());
    }

    #[test]
    fn a_key_that_does_not_fit_is_an_error_at_the_start() {
        let authority = Authority::new();
        let (certificates, _) = authority.issue("server", 2_100);
        let (_, key) = authority.issue("other", 2_100);
        let nowhere = authority.directory.path().join("missing");
        for (certificates, key) in [
            (certificates.clone(), key),
            (certificates.clone(), nowhere.clone()),
            (nowhere, certificates),
            authority.issue("expired", 2_020),
        ] {
            let config = Config {
                inputs: vec![InputConfig::Tls(TlsConfig::new(any(), certificates, key))],
                ..Config::new(vec![TestSink::default().config()])
            };
            let error = Rig::try_start(config).err().expect("it is refused");
            assert!(
                matches!(error, StartError::Input(InputError::Certificate { .. })),
                "{error}"
            );
        }
    }
}
