//! Lines to a real NATS server. Skipped where it is not installed.

use std::{
    collections::{HashMap, HashSet},
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

use async_nats::{
    ConnectOptions, HeaderMap,
    jetstream::{self, stream},
};
use bytes::Bytes;
use freeboard::{flow::Backoff, stream::StreamOptions};
use freeboard_logd::{
    Config, Framing, Intake, NatsConfig, NatsLogin, SinkGauge, SpoolConfig, StreamSinkConfig,
};
use freeboard_test_servers::{JetStream, Port, Server, if_installed, nats};
use tokio::runtime::Runtime;

use crate::common::{LONG, Rig, eventually, feed_durable, lines_of, send};

/// A message of a stream.
struct Message {
    subject: String,
    headers: HeaderMap,
    text: String,
}

impl Message {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.as_str())
    }
}

/// Looks into the server.
struct Inspector {
    runtime: Runtime,
    url: String,
    options: ConnectOptions,
}

impl Inspector {
    fn new(server: &Server) -> Self {
        Self::with(server, ConnectOptions::new())
    }

    fn with(server: &Server, options: ConnectOptions) -> Self {
        Self {
            runtime: Runtime::new().expect("threads"),
            url: server.address().to_string(),
            options,
        }
    }

    async fn context(&self) -> jetstream::Context {
        let client = self.options.clone().connect(&self.url).await;
        let mut context = jetstream::new(client.expect("it listens"));
        context.set_timeout(LONG);
        context
    }

    fn create(&self, config: stream::Config) {
        self.runtime.block_on(async {
            let created = self.context().await.create_stream(config).await;
            created.expect("it is created");
        });
    }

    /// The messages of the stream `LOGS`, in order.
    fn messages(&self) -> Vec<Message> {
        self.runtime.block_on(async {
            let stream = self.context().await.get_stream("LOGS").await;
            let mut stream = stream.expect("a stream");
            let last = stream
                .info()
                .await
                .expect("it is there")
                .state
                .last_sequence;
            let mut messages = Vec::new();
            for sequence in 1..=last {
                let message = stream.get_raw_message(sequence).await;
                let message = message.expect("it is there");
                messages.push(Message {
                    subject: message.subject.to_string(),
                    headers: message.headers,
                    text: String::from_utf8_lossy(&message.payload).into_owned(),
                });
            }
            messages
        })
    }

    fn texts(&self) -> Vec<String> {
        let messages = self.messages().into_iter();
        messages.map(|message| message.text).collect()
    }
}

fn logs() -> stream::Config {
    stream::Config {
        name: "LOGS".to_owned(),
        subjects: vec!["logs.>".to_owned()],
        ..stream::Config::default()
    }
}

/// A server with a stream that takes `logs.>`; `None` if it is not installed.
fn server_with_stream() -> Option<(Server, Inspector)> {
    let server = if_installed(nats(JetStream::On, ""))?;
    let inspector = Inspector::new(&server);
    inspector.create(logs());
    Some((server, inspector))
}

fn to(server: &Server, subject: &str) -> NatsConfig {
    at(&format!("nats://{}/{subject}", server.address()))
}

fn at(url: &str) -> NatsConfig {
    let mut config = NatsConfig::new("nats", url).expect("an address");
    config.backoff = Backoff {
        min_ns: 1_000_000,
        max_ns: 50_000_000,
        factor: 2,
    };
    config
}

/// A log server that publishes from a spool here.
fn rig(directory: &Path, config: NatsConfig) -> Rig {
    let spool = SpoolConfig::new(directory.join("spool"));
    Rig::start(Config::new(vec![config.sink(spool)]))
}

fn gauge(rig: &Rig) -> Arc<SinkGauge> {
    let gauges = rig.server.sinks();
    gauges.last().expect("that of NATS").clone()
}

/// Waits for a failure with this text.
fn wait_error(gauge: &SinkGauge, text: &str) {
    eventually(text, || {
        // A text with a line end is the end of the error.
        let error = gauge.last_error().map(|error| error + "\n");
        error.is_some_and(|error| error.contains(text))
    });
}

