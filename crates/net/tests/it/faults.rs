//! Misbehaving peers and their cost.

use std::{
    io::{Read, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::common::{
    LONG, connect, echo, eventually, exchange, read_answer, reset, serve, serve_desk,
};
use bytes::Bytes;
use freeboard_net::http::{Body, HttpHandler};
use http::Response;

/// More than kernels buffer for two sockets, in pieces of 64 KiB.
const PIECES_MAX: u64 = 512;

#[test]
fn a_peer_that_never_reads_stops_only_its_own_response() {
    let made = Arc::new(AtomicU64::new(0));
    let counted = made.clone();
    let handler = HttpHandler::function(move |request| {
        if request.uri().path() != "/endless" {
            return Response::new(Body::from("quick"));
        }
        let counted = counted.clone();
        Response::new(Body::pieces(std::iter::repeat_with(move || {
            counted.fetch_add(1, Ordering::SeqCst);
            Bytes::from(vec![7; 64 << 10])
        })))
    });
    let server = serve(handler);
    let mut deaf = connect(server.address());
    write!(deaf, "GET /endless HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut other = connect(server.address());
    for _ in 0..1_000 {
        write!(other, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert_eq!(read_answer(&mut other).1, "quick");
    }
    let pieces = made.load(Ordering::SeqCst);
    assert!(pieces < PIECES_MAX, "{pieces} pieces of 64 KiB were made");
    drop((deaf, other));
}

#[test]
fn peers_that_leave_in_the_middle_are_counted_and_forgotten() {
    let server = serve(echo());
    for request in [
        "GET / HT",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf",
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhalf",
    ] {
        let mut peer = connect(server.address());
        peer.write_all(request.as_bytes()).unwrap();
    }
    assert_eq!(
        exchange(server.address(), b"GET / HTTP/1.0\r\n\r\n")
            .lines()
            .next(),
        Some("HTTP/1.1 200 OK")
    );
    assert_eq!(server.drain(LONG), 0);
    assert_eq!(server.snapshot().broken, 3);
}

#[test]
fn peers_that_reset_in_mid_request_are_counted_and_forgotten() {
    let server = serve(echo());
    let requests = [
        "G",
        "GET / HTTP/1.1\r\nHost: x\r\nA: ",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf",
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhalf",
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nA: ",
    ];
    for request in requests {
        let before = server.snapshot().bytes_read;
        let mut peer = connect(server.address());
        peer.write_all(request.as_bytes()).unwrap();
        eventually("it was read", || {
            server.snapshot().bytes_read == before + request.len() as u64
        });
        reset(peer);
    }
    let broken = requests.len() as u64;
    eventually("all are forgotten", || server.connections().open == 0);
    assert_eq!(server.snapshot().broken, broken);
    assert_eq!(server.snapshot().requests, 0);
}

#[test]
fn peers_that_reset_before_their_answer_are_forgotten_with_it() {
    let (server, _desk, asked) = serve_desk();
    let mut peer = connect(server.address());
    write!(peer, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let reply = asked.recv_timeout(LONG).unwrap();
    reset(peer);
    eventually("it is forgotten", || server.connections().open == 0);
    assert_eq!(server.snapshot().broken, 1);
    // The client is gone.
    reply.send(Response::new(Body::from("late")));
    let mut peer = connect(server.address());
    write!(peer, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let pieces = std::iter::repeat_with(|| Bytes::from_static(&[7; 1_000]));
    let reply = asked.recv_timeout(LONG).unwrap();
    reply.send(Response::new(Body::pieces(pieces)));
    peer.read_exact(&mut [0; 10_000]).unwrap();
    reset(peer);
    eventually("it is forgotten", || server.connections().open == 0);
    assert_eq!(server.snapshot().broken, 2);
}

#[test]
fn many_idle_connections_each_still_answer() {
    const CONNECTIONS: usize = 400;
    let server = serve(echo());
    let mut peers: Vec<_> = (0..CONNECTIONS)
        .map(|_| connect(server.address()))
        .collect();
    for peer in &mut peers {
        peer.write_all(b"GET /1 HTTP/1.1\r\nHost: x\r\n\r\n")
            .unwrap();
        assert_eq!(read_answer(peer).1, "GET /1 ");
    }
    assert_eq!(server.connections().open, CONNECTIONS as u64);
    for peer in &mut peers {
        peer.write_all(b"GET /2 HTTP/1.1\r\nHost: x\r\n\r\n")
            .unwrap();
        assert_eq!(read_answer(peer).1, "GET /2 ");
    }
}

#[test]
fn a_flood_of_empty_lines_or_a_body_that_is_refused_does_not_hold_a_connection() {
    let server = serve(echo());
    let answer = exchange(server.address(), &b"\r\n".repeat(100_000));
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    let mut large = connect(server.address());
    write!(
        large,
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n"
    )
    .unwrap();
    let (head, _) = read_answer(&mut large);
    assert!(head.starts_with("HTTP/1.1 413 "), "{head}");
    drop(large);
    assert_eq!(server.drain(LONG), 0);
    assert_eq!(server.snapshot().refused, 2);
}
