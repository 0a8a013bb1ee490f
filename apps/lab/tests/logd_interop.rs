//! `freeboard logd` between real programs: logger, rsyslog and syslog-ng send to it, and `lab flood --to` floods it and rsyslog.
#![cfg(unix)]

mod lab;

use std::{
    fs,
    io::Read,
    net::TcpListener,
    os::unix::net::{UnixDatagram, UnixListener},
    process::Command,
    thread,
};

use freeboard_test_servers::{
    Server, ServerError, eventually, if_installed, is_on_path, rsyslog, syslog_ng,
};
use lab::{
    Running, check_usage,
    log_server::{LogServer, flood_to, number_of, numbers_in},
    run, say, stdout,
};

const SENDERS: u32 = 4;
const MESSAGES: u32 = 250;

/// Whether each sender's lines are there once and in order.
fn assert_all(numbers: &std::collections::BTreeMap<u32, Vec<u32>>, senders: u32, messages: u32) {
    assert_eq!(numbers.len(), senders as usize);
    for (sender, numbers) in numbers {
        assert!(numbers.iter().copied().eq(0..messages), "sender {sender}");
    }
}

/// A flood goes to a server that forwards it to the port of logd.
fn check_forwarding(start: impl FnOnce(&str) -> Result<Server, ServerError>) {
    let folder = tempfile::tempdir().unwrap();
    let server = LogServer::start(&folder.path().join("LOG"), "");
    let Some(forwarder) = if_installed(start(server.port())) else {
        return;
    };
    let flags = format!("--senders {SENDERS} --messages {MESSAGES}");
    let (code, _) = flood_to(&format!("tcp:{}", forwarder.address()), &flags);
    assert_eq!(code, 0);
    let follower = Running::start(&format!("logs {} --follow -n 100000", server.log.display()));
    for _ in 0..SENDERS * MESSAGES {
        while number_of(&follower.line().expect("all lines are forwarded")).is_none() {}
    }
    let log = server.log.clone();
    server.end();
    assert_all(&numbers_in(&log), SENDERS, MESSAGES);
    let json = stdout(&run(&format!(
        "logs {} --json --grep sender=00003",
        log.display()
    )));
    let line: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&line["severity"], &line["facility"]),
        (&"info".into(), &1.into())
    );
}

/// rsyslog, which forwards in this way.
fn rsyslog_to(port: &str, options: &str) -> Result<Server, ServerError> {
    rsyslog(&format!(
        "action(type=\"omfwd\" target=\"127.0.0.1\" port=\"{port}\" protocol=\"tcp\" {options})"
    ))
}

#[test]
fn rsyslog_forwards_lines_with_newlines() {
    check_forwarding(|port| rsyslog_to(port, ""));
}

#[test]
fn rsyslog_forwards_lines_with_their_lengths() {
    let options = "TCP_Framing=\"octet-counted\" template=\"RSYSLOG_SyslogProtocol23Format\"";
    check_forwarding(|port| rsyslog_to(port, options));
}

#[test]
fn syslog_ng_forwards_lines_with_newlines() {
    check_forwarding(|port| syslog_ng(&format!("network(\"127.0.0.1\" port({port}))")));
}

#[test]
fn syslog_ng_forwards_lines_with_their_lengths() {
    let syslog = |port: &str| format!("syslog(\"127.0.0.1\" port({port}) transport(\"tcp\"))");
    check_forwarding(|port| syslog_ng(&syslog(port)));
}