/// A line that somebody waits for.
fn feed(intake: &mut Intake, line: &str) -> mpsc::Receiver<bool> {
    let (sender, report) = mpsc::channel();
    let done = move |is_durable| sender.send(is_durable).expect("it is awaited");
    let _ = intake.feed(Bytes::from(format!("{line}\n")), 1, Some(Box::new(done)));
    report
}

#[test]
fn lines_arrive_once_in_order_with_what_is_known_of_them() {
    let Some((server, inspector)) = server_with_stream() else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = to(&server, "logs.{severity}.{host}");
    config.in_flight_lines = 16.try_into().expect("not 0");
    config.in_flight_bytes = 4 << 10;
    let from = rig(directory.path(), config);
    let lines: Vec<_> = (0..1_000)
        .map(|it| format!("<11>Nov 23 10:00:00 web-1.example app: line {it}"))
        .collect();
    send(&from, &(lines.join("\n") + "\n"));
    let gauge = gauge(&from);
    eventually("all are acknowledged", || gauge.lines() == 1_000);
    assert_eq!((gauge.behind(), gauge.lost()), (0, 0));
    assert!(from.stop().is_clean());
    let messages = inspector.messages();
    let texts: Vec<_> = messages.iter().map(|it| it.text.as_str()).collect();
    assert_eq!(texts, lines);
    let ids: HashSet<_> = messages.iter().map(|it| it.header("Nats-Msg-Id")).collect();
    assert_eq!(ids.len(), 1_000);
    let first = &messages[0];
    assert_eq!(first.subject, "logs.err.web-1_example");
    assert_eq!(first.header("Freeboard-Severity"), "err");
    assert_eq!(first.header("Freeboard-Facility"), "1");
    assert_eq!(first.header("Freeboard-Host"), "web-1.example");
    assert!(
        first
            .header("Freeboard-Source")
            .starts_with("tcp:127.0.0.1:")
    );
    assert!(first.header("Freeboard-Received").parse::<u64>().is_ok());
}

#[test]
fn a_line_is_acknowledged_after_jetstream_has_acknowledged_it() {
    let Some((server, inspector)) = server_with_stream() else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let stream = StreamSinkConfig {
        path: directory.path().join("log"),
        options: StreamOptions::new(),
    };
    let mut first = to(&server, "logs.a");
    first.timeout = Duration::from_millis(200);
    // Behind the log's own stream, and behind a spool.
    let sinks = vec![
        stream.sink_with_receivers("stream", [first]),
        NatsConfig::new("second", &format!("nats://{}/logs.b", server.address()))
            .expect("an address")
            .sink(SpoolConfig::new(directory.path().join("spool"))),
    ];
    let from = Rig::start(Config::new(sinks));
    let mut intake = Intake::new(from.server.handle(), "test", Framing::Newline);
    assert!(feed_durable(&mut intake, "first"));
    server.pause().expect("it runs");
    let report = feed(&mut intake, "second");
    let gauges = from.server.sinks();
    let behind = || gauges.iter().map(|it| it.behind()).collect::<Vec<_>>();
    eventually("it is durable here", || behind().ends_with(&[1, 1]));
    eventually("it is in the log", || {
        lines_of(&directory.path().join("log")).len() == 2
    });
    // Long after the sinks know that it is durable here.
    let errors = || gauges.iter().map(|it| it.errors()).max();
    eventually("the server is missed", || errors() >= Some(2));
    assert!(report.try_recv().is_err(), "it is not acknowledged");
    server.resume().expect("it runs");
    assert_eq!(report.recv_timeout(LONG), Ok(true));
    drop(intake);
    assert!(from.stop().is_clean());
    let mut texts = inspector.texts();
    texts.sort();
    assert_eq!(texts, ["first", "first", "second", "second"]);
}

