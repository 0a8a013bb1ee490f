//! Many connections at once that have nothing to say, and what they cost.
//!
//! Alone in its process, which needs a file for each.
#![cfg(target_os = "linux")]

mod lab;

use std::{io::Write, net::TcpStream};

use lab::service::{REQUEST, Service, answer};
use rustix::process::{Resource, getrlimit, setrlimit};

const CONNECTIONS: usize = 10_000;

/// What a connection may cost the server, in bytes: twice what was measured, 2,300.
const CONNECTION_BYTES_MAX: u64 = 5_000;

/// Connections that are opened before the last of them is asked: no more than wait to be accepted.
const BATCH: usize = 500;

/// Lets this process, and those it starts, have as many files as they may.
fn raise_files() {
    let mut files = getrlimit(Resource::Nofile);
    // Each process has its side of the connections, and some more.
    let needed = CONNECTIONS as u64 + 500;
    let maximum = files.maximum.unwrap_or(u64::MAX);
    assert!(maximum >= needed, "{needed} files are needed (ulimit -Hn)");
    files.current = files.maximum;
    setrlimit(Resource::Nofile, files).unwrap();
}

fn check_answers(peer: &mut TcpStream) {
    peer.write_all(REQUEST).unwrap();
    let answer = answer(peer).expect("it is open");
    assert!(answer.head.starts_with("HTTP/1.1 200 "), "{}", answer.head);
}

fn open(server: &Service) -> Vec<TcpStream> {
    let mut peers = Vec::new();
    while peers.len() < CONNECTIONS {
        peers.extend((0..BATCH).map(|_| server.connect()));
        check_answers(peers.last_mut().unwrap());
    }
    peers
}

#[test]
fn ten_thousand_idle_connections_cost_little_answer_and_give_their_places_back() {
    raise_files();
    let server = Service::http("");
    let open_gauge = "freeboard_connections_open";
    // The one that asks is open as well.
    assert_eq!(server.gauge(open_gauge), 1);
    let empty = server.resident_bytes();
    // The second time in the memory of the first.
    for _ in 0..2 {
        let mut peers = open(&server);
        let cost = (server.resident_bytes() - empty) / CONNECTIONS as u64;
        assert!(cost <= CONNECTION_BYTES_MAX, "{cost} bytes each");
        assert_eq!(server.gauge(open_gauge), CONNECTIONS as u64 + 1);
        peers.iter_mut().step_by(37).for_each(check_answers);
        drop(peers);
        server.wait_for_gauge(open_gauge, |open| open == 1);
    }
    server.end();
}