#[test]
fn logger_sends_lines() {
    if !is_on_path("logger") {
        return say("skipped: logger is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let server = LogServer::start(&folder.path().join("LOG"), "");
    for (framing, text) in [
        ("--rfc5424", "one"),
        ("--octet-count", "two"),
        ("--rfc3164", "three"),
    ] {
        let status = Command::new("logger")
            .args(["-n", "127.0.0.1", "-P", server.port(), "-T", framing])
            .args(["-p", "daemon.err", text])
            .status();
        assert!(status.unwrap().success());
    }
    let log = server.log.display().to_string();
    eventually("the lines are in the log", || {
        let shown = stdout(&run(&format!("logs {log} --severity err..err")));
        let has = |text: &str| shown.lines().any(|line| line.ends_with(text));
        has("one") && has("two") && has("three")
    });
    server.end();
}

#[test]
fn a_flood_is_taken_whole() {
    let folder = tempfile::tempdir().unwrap();
    let server = LogServer::start(&folder.path().join("LOG"), "");
    let (code, json) = flood_to(
        &format!("tcp:{}", server.address),
        "--senders 5 --messages 1000",
    );
    assert_eq!(code, 0, "{json}");
    assert_eq!(
        (&json["sent"], &json["confirmed"]),
        (&5_000.into(), &5.into())
    );
    let log = server.log.clone();
    server.end();
    assert_all(&numbers_in(&log), 5, 1_000);
}

#[test]
fn a_flood_reaches_a_file_of_rsyslog() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lines");
    let action = format!("action(type=\"omfile\" file=\"{}\")", file.display());
    let Some(rsyslog) = if_installed(rsyslog(&action)) else {
        return;
    };
    let (code, json) = flood_to(
        &format!("tcp:{}", rsyslog.address()),
        "--senders 2 --messages 500",
    );
    assert_eq!(code, 0, "{json}");
    eventually("the lines are in the file", || {
        let text = fs::read_to_string(&file).unwrap_or_default();
        text.lines()
            .filter(|line| number_of(line).is_some())
            .count()
            == 1_000
    });
}

#[test]
fn unix_sockets_of_both_types_are_flooded() {
    let folder = tempfile::tempdir().unwrap();
    let (stream, datagrams) = (
        folder.path().join("stream"),
        folder.path().join("datagrams"),
    );
    let listener = UnixListener::bind(&stream).unwrap();
    let reader = thread::spawn(move || {
        // The first connection only finds out whether somebody listens.
        let mut texts = listener.incoming().take(3).map(|connection| {
            let mut text = String::new();
            connection.unwrap().read_to_string(&mut text).map(|_| text)
        });
        texts.find(|text| text.as_ref().is_ok_and(|text| !text.is_empty()))
    });
    let server = format!("unix:{}", stream.display());
    let (code, json) = flood_to(&server, "--senders 1 --messages 100");
    assert_eq!((code, &json["confirmed"]), (0, &1.into()), "{json}");
    let text = reader
        .join()
        .unwrap()
        .expect("a connection with lines")
        .unwrap();
    assert_eq!(text.lines().filter_map(number_of).count(), 100);

    let socket = UnixDatagram::bind(&datagrams).unwrap();
    let reader = thread::spawn(move || {
        let mut bytes = [0; 1_024];
        (0..100).all(|number| {
            let length = socket.recv(&mut bytes).unwrap();
            let line = String::from_utf8_lossy(&bytes[..length]).into_owned();
            number_of(&line) == Some((0, number))
        })
    });
    let server = format!("unix:{}", datagrams.display());
    let (code, json) = flood_to(&server, "--senders 1 --messages 100");
    assert_eq!((code, &json["confirmed"]), (0, &0.into()), "{json}");
    assert!(reader.join().unwrap());
}

#[test]
fn a_server_that_reads_nothing_blocks_its_senders_until_the_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("tcp:{}", listener.local_addr().unwrap());
    let (code, json) = flood_to(&server, "--senders 2 --messages 1000000 --limit 1");
    assert_eq!(code, 1);
    assert_eq!(
        (&json["blocked_senders"], &json["stopped"]),
        (&2.into(), &2.into())
    );
    assert!(json["blocked_s"].as_f64().unwrap() > 0.0);
    assert!(json["sent"].as_u64().unwrap() < 2_000_000);
}

#[test]
fn a_server_that_closes_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("tcp:{}", listener.local_addr().unwrap());
    thread::spawn(move || listener.incoming().for_each(drop));
    let (code, json) = flood_to(&server, "--senders 3 --messages 1000000");
    assert_eq!((code, &json["closed"]), (1, &3.into()), "{json}");
    assert!(json["error"].is_string());
}

#[test]
fn a_flood_of_nobody_is_bad_usage() {
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    check_usage(&format!("lab flood --to tcp:{free}"), "refused");
    check_usage("lab flood --to 127.0.0.1:1514", "write tcp:HOST:PORT");
    check_usage(
        "lab flood --to tcp:127.0.0.1:1 --senders 2001",
        "up to 2000 senders",
    );
    check_usage(
        "lab flood --to udp:127.0.0.1:1 --trials",
        "cannot be used with",
    );
}
