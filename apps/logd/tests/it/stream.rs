//! From sockets into a stream, across restarts.

use std::{io::Write, process::Command, time::Duration};

use freeboard::stream::StreamOptions;
use freeboard_logd::{Config, Marks, StartError, StreamSinkConfig};

use crate::common::{Rig, TestSink, eventually, lines_of, send, stream_sink};

#[test]
fn lines_are_in_the_stream_in_order_after_a_stop() {
    let directory = tempfile::tempdir().expect("a directory");
    let rig = Rig::start(Config::new(vec![stream_sink(directory.path())]));
    let mut client = rig.connect();
    let name = format!("tcp:{}", client.local_addr().expect("it is connected"));
    for line in 0..1_000 {
        writeln!(client, "<14>line {line}").expect("it reads");
    }
    client.write_all(b"<14>half a line").expect("it reads");
    rig.wait_accepted(1_000);
    drop(client);
    rig.wait_accepted(1_001);
    assert!(rig.stop().is_clean());

    let mut expected: Vec<_> = (0..1_000)
        .map(|line| (name.clone(), Marks::default(), format!("<14>line {line}")))
        .collect();
    expected.push((name, Marks::TRUNCATED, "<14>half a line".to_owned()));
    assert_eq!(lines_of(directory.path()), expected);
}

#[test]
fn a_line_that_comes_alone_is_written_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let sink = StreamSinkConfig {
        path: directory.path().to_owned(),
        options: StreamOptions::new().flush_after(Duration::from_secs(3_600)),
    };
    let rig = Rig::start(Config::new(vec![sink.sink("stream")]));
    let mut client = rig.connect();
    client.write_all(b"<14>alone\n").expect("it reads");
    eventually("it is written", || lines_of(directory.path()).len() == 1);
    drop(client);
    assert!(rig.stop().is_clean());
}

#[test]
fn a_stop_takes_what_clients_have_sent() {
    let directory = tempfile::tempdir().expect("a directory");
    let rig = Rig::start(Config::new(vec![stream_sink(directory.path())]));
    let mut client = rig.connect();
    client.write_all(b"the first line\n").expect("it reads");
    rig.wait_accepted(1);
    // Some of it may still be in the client's socket when the server stops; nobody waits until it is read.
    client
        .write_all("another line\n".repeat(200_000).as_bytes())
        .expect("it reads");
    assert!(rig.stop().is_clean());
    assert_eq!(lines_of(directory.path()).len(), 200_001);
}

#[test]
fn settings_out_of_range_are_refused_before_anything_is_opened() {
    let sink = TestSink::default();
    let check = |change: fn(&mut Config), reason: &str| {
        let mut config = Config::new(vec![sink.config()]);
        change(&mut config);
        match Rig::try_start(config) {
            Err(StartError::Config(found)) => assert_eq!(found, reason),
            other => panic!("{reason}: {:?}", other.map(|_| "it started")),
        }
    };
    check(|config| config.sinks.clear(), "there is no sink");
    check(
        |config| config.sinks.push(config.sinks[0].clone()),
        "two sinks have one name",
    );
    let reason = "line_bytes_max is not between 1 and 8 MiB";
    check(|config| config.line_bytes_max = 0, reason);
    let reason = "the bound of a source is at least 1 line and 1 byte";
    check(|config| config.source.lines = 0, reason);
    assert_eq!(sink.opened(), 0);
}

#[test]
fn connections_above_the_limit_wait_for_others_to_close() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = Config::new(vec![stream_sink(directory.path())]);
    config.connections_max = 1;
    let rig = Rig::start(config);
    let mut first = rig.connect();
    first.write_all(b"first\n").expect("it reads");
    rig.wait_accepted(1);
    send(&rig, "second\n");
    first.write_all(b"first again\n").expect("it reads");
    rig.wait_accepted(2);
    drop(first);
    rig.wait_accepted(3);
    assert!(rig.stop().is_clean());
    let texts = lines_of(directory.path())
        .into_iter()
        .map(|(_, _, text)| text);
    assert_eq!(
        texts.collect::<Vec<_>>(),
        ["first", "first again", "second"]
    );
}

#[test]
fn a_server_continues_the_stream_and_a_second_one_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = || Config::new(vec![stream_sink(directory.path())]);
    for round in 0..3 {
        let rig = Rig::start(config());
        send(&rig, &format!("round {round}\n"));
        rig.wait_accepted(1);
        let Err(StartError::Sink { name, error }) = Rig::try_start(config()) else {
            panic!("two servers have one stream");
        };
        assert_eq!(name, "stream");
        assert_eq!(error.to_string(), "another writer has this stream open");
        assert!(rig.stop().is_clean());
    }
    let lines = lines_of(directory.path());
    let texts: Vec<_> = lines.iter().map(|(_, _, text)| text.as_str()).collect();
    assert_eq!(texts, ["round 0", "round 1", "round 2"]);
}

#[test]
#[allow(clippy::print_stderr, reason = "skipped tests say so")]
fn logger_of_util_linux_is_understood() {
    let directory = tempfile::tempdir().expect("a directory");
    let rig = Rig::start(Config::new(vec![stream_sink(directory.path())]));
    let port = rig.tcp_addresses()[0].port().to_string();
    let mut logger = Command::new("logger");
    logger.args(["-n", "127.0.0.1", "-P", &port, "-T", "-p", "user.err"]);
    let Ok(status) = logger.args(["-t", "test", "it works"]).status() else {
        return eprintln!("skipped: logger is not installed");
    };
    assert!(status.success());
    rig.wait_accepted(1);
    assert!(rig.stop().is_clean());
    let lines = lines_of(directory.path());
    let [(_, marks, text)] = lines.as_slice() else {
        panic!("one line: {lines:?}");
    };
    assert_eq!(*marks, Marks::default());
    assert!(
        text.starts_with("<11>1 ") && text.ends_with("it works"),
        "{text}"
    );
}