#[test]
fn what_comes_while_the_server_is_away_waits_on_the_disk() {
    let Some((mut server, inspector)) = server_with_stream() else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    server.kill();
    let from = rig(directory.path(), to(&server, "logs.all"));
    let lines: Vec<_> = (0..2_000).map(|it| format!("line {it}")).collect();
    send(&from, &(lines.join("\n") + "\n"));
    from.wait_accepted(2_000);
    from.wait_settled();
    let gauge = gauge(&from);
    wait_error(&gauge, &format!("nats://{}", server.address()));
    assert!(gauge.failing_for().is_some());
    eventually("all are behind", || gauge.behind() == 2_000);
    // Also over a restart of the log server.
    assert!(from.stop().is_clean());
    let from = rig(directory.path(), to(&server, "logs.all"));
    let gauge = self::gauge(&from);
    server.restart().expect("it starts again");
    eventually("all are acknowledged", || gauge.lines() == 2_000);
    assert_eq!((gauge.behind(), gauge.lost()), (0, 0));
    assert!(from.stop().is_clean());
    assert_eq!(inspector.texts(), lines);
}

#[test]
fn at_the_bound_of_the_spool_the_oldest_lines_are_counted_and_refused() {
    let Some((mut server, inspector)) = server_with_stream() else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    server.kill();
    let spool = SpoolConfig {
        bytes_max: 512 << 10,
        ..SpoolConfig::new(directory.path().join("spool"))
    };
    let mut config = to(&server, "logs.all");
    config.in_flight_bytes = 4 << 10;
    let from = Rig::start(Config::new(vec![config.sink(spool)]));
    let line = "x".repeat(500);
    let text = |from, to| {
        let lines = (from..to).map(|number| format!("{number} {line}\n"));
        lines.collect::<String>()
    };
    // More than a segment: a reader may finish a removed one.
    send(&from, &text(0, 1_000));
    from.wait_accepted(1_000);
    from.wait_settled();
    let mut intake = Intake::new(from.server.handle(), "test", Framing::Newline);
    let report = feed(&mut intake, "it is waited for");
    send(&from, &text(1_000, 4_000));
    from.wait_accepted(4_001);
    let gauge = gauge(&from);
    eventually("all but one are in the spool, or dropped", || {
        from.server.totals().held == 1
    });
    assert!(report.try_recv().is_err(), "it is not known yet");
    server.restart().expect("it starts again");
    assert_eq!(report.recv_timeout(LONG), Ok(false));
    eventually("all is counted", || {
        gauge.behind() == 0 && gauge.lines() + gauge.lost() == 4_001
    });
    assert!(gauge.lost() > 1_000, "{gauge:?}");
    assert_eq!(inspector.texts().len() as u64, gauge.lines());
    drop(intake);
    assert!(from.stop().is_clean());
}

/// Checks that a line fails with this error, and is kept.
fn check_error(config: NatsConfig, error: &str) {
    let directory = tempfile::tempdir().expect("a directory");
    let from = rig(directory.path(), config);
    send(&from, "a line\n");
    let gauge = gauge(&from);
    wait_error(&gauge, error);
    assert!(gauge.failing_for().is_some());
    assert_eq!((gauge.lines(), gauge.lost(), gauge.behind()), (0, 0, 1));
    assert!(from.stop().is_clean());
}

#[test]
fn errors_of_the_address_and_of_the_server_are_named() {
    let Some(off) = if_installed(nats(JetStream::Off, "")) else {
        return;
    };
    let on = nats(JetStream::On, "").expect("it is installed");
    let closed = Port::reserve().expect("a port");
    let closed = format!("nats://{}", closed.address());
    check_error(at(&format!("{closed}/logs")), &closed);
    check_error(at("nats://no-such-host.invalid/logs"), "no-such-host");
    check_error(to(&off, "logs"), ": JetStream is off");
    check_error(
        to(&on, "logs.err"),
        ": no stream takes the subject logs.err\n",
    );
    let tls = at(&format!("tls://{}/logs", on.address()));
    check_error(tls, &format!("tls://{}", on.address()));
}

