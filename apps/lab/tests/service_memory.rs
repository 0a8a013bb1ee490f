//! What peers can make a service hold that send, or leave unread, more than they should.
#![cfg(target_os = "linux")]

mod lab;

use std::{
    io::{ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    sync::Barrier,
    thread,
    time::Duration,
};

use lab::service::{REQUEST, Service, answer, connect};

/// Peers that do the same at once.
const PEERS: usize = 16;

/// What a peer may cost that sends no body, in bytes: a head and what waits for it to read are 64 KiB
/// each. Twice what was measured.
const PEER_BYTES_MAX: u64 = 200 << 10;
/// What a peer may cost that sends a body, which may be 1 MiB, in a buffer that doubles.
const BODY_PEER_BYTES_MAX: u64 = 3 << 20;

/// After so long without a byte taken, a peer's buffers in the kernel are full.
const FULL: Duration = Duration::from_millis(300);

const CHUNKED: &str = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Does the same on many connections at once, and checks what it costs the service.
fn check_cost(service: &Service, what: &str, peer_bytes_max: u64, act: impl Fn(TcpStream) + Sync) {
    let address = service.address.as_str();
    let growth = service.growth_bytes(|| {
        thread::scope(|scope| {
            for _ in 0..PEERS {
                scope.spawn(|| act(connect(address).unwrap()));
            }
        });
    });
    let each = growth / PEERS as u64;
    assert!(each <= peer_bytes_max, "{what}: {each} bytes each");
    service.wait_for_gauge("freeboard_connections_open", |open| open <= 1);
}

/// Sends `start`, then `again` in pieces of about so many bytes; the first line of what is answered.
fn flood(mut peer: TcpStream, start: &str, again: &str, piece_bytes: usize) -> String {
    // Far over what a peer may cost; a debug build is through with it long before a peer's time is over.
    const FLOOD_BYTES: usize = 4 << 20;
    let piece = again.repeat(piece_bytes.div_ceil(again.len()));
    let mut sent = 0;
    let mut is_taken = peer.write_all(start.as_bytes()).is_ok();
    while is_taken && sent < FLOOD_BYTES {
        // It ends when the server has refused it.
        is_taken = peer.write_all(piece.as_bytes()).is_ok();
        sent += piece.len();
    }
    // Of one that has not, the rest never comes.
    let _ = peer.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    // A reset ends what there is.
    let _ = peer.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    answer.lines().next().unwrap_or_default().to_owned()
}

fn check_flood(what: &str, peer_bytes_max: u64, start: &str, again: &str, answers: &str) {
    let service = Service::http("");
    for piece_bytes in [200, 64 << 10] {
        check_cost(&service, what, peer_bytes_max, |peer| {
            let answer = flood(peer, start, again, piece_bytes);
            assert_eq!(answer, answers, "{what}, {piece_bytes} bytes at once");
        });
    }
    service.end();
}

#[test]
fn heads_without_end_are_bounded() {
    let start = "GET / HTTP/1.1\r\nHost: x\r\n";
    let too_long = "HTTP/1.1 431 Request Header Fields Too Large";
    let one = format!("{start}A: ");
    check_flood("a header", PEER_BYTES_MAX, &one, "a", too_long);
    check_flood("headers", PEER_BYTES_MAX, start, "A: b\r\n", too_long);
    check_flood("a target", PEER_BYTES_MAX, "GET /", "a", too_long);
}

#[test]
fn bodies_without_end_are_bounded() {
    let too_long = "HTTP/1.1 413 Payload Too Large";
    let sized = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n";
    check_flood("a length", PEER_BYTES_MAX, sized, "a", too_long);
    let chunk = format!("64\r\n{}\r\n", "a".repeat(100));
    check_flood("chunks", BODY_PEER_BYTES_MAX, CHUNKED, &chunk, too_long);
    let chunk = format!("{CHUNKED}fffff\r\n{}\r\n", "a".repeat(0xfffff));
    check_flood("a chunk", BODY_PEER_BYTES_MAX, &chunk, "64\r\n", too_long);
}

#[test]
fn chunks_with_more_around_them_than_in_them_are_bounded() {
    let malformed = "HTTP/1.1 400 Bad Request";
    let one = format!("{CHUNKED}1;");
    check_flood("an extension", PEER_BYTES_MAX, &one, "a", malformed);
    let too_long = "HTTP/1.1 431 Request Header Fields Too Large";
    let last = format!("{CHUNKED}0\r\n");
    check_flood("trailers", PEER_BYTES_MAX, &last, "A: b\r\n", too_long);
    // Each is short enough, and the body small: it is the peer's time that ends it.
    let chunk = format!("1;{}\r\na\r\n", "a".repeat(1_000));
    check_flood("extensions", PEER_BYTES_MAX, CHUNKED, &chunk, "");
}

/// Writes until the kernel takes no more, and so nobody reads.
fn fill(peer: &mut TcpStream, piece: &[u8]) {
    const FILL_BYTES_MAX: usize = 256 << 20;
    peer.set_write_timeout(Some(FULL)).unwrap();
    let mut written = 0;
    loop {
        match peer.write(piece) {
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) => panic!("after {written} bytes: {error}"),
        }
        assert!(written < FILL_BYTES_MAX, "it is read without end");
    }
}

#[test]
fn peers_that_ask_and_never_read_are_bounded() {
    let service = Service::http(&format!("--body {}", "x".repeat(100_000)));
    let address = service.address.as_str();
    check_cost(&service, "never read", PEER_BYTES_MAX, |mut peer| {
        fill(&mut peer, &REQUEST.repeat(1_000));
        // Others are served all the same.
        let mut other = connect(address).unwrap();
        other.write_all(REQUEST).unwrap();
        assert_eq!(answer(&mut other).expect("it is open").body.len(), 100_000);
    });
    service.end();
}

#[test]
fn what_a_proxy_holds_for_those_that_never_read_is_bounded() {
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let service = Service::proxy(&backend.local_addr().unwrap().to_string());
    // Until all are done: whose backend one has accepted is not known.
    let all = Barrier::new(PEERS);
    check_cost(&service, "a backend", PEER_BYTES_MAX, |mut front| {
        let _back = backend.accept().unwrap();
        fill(&mut front, &[7; 64 << 10]);
        all.wait();
    });
    check_cost(&service, "a client", PEER_BYTES_MAX, |_front| {
        let (mut back, _) = backend.accept().unwrap();
        fill(&mut back, &[7; 64 << 10]);
        all.wait();
    });
    // And it carries on.
    let mut peer = connect(&service.address).unwrap();
    let (mut back, _) = backend.accept().unwrap();
    peer.write_all(b"there").unwrap();
    back.read_exact(&mut [0; 5]).unwrap();
    drop((peer, back));
    service.end();
}
