//! Limits: clients that send or hold more than they may.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use crate::common::{
    LIMIT, eventually,
    http::{Peer, Viewer, ask, get, serve, watched},
    quiet_system,
};
use freeboard_board::BoardOptions;

/// Short enough for a test, and longer than the delays of a busy machine.
const PATIENCE: Duration = Duration::from_secs(2);

#[test]
fn a_head_that_is_too_long_is_refused() {
    let (_board, address) = serve(BoardOptions::new());
    let one = |name: &str| format!("{name}{}\r\n", "a".repeat(16 * 1024));
    for request in [
        format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(16 * 1024)),
        format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", one("A: ")),
        format!(
            "GET / HTTP/1.1\r\nHost: x\r\n{}",
            "A: bcdefgh\r\n".repeat(10_000)
        ),
    ] {
        for piece in [100, request.len()] {
            let mut peer = Peer::connect(address);
            for bytes in request.as_bytes().chunks(piece) {
                // It may be refused before everything is sent.
                if peer.stream().write_all(bytes).is_err() {
                    break;
                }
            }
            assert_eq!(peer.head().unwrap().status, 431, "{}", &request[..40]);
        }
    }
    assert_eq!(get(address, "/healthz").text(), "ok\n");
}

#[test]
fn slow_and_silent_clients_are_closed() {
    let (_board, address) = serve(BoardOptions::new().patience(PATIENCE));
    let mut silent = Peer::connect(address);
    let mut idle = Peer::connect(address);
    idle.ask("GET /healthz", &[]);
    assert_eq!(idle.answer().unwrap().head.status, 200);
    let mut slow = Peer::connect(address);
    slow.ask("GET /", &[]);
    slow.answer().unwrap();
    write!(slow.stream(), "GET / HTTP/1.1\r\nHost: x\r\nA: ").unwrap();
    eventually("one that sends a byte at a time is let go", || {
        // Later requests are refused.
        slow.stream().write_all(b"a").is_err() || slow.is_closed()
    });
    eventually("one that is idle is let go", || idle.is_closed());
    eventually("one that says nothing is let go", || silent.is_closed());
}

#[test]
fn a_reading_viewer_is_not_closed() {
    let (_board, address) = serve(BoardOptions::new().patience(PATIENCE));
    let mut viewer = Viewer::open(address, "").unwrap();
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE * 3 {
        viewer.next().expect("it goes on");
    }
}

#[test]
fn a_client_that_never_reads_is_closed() {
    let (_board, address) = serve(BoardOptions::new().patience(PATIENCE));
    let mut peer = Peer::connect(address);
    let many = format!("GET /board.js HTTP/1.1\r\nHost: {address}\r\n\r\n").repeat(100);
    let deadline = Instant::now() + LIMIT;
    // Its requests are not read any more, until it is closed.
    while peer.stream().write_all(many.as_bytes()).is_ok() {
        assert!(Instant::now() < deadline);
    }
    assert_eq!(get(address, "/healthz").text(), "ok\n");
}

#[test]
fn viewers_are_bounded_and_release_their_permits() {
    let (_system, _board, address) = watched("viewed", BoardOptions::new().viewers_max(2));
    let mut first = Viewer::open(address, "").unwrap();
    let second = Viewer::open(address, "sort=name").unwrap();
    let refused = Viewer::open(address, "").unwrap_err();
    assert_eq!(refused.head.status, 503);
    assert!(refused.line().starts_with("2 pages are kept up to date"));
    // Other requests are answered all the same, and viewers get frames.
    assert_eq!(get(address, "/api/frame").head.status, 200);
    first.next().unwrap();
    drop(second);
    eventually("there is room again", || Viewer::open(address, "").is_ok());
}

#[test]
fn idle_connections_are_replaced_by_new_ones() {
    const TOKEN: &str = "Kxq4-81_vYpLwm0Z";
    let bearer = format!("Authorization: Bearer {TOKEN}");
    let (board, address) = serve(BoardOptions::new().token(TOKEN));
    let system = quiet_system("kept");
    board.watch(&system);
    let mut viewer = Viewer::open(address, &format!("token={TOKEN}")).unwrap();
    for sent in ["", "G", "GET / HTTP/1.1\r\nHost: x\r\nA: "] {
        // More than the limit; the board would wait 30 s for each request.
        let mut idle: Vec<Peer> = (0..300).map(|_| Peer::connect(address)).collect();
        for peer in &mut idle {
            // The oldest are closed already.
            let _ = peer.stream().write_all(sent.as_bytes());
        }
        for _ in 0..10 {
            let answer = ask(address, "GET /healthz", &[&bearer]);
            assert_eq!(answer.head.status, 200, "behind {sent:?}");
        }
        eventually("the oldest are closed", || {
            idle[..40].iter_mut().all(Peer::is_closed)
        });
        assert!(!idle[299].is_closed(), "the newest stay, {sent:?}");
        viewer.next().expect("who has brought a request stays");
    }
}

#[test]
fn refused_connections_release_their_permit() {
    let (_board, address) = serve(BoardOptions::new().token("Kxq4-81_vYpLwm0Z"));
    for what in ["GET /healthz", "POST /healthz"] {
        let mut stranger = Peer::connect(address);
        stranger.ask(what, &[]);
        let answer = stranger.answer().unwrap();
        assert_eq!(answer.head.field("connection"), Some("close"), "{what}");
        eventually("it is closed", || stranger.is_closed());
    }
}

#[test]
fn connections_are_bounded_and_release_their_permits() {
    let (_board, address) = serve(BoardOptions::new().connections_max(2));
    let mut peers: Vec<Peer> = (0..2).map(|_| Peer::connect(address)).collect();
    for peer in &mut peers {
        peer.ask("GET /healthz", &[]);
        assert_eq!(peer.answer().unwrap().head.status, 200);
    }
    for _ in 0..10 {
        let refused = get(address, "/healthz");
        assert_eq!(refused.head.status, 503);
        assert_eq!(refused.head.field("connection"), Some("close"));
        assert_eq!(
            refused.line(),
            "the board has as many connections open as it may have"
        );
    }
    peers[0].ask("GET /healthz", &[]);
    assert_eq!(peers[0].answer().unwrap().head.status, 200);
    peers.clear();
    eventually("there is room again", || {
        get(address, "/healthz").head.status == 200
    });
}
