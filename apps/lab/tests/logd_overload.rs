//! `freeboard logd` under overload and bad input, as a user runs it. `FREEBOARD_LOGD_LINES` says how many lines each sender
//! has, `FREEBOARD_LOGD_CLIENTS` how many clients stop within a line.
#![cfg(unix)]

mod lab;

use std::{env, io::Write, net::TcpStream};

use freeboard_test_servers::eventually;
use rustix::process::{Resource, getrlimit, setrlimit};

use lab::log_server::{LogServer, flood_to, numbers_in};

const SENDERS: u32 = 20;
/// Sources hold at most their bounds, and the dams theirs: far below the flood of a soak run.
const PEAK_BYTES_MAX: u64 = 768 << 20;

fn setting(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

#[test]
fn an_overload_loses_nothing_and_memory_stays_bounded() {
    let messages = setting("FREEBOARD_LOGD_LINES", 10_000) as u32;
    let folder = tempfile::tempdir().unwrap();
    let server = LogServer::start(&folder.path().join("LOG"), "");
    let flags = format!("--senders {SENDERS} --messages {messages} --limit 3600");
    let (code, json) = flood_to(&format!("tcp:{}", server.address), &flags);
    assert_eq!((code, &json["closed"]), (0, &0.into()), "{json}");
    let peak_bytes = server.peak_bytes();
    assert!(peak_bytes < PEAK_BYTES_MAX, "{} MiB", peak_bytes >> 20);
    let log = server.log.clone();
    server.end();
    let numbers = numbers_in(&log);
    assert_eq!(numbers.len(), SENDERS as usize);
    for (sender, numbers) in numbers {
        assert!(numbers.into_iter().eq(0..messages), "sender {sender}");
    }
}

/// The bytes of a line that is not complete yet, and those of its buffers, sockets and actors.
const CLIENT_BYTES_MAX: u64 = 192 << 10;

/// Lines of the log with this text, and the bytes of all its lines.
fn lines_with(server: &LogServer, text: &str) -> (usize, usize) {
    let flags = format!("logs {} --raw --grep {text}", server.log.display());
    let shown = lab::run(&flags).stdout;
    let lines = shown.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty());
    lines.fold((0, 0), |(count, bytes), line| {
        (count + 1, bytes + line.len())
    })
}

#[test]
fn clients_that_stop_within_a_line_take_bounded_memory_and_lose_nothing() {
    let clients = setting("FREEBOARD_LOGD_CLIENTS", 1_000);
    let mut files = getrlimit(Resource::Nofile);
    files.current = files.maximum;
    setrlimit(Resource::Nofile, files).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let server = LogServer::start(&folder.path().join("LOG"), "");
    let before = server.peak_bytes();
    // One of two claims a message of 9 GB.
    let half = |number: u64| match number % 2 {
        0 => format!("<14>whole\n<14>half {}", "x".repeat(60_000)),
        _ => format!("9 <14>whole9000000000 <14>half {}", "x".repeat(60_000)),
    };
    let connections: Vec<_> = (0..clients)
        .map(|number| {
            let mut client = TcpStream::connect(&server.address).unwrap();
            client.write_all(half(number).as_bytes()).unwrap();
            client
        })
        .collect();
    eventually("the whole lines are there", || {
        lines_with(&server, "whole").0 as u64 == clients
    });
    drop(connections);
    eventually("the half ones too", || {
        lines_with(&server, "half").0 as u64 == clients
    });
    let more = server.peak_bytes() - before;
    assert!(
        more < (64 << 20) + clients * CLIENT_BYTES_MAX,
        "{} MiB",
        more >> 20
    );
    server.end();
}

#[test]
fn a_line_of_100_mb_is_taken_in_parts_in_bounded_memory() {
    const LINE_BYTES: usize = 100 << 20;
    let folder = tempfile::tempdir().unwrap();
    let server = LogServer::start(&folder.path().join("LOG"), "");
    let before = server.peak_bytes();
    let mut client = TcpStream::connect(&server.address).unwrap();
    let part = vec![b'x'; 1 << 20];
    for _ in 0..LINE_BYTES / part.len() {
        client.write_all(&part).unwrap();
    }
    client.write_all(b"\n<14>the next\n").unwrap();
    drop(client);
    eventually("the line behind it is there", || {
        lines_with(&server, "next").0 == 1
    });
    let (parts, bytes) = lines_with(&server, "x");
    assert_eq!(bytes, LINE_BYTES + "<14>the next".len());
    assert_eq!(parts, LINE_BYTES / (64 << 10) + 1);
    let more = server.peak_bytes() - before;
    assert!(more < 100 << 20, "{} MiB", more >> 20);
    server.end();
}
