//! Slow peers, and peers that keep the server busy.

use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use crate::common::{
    LONG, connect, echo, eventually, read_answer, read_to_end, serve, serve_desk, serve_with,
};
use bytes::Bytes;
use freeboard_net::http::{Body, HttpHandler, Limits};
use freeboard_net::poller::Policy;
use http::Response;

/// A limit so short that a test can exceed it many times.
const SHORT: Duration = Duration::from_millis(100);

/// Longer than a busy machine delays a thread of the test.
const AMPLE: Duration = Duration::from_secs(4);

/// The interval between two bytes of a slow peer.
const BETWEEN: Duration = Duration::from_millis(5);

/// Sends a byte at intervals until there is a response.
fn trickle(peer: &mut TcpStream, bytes: impl IntoIterator<Item = u8>) -> String {
    peer.set_read_timeout(Some(BETWEEN)).unwrap();
    for byte in bytes {
        // The response may have arrived and the connection be closed.
        let _ = peer.write_all(&[byte]);
        let mut first = [0; 1];
        match peer.peek(&mut first) {
            Ok(_) => break,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
    }
    peer.set_read_timeout(Some(LONG)).unwrap();
    read_to_end(peer)
}

#[test]
fn byte_by_byte_a_request_gets_no_more_time() {
    let limits = Limits {
        head_time: SHORT,
        body_time: SHORT,
        ..Limits::default()
    };
    let server = serve_with(Policy::EAGER, limits, echo());
    let sized = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n";
    let chunked = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    let starts = [
        // Nothing follows.
        ("GET / HT", ""),
        ("GET / HTTP/1.1\r\nHost: x\r\nA: ", "a"),
        ("GET / HTTP/1.1\r\nHost: x\r\n", "A: b\r\n"),
        (sized, "a"),
        (chunked, "1\r\na\r\n"),
        (&format!("{chunked}1;"), "a"),
        (&format!("{chunked}0\r\n"), "A: b\r\n"),
    ];
    for (start, again) in starts {
        let mut peer = connect(server.address());
        peer.write_all(start.as_bytes()).unwrap();
        let answer = trickle(&mut peer, again.bytes().cycle().take(10_000));
        assert!(answer.starts_with("HTTP/1.1 408 "), "{start:?}: {answer}");
    }
    assert_eq!(server.snapshot().timed_out, starts.len() as u64);
}

#[test]
fn an_empty_line_gives_an_idle_connection_no_more_time() {
    let limits = Limits {
        idle_time: SHORT,
        head_time: 2 * LONG,
        ..Limits::default()
    };
    let server = serve_with(Policy::EAGER, limits, echo());
    for lines in ["", "\r", "\r\n", "\r\n\r", "\n\r"] {
        let mut peer = connect(server.address());
        peer.write_all(lines.as_bytes()).unwrap();
        let mut answer = Vec::new();
        peer.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, b"", "{lines:?}");
    }
    assert_eq!(server.snapshot().timed_out, 0);
}

#[test]
fn each_request_of_many_has_its_own_time() {
    let limits = Limits {
        head_time: AMPLE,
        body_time: AMPLE,
        ..Limits::default()
    };
    let server = serve_with(Policy::EAGER, limits, echo());
    for request in [
        "GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nfollow",
    ] {
        let mut peer = connect(server.address());
        let (start, end) = request.split_at(request.len() - 4);
        peer.write_all(start.as_bytes()).unwrap();
        let began = Instant::now();
        // The end of one request arrives with the start of the next, so none waits for its first byte.
        let next = format!("{end}{start}");
        while began.elapsed() < AMPLE * 3 / 2 {
            peer.write_all(next.as_bytes()).unwrap();
            let (head, _) = read_answer(&mut peer);
            assert!(head.starts_with("HTTP/1.1 200 "), "{request:?}: {head}");
        }
    }
    assert_eq!(server.snapshot().timed_out, 0);
}

/// An endless body, each piece of which takes so long to make.
fn endless(time: Duration) -> HttpHandler {
    HttpHandler::function(move |request| match request.uri().path() {
        "/endless" => Response::new(Body::pieces(std::iter::repeat_with(move || {
            let began = Instant::now();
            while began.elapsed() < time {
                std::hint::spin_loop();
            }
            Bytes::from_static(&[7; 16 << 10])
        }))),
        _ => Response::new(Body::from("quick")),
    })
}

#[test]
fn a_peer_may_read_for_as_long_as_it_reads() {
    let limits = Limits {
        body_time: AMPLE,
        ..Limits::default()
    };
    let server = serve_with(Policy::EAGER, limits, endless(Duration::ZERO));
    let mut slow = connect(server.address());
    write!(slow, "GET /endless HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let began = Instant::now();
    let mut piece = vec![0; 64 << 10];
    while began.elapsed() < 2 * AMPLE {
        slow.read_exact(&mut piece).unwrap();
    }
    assert_eq!(server.snapshot().timed_out, 0);
    // And no longer.
    eventually("it is closed", || server.connections().open == 0);
    assert_eq!(server.snapshot().timed_out, 1);
}

#[test]
fn answers_without_end_leave_others_their_turn() {
    // The peers read faster than pieces are made: no write waits.
    let handler = endless(Duration::from_micros(200));
    let server = serve(handler);
    // One for each worker, and one more.
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let mut peer = connect(server.address());
            write!(peer, "GET /endless HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            peer.read_exact(&mut [0; 100_000]).unwrap();
            thread::spawn(move || std::io::copy(&mut peer, &mut std::io::sink()))
        })
        .collect();
    let mut other = connect(server.address());
    for _ in 0..100 {
        write!(other, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert_eq!(read_answer(&mut other).1, "quick");
    }
    // The system's shutdown ends the endless bodies.
    assert!(server.drain(Duration::ZERO) >= readers.len());
    server.system.end(Duration::ZERO);
    drop(server);
    for reader in readers {
        let _ = reader.join().unwrap();
    }
}

#[test]
fn the_last_answer_is_whole_whatever_else_was_sent() {
    let (server, _desk, asked) = serve_desk();
    let mut peer = connect(server.address());
    write!(peer, "GET /1 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let reply = asked.recv_timeout(LONG).unwrap();
    write!(peer, "GET /2 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let draining = server.clone();
    let drained = thread::spawn(move || draining.drain(LONG));
    eventually("it drains", || {
        TcpStream::connect(server.address()).is_err()
    });
    // More than the kernel delivers at once.
    let bytes: Vec<u8> = (0..8_000_000_u32).map(|number| number as u8).collect();
    reply.send(Response::new(Body::from(bytes.clone())));
    let mut answer = Vec::new();
    peer.read_to_end(&mut answer).unwrap();
    assert!(answer.ends_with(&bytes), "{} bytes came", answer.len());
    drop(peer);
    assert_eq!(drained.join().unwrap(), 0);
}