#[test]
fn logins_that_are_refused_and_missing_permissions_are_named() {
    let settings = r#"authorization { users: [
        { user: "writer", password: "right", permissions: { publish: "logs.>", subscribe: "_INBOX.>" } }
        { user: "reader", password: "right", permissions: { publish: "none", subscribe: "_INBOX.>" } }
        { user: "admin", password: "right" }
    ] }"#;
    let Some(server) = if_installed(nats(JetStream::On, settings)) else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let files = ["right", "wrong\n"].map(|password| {
        let path = directory.path().join(password.trim());
        std::fs::write(&path, password).expect("it is written");
        path
    });
    let [right, wrong] = files;
    let as_user = |user: &str, file: &Path| {
        let mut config = to(&server, "logs.all");
        config.login = NatsLogin::Password(user.to_owned(), file.to_owned());
        config
    };
    check_error(to(&server, "logs.all"), "the server refuses the login");
    let refused = as_user("writer", &wrong);
    check_error(refused, "the server refuses the login");
    let missing = as_user("writer", Path::new("/no/such/file"));
    check_error(missing, "/no/such/file: No such file");
    let denied = as_user("reader", &right);
    check_error(denied, "Permissions Violation for Publish to \"logs.all\"");
    // A writer may not ask why nobody answers.
    let unknown = "no stream takes the subject logs.all, or JetStream is off";
    check_error(as_user("writer", &right), unknown);

    let admin = ConnectOptions::with_user_and_password("admin".to_owned(), "right".to_owned());
    Inspector::with(&server, admin).create(logs());
    let from = rig(directory.path(), as_user("writer", &right));
    let mut intake = Intake::new(from.server.handle(), "test", Framing::Newline);
    assert!(feed_durable(&mut intake, "a line"));
    drop(intake);
    assert!(from.stop().is_clean());
}

#[test]
fn a_server_without_its_data_gets_what_it_has_not_acknowledged() {
    let Some((mut server, inspector)) = server_with_stream() else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let from = rig(directory.path(), to(&server, "logs.all"));
    let gauge = gauge(&from);
    let mut intake = Intake::new(from.server.handle(), "test", Framing::Newline);
    assert!(feed_durable(&mut intake, "before"));
    server.restart_empty().expect("it starts again");
    let report = feed(&mut intake, "behind");
    wait_error(&gauge, "no stream takes the subject logs.all");
    assert!(report.try_recv().is_err(), "it is not acknowledged");
    inspector.create(logs());
    assert_eq!(report.recv_timeout(LONG), Ok(true));
    assert_eq!(inspector.texts(), ["behind"]);
    assert_eq!((gauge.lines(), gauge.lost(), gauge.behind()), (2, 0, 0));
    drop(intake);
    assert!(from.stop().is_clean());
}

/// Checks that a line of 10,000 bytes is refused, and no other.
fn check_too_large(server: &Server, inspector: &Inspector) {
    let directory = tempfile::tempdir().expect("a directory");
    let from = rig(directory.path(), to(server, "logs.all"));
    let gauge = gauge(&from);
    let mut intake = Intake::new(from.server.handle(), "test", Framing::Newline);
    assert!(feed_durable(&mut intake, "first"));
    assert!(!feed_durable(&mut intake, &"x".repeat(10_000)));
    assert!(feed_durable(&mut intake, "last"));
    assert_eq!((gauge.lines(), gauge.lost(), gauge.behind()), (2, 1, 0));
    assert_eq!(inspector.texts(), ["first", "last"]);
    drop(intake);
    assert!(from.stop().is_clean());
}

#[test]
fn a_line_that_is_too_large_is_counted_as_lost_and_passed_over() {
    let Some(server) = if_installed(nats(JetStream::On, "max_payload: 8192")) else {
        return;
    };
    let inspector = Inspector::new(&server);
    inspector.create(logs());
    check_too_large(&server, &inspector);
    // The bound of the stream.
    let (server, inspector) = server_with_stream().expect("it is installed");
    inspector.runtime.block_on(async {
        let context = inspector.context().await;
        let updated = context.update_stream(stream::Config {
            max_message_size: 8_192,
            ..logs()
        });
        updated.await.expect("it is changed");
    });
    check_too_large(&server, &inspector);
}

