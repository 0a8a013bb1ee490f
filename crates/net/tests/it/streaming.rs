//! Bodies in pieces: back-pressure, early responses, broken requests.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    time::Duration,
};

use bytes::Bytes;
use freeboard_net::{
    http::{Begun, Body, BodyFlow, BodySink, HttpHandler, Limits, Reply, Resume},
    poller::Policy,
    tcp::Peer,
};
use http::{Response, StatusCode};

use crate::common::{LONG, Served, connect, eventually, read_answer, read_to_end, serve_with};

/// What happens to a body.
enum Happened {
    Began(Box<Begun>),
    Piece(Bytes),
    End(Reply),
    Dropped,
}

/// Tells the test; a piece that contains a word of its own is answered in a way of its own.
struct Told(Sender<Happened>);

impl BodySink for Told {
    fn piece(&mut self, piece: Bytes) -> BodyFlow {
        let flow = match &piece[..] {
            [.., b'!'] => BodyFlow::Wait,
            [.., b'?'] => {
                let mut response = Response::new(Body::from("no"));
                *response.status_mut() = StatusCode::FORBIDDEN;
                BodyFlow::Respond(response)
            }
            _ => BodyFlow::Continue,
        };
        let _ = self.0.send(Happened::Piece(piece));
        flow
    }

    fn end(self: Box<Self>, reply: Reply) {
        let _ = self.0.send(Happened::End(reply));
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.0.send(Happened::Dropped);
    }
}

fn serve(limits: Limits) -> (Served, Receiver<Happened>) {
    let (sender, happened) = mpsc::channel();
    let sender = Mutex::new(sender);
    let handler = HttpHandler::streaming(move |begun| {
        if begun.request.method() != "POST" {
            return Err(Box::new(Response::new(Body::from("only POST"))));
        }
        let sender = sender.lock().unwrap().clone();
        let _ = sender.send(Happened::Began(Box::new(begun)));
        Ok(Box::new(Told(sender)) as _)
    });
    (serve_with(Policy::EAGER, limits, handler), happened)
}

fn began(happened: &Receiver<Happened>) -> Resume {
    match happened.recv_timeout(LONG).unwrap() {
        Happened::Began(begun) => {
            assert!(matches!(
                begun.request.extensions().get(),
                Some(Peer::Ip(_))
            ));
            begun.resume
        }
        _ => panic!("a request begins"),
    }
}

/// The body up to its end.
fn body(happened: &Receiver<Happened>) -> (Vec<u8>, Reply) {
    let mut body = Vec::new();
    loop {
        match happened.recv_timeout(LONG).unwrap() {
            Happened::Piece(piece) => body.extend(piece),
            Happened::End(reply) => return (body, reply),
            Happened::Began(_) | Happened::Dropped => panic!("the body goes on"),
        }
    }
}

fn dropped(happened: &Receiver<Happened>) {
    loop {
        match happened.recv_timeout(LONG).unwrap() {
            Happened::Piece(_) => {}
            Happened::Dropped => return,
            Happened::Began(_) | Happened::End(_) => panic!("it is dropped"),
        }
    }
}

const LENGTH_5: &[u8] = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n";

#[test]
fn bodies_arrive_in_pieces_and_requests_follow_each_other() {
    let (server, happened) = serve(Limits::default());
    let mut peer = connect(server.address());
    peer.write_all(LENGTH_5).unwrap();
    began(&happened);
    peer.write_all(b"he").unwrap();
    let first = happened.recv_timeout(LONG).unwrap();
    assert!(matches!(first, Happened::Piece(piece) if piece == "he"));
    peer.write_all(b"llo").unwrap();
    // Pipelined: a request in chunks, and one without a body.
    peer.write_all(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
        .unwrap();
    peer.write_all(b"POST / HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    for expected in [&b"llo"[..], b"abcde", b""] {
        if expected != b"llo" {
            began(&happened);
        }
        let (body, reply) = body(&happened);
        assert_eq!(body, expected);
        dropped(&happened);
        reply.send(Response::new(Body::from(body)));
        let (head, body) = read_answer(&mut peer);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert_eq!(body.as_bytes(), expected);
    }
    assert_eq!(server.snapshot().requests, 3);
}

#[test]
fn a_full_sink_stops_the_client_and_its_time() {
    // The time for a body passes while the sink is full, which is not the client's fault.
    let limits = Limits {
        body_time: Duration::from_secs(1),
        body_bytes: 1 << 30,
        ..Limits::default()
    };
    let (server, happened) = serve(limits);
    let peer = connect(server.address());
    let mut writer = peer.try_clone().unwrap();
    let written = std::sync::Arc::new(AtomicUsize::new(0));
    let counted = written.clone();
    const BYTES: usize = 32 << 20;
    let writing = std::thread::spawn(move || {
        let head = format!(
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n!",
            BYTES + 1
        );
        writer.write_all(head.as_bytes()).unwrap();
        for piece in vec![b'x'; BYTES].chunks(1 << 16) {
            writer.write_all(piece).unwrap();
            counted.fetch_add(piece.len(), Ordering::Relaxed);
        }
    });
    let resume = began(&happened);
    // The first piece may have more than the mark, and then the sink reads on.
    let Happened::Piece(first) = happened.recv_timeout(LONG).unwrap() else {
        panic!("a piece");
    };
    let is_full = first.ends_with(b"!");
    if is_full {
        let mut before = usize::MAX;
        eventually("the client stands still", || {
            let now = written.load(Ordering::Relaxed);
            std::mem::replace(&mut before, now) == now && now > 0
        });
        assert!(before < BYTES, "the client waits");
        assert!(happened.recv_timeout(Duration::from_millis(1_500)).is_err());
        resume.resume();
    }
    let (rest, reply) = body(&happened);
    assert_eq!(first.len() + rest.len(), BYTES + 1);
    reply.send(Response::default());
    writing.join().unwrap();
    drop(peer);
}

#[test]
fn a_sink_may_respond_before_the_end_and_before_the_body() {
    let (server, happened) = serve(Limits::default());
    let mut peer = connect(server.address());
    peer.write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
        .unwrap();
    began(&happened);
    peer.write_all(b"why?").unwrap();
    let answer = read_to_end(&mut peer);
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
    dropped(&happened);

    let mut peer = connect(server.address());
    peer.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    let answer = read_to_end(&mut peer);
    assert!(answer.ends_with("only POST"), "{answer}");
}

#[test]
fn broken_bodies_drop_the_sink() {
    let limits = Limits {
        body_bytes: 10,
        ..Limits::default()
    };
    let (server, happened) = serve(limits);
    let check = |request: &[u8], wanted: &str, end: fn(&TcpStream)| {
        let mut peer = connect(server.address());
        peer.write_all(request).unwrap();
        began(&happened);
        end(&peer);
        let mut answer = Vec::new();
        let _ = peer.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with(wanted), "{answer}");
        dropped(&happened);
    };
    let chunks = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    let with = |body: &[u8]| [&chunks[..], body].concat();
    check(
        &with(b"6\r\nabcdef\r\n5\r\nghijk\r\n"),
        "HTTP/1.1 413",
        |_| (),
    );
    check(&with(b"3\r\nabcX"), "HTTP/1.1 400", |_| ());
    check(LENGTH_5, "", |peer| peer.shutdown(Shutdown::Both).unwrap());
    assert_eq!(server.snapshot().refused, 2);
}