#[test]
fn a_full_stream_is_named_and_nothing_is_lost() {
    let Some(server) = if_installed(nats(JetStream::On, "")) else {
        return;
    };
    let inspector = Inspector::new(&server);
    let full = stream::Config {
        max_messages: 10,
        discard: stream::DiscardPolicy::New,
        ..logs()
    };
    inspector.create(full.clone());
    let directory = tempfile::tempdir().expect("a directory");
    let from = rig(directory.path(), to(&server, "logs.all"));
    let mut lines: Vec<_> = (0..20).map(|it| format!("line {it}")).collect();
    send(&from, &(lines.join("\n") + "\n"));
    let gauge = gauge(&from);
    wait_error(&gauge, "maximum messages exceeded");
    inspector.runtime.block_on(async {
        let context = inspector.context().await;
        let larger = stream::Config {
            max_messages: 1_000,
            ..full
        };
        context.update_stream(larger).await.expect("it is changed");
    });
    eventually("all are acknowledged", || gauge.lines() == 20);
    // Some lines were under way when the stream grew. They may be stored before those that it had refused.
    let mut stored = inspector.texts();
    assert_eq!(stored[..10], lines[..10]);
    stored.sort();
    lines.sort();
    assert_eq!(stored, lines);
    assert!(from.stop().is_clean());
}

#[test]
fn kills_of_the_server_under_load_lose_no_acknowledged_line() {
    let Some((mut server, inspector)) = server_with_stream() else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = to(&server, "logs.{severity}");
    config.timeout = Duration::from_secs(2);
    let from = rig(directory.path(), config);
    let gauge = gauge(&from);
    let acknowledged: Arc<Mutex<Vec<String>>> = Arc::default();
    let (fed, answered) = (AtomicU64::new(0), Arc::new(AtomicU64::new(0)));
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let feeding = scope.spawn(|| {
            let mut intake = Intake::new(from.server.handle(), "test", Framing::Newline);
            while !is_over.load(Ordering::Relaxed) {
                let line = format!("line {}", fed.fetch_add(1, Ordering::Relaxed));
                let bytes = Bytes::from(line.clone() + "\n");
                let (lines, answers) = (acknowledged.clone(), answered.clone());
                let done = move |is_durable: bool| {
                    if is_durable {
                        lines.lock().expect("no panic").push(line);
                    }
                    answers.fetch_add(1, Ordering::Relaxed);
                };
                let _ = intake.feed(bytes, 1, Some(Box::new(done)));
                // Fewer than the bound of the source: all are waited for.
                while fed.load(Ordering::Relaxed) - answered.load(Ordering::Relaxed) >= 500
                    && !is_over.load(Ordering::Relaxed)
                {
                    std::thread::yield_now();
                }
            }
        });
        for round in 1..=6_u64 {
            let wanted = gauge.lines() + 400;
            eventually("some more are acknowledged", || gauge.lines() >= wanted);
            server.kill();
            if round % 2 == 0 {
                let errors = gauge.errors();
                eventually("it is missed", || gauge.errors() > errors);
            }
            server.restart().expect("it starts again");
        }
        is_over.store(true, Ordering::Relaxed);
        feeding.join().expect("it feeds");
    });
    let fed = fed.into_inner();
    eventually("all are answered", || {
        answered.load(Ordering::Relaxed) == fed
    });
    eventually("all are counted", || gauge.lines() == fed);
    assert_eq!((gauge.lost(), gauge.behind()), (0, 0));
    assert!(from.stop().is_clean());
    let mut counts = HashMap::new();
    for text in inspector.texts() {
        *counts.entry(text).or_insert(0) += 1;
    }
    let acknowledged = acknowledged.lock().expect("no panic");
    assert_eq!(acknowledged.len() as u64, fed);
    let lost: Vec<_> = acknowledged
        .iter()
        .filter(|line| !counts.contains_key(*line))
        .collect();
    assert!(lost.is_empty(), "{lost:?}");
    let doubled: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
    assert!(doubled.is_empty(), "{doubled:?}");
}

/// The child's directory, and the address of its server.
const DIRECTORY: &str = "LOGD_TEST_NATS_KILLED";
const ADDRESS: &str = "LOGD_TEST_NATS_ADDRESS";
const ROUND: &str = "LOGD_TEST_NATS_ROUND";

/// A log server in a process of its own, which prints each line that is acknowledged, until it is killed.
#[test]
fn child() {
    let Ok(directory) = std::env::var(DIRECTORY) else {
        return;
    };
    let variable = |name| std::env::var(name).expect("it is set");
    let config = at(&format!("nats://{}/logs.all", variable(ADDRESS)));
    let from = rig(Path::new(&directory), config);
    let mut intake = Intake::new(from.server.handle(), "test", Framing::Newline);
    let (sender, durable) = mpsc::sync_channel(64);
    let printing = std::thread::spawn(move || {
        let mut out = std::io::stdout();
        for line in durable {
            writeln!(out, "durable {line}").expect("the parent reads");
        }
    });
    let round = variable(ROUND);
    for number in 0..1_000_000 {
        let line = format!("round {round} line {number}");
        let bytes = Bytes::from(line.clone() + "\n");
        let sender = sender.clone();
        let done = move |is_durable: bool| {
            assert!(is_durable, "nothing is shed");
            let _ = sender.send(line);
        };
        let _ = intake.feed(bytes, 1, Some(Box::new(done)));
    }
    drop(sender);
    printing.join().expect("it prints");
}

#[test]
fn kills_of_the_log_server_lose_no_acknowledged_line_and_double_none() {
    let Some((server, inspector)) = server_with_stream() else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let mut acknowledged = Vec::new();
    for (round, lines) in [1, 200, 37].into_iter().enumerate() {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "nats::child", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .env(ADDRESS, server.address().to_string())
            .env(ROUND, round.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut of_round = 0;
        for line in out.lines().map_while(Result::ok) {
            if let Some(line) = line.strip_prefix("durable ") {
                acknowledged.push(line.to_owned());
                of_round += 1;
            }
            if of_round == lines {
                child.kill().expect("it runs");
            }
        }
        let status = child.wait().expect("it has ended");
        assert!(!status.success(), "it was killed");
    }
    // What is left in the spool comes now.
    let from = rig(directory.path(), to(&server, "logs.all"));
    let gauge = gauge(&from);
    let mut intake = Intake::new(from.server.handle(), "test", Framing::Newline);
    assert!(feed_durable(&mut intake, "the last"));
    drop(intake);
    eventually("nothing is behind", || gauge.behind() == 0);
    assert!(from.stop().is_clean());
    let texts = inspector.texts();
    let unique: HashSet<&str> = texts.iter().map(String::as_str).collect();
    assert_eq!(unique.len(), texts.len(), "none is doubled");
    let lost: Vec<_> = acknowledged
        .iter()
        .filter(|line| !unique.contains(line.as_str()))
        .collect();
    assert!(lost.is_empty(), "{lost:?}");
}

#[test]
fn lines_go_through_tls_to_a_server_whose_certificate_is_known() {
    let directory = tempfile::tempdir().expect("a directory");
    let names = vec!["127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let file = |name: &str, text: String| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("it is written");
        path
    };
    let certificate = file("server.crt", made.cert.pem());
    let key = file("server.key", made.signing_key.serialize_pem());
    let settings = format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\" }}",
        certificate.display(),
        key.display()
    );
    let Some(server) = if_installed(nats(JetStream::On, &settings)) else {
        return;
    };
    let url = format!("tls://{}/logs.all", server.address());
    check_error(at(&url), "certificate");
    let mut config = at(&url);
    config.roots = Some(certificate.clone());
    check_error(config.clone(), "no stream takes");
    let options = ConnectOptions::new().add_root_certificates(certificate);
    Inspector::with(&server, options).create(logs());
    let from = rig(directory.path(), config);
    let mut intake = Intake::new(from.server.handle(), "test", Framing::Newline);
    assert!(feed_durable(&mut intake, "a line"));
    drop(intake);
    assert!(from.stop().is_clean());
}
