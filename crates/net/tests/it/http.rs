//! An HTTP server and its clients.

use std::io::{Read, Write};

use crate::common::{
    LONG, connect, echo, exchange, read_answer, read_to_end, serve, serve_desk, serve_with,
};
use bytes::Bytes;
use freeboard_net::http::{Body, HttpHandler, Limits};
use freeboard_net::poller::Policy;
use http::{Response, header::CONTENT_TYPE};

#[test]
fn a_connection_answers_one_request_after_the_other_under_each_policy() {
    for policy in [
        Policy::EAGER,
        Policy::DRAIN,
        Policy::Dedicated,
        Policy::Lazy,
    ] {
        let server = serve_with(policy, Limits::default(), echo());
        let mut peer = connect(server.address());
        for number in 0..100 {
            write!(peer, "GET /{number} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            let (head, body) = read_answer(&mut peer);
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
            assert!(head.contains("\r\ndate: "), "{head}");
            assert_eq!(body, format!("GET /{number} "));
        }
        assert_eq!(server.snapshot().requests, 100);
    }
}

#[test]
fn many_requests_at_once_are_answered_in_order() {
    let server = serve(echo());
    let mut peer = connect(server.address());
    let count = 5_000;
    let requests: String = (0..count)
        .map(|number| format!("GET /{number} HTTP/1.1\r\nHost: x\r\n\r\n"))
        .collect();
    let mut writer = peer.try_clone().unwrap();
    let writing = std::thread::spawn(move || writer.write_all(requests.as_bytes()).unwrap());
    for number in 0..count {
        assert_eq!(read_answer(&mut peer).1, format!("GET /{number} "));
    }
    writing.join().unwrap();
}

#[test]
fn connections_end_as_the_client_says() {
    let server = serve(echo());
    let mut peer = connect(server.address());
    write!(
        peer,
        "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let answer = read_to_end(&mut peer);
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    let mut peer = connect(server.address());
    write!(peer, "GET / HTTP/1.0\r\n\r\n").unwrap();
    assert!(read_to_end(&mut peer).ends_with("GET / "));
    let mut peer = connect(server.address());
    write!(peer, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").unwrap();
    let (head, _) = read_answer(&mut peer);
    assert!(head.contains("\r\nconnection: keep-alive\r\n"), "{head}");
    write!(peer, "GET /again HTTP/1.0\r\n\r\n").unwrap();
    assert!(read_to_end(&mut peer).ends_with("GET /again "));
    // A client that shuts down its side first still gets its response.
    let answer = exchange(server.address(), b"GET /half HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(answer.ends_with("GET /half "), "{answer}");
}

#[test]
fn head_is_answered_without_a_body() {
    let server = serve(echo());
    let answer = exchange(server.address(), b"HEAD /x HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(answer.contains("\r\ncontent-length: 8\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
}

#[test]
fn bodies_come_in_whole_and_go_out_in_pieces() {
    let server = serve(echo());
    let chunked = b"POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
        5\r\nhello\r\n6;a=b\r\n world\r\n0\r\nTrailer: t\r\n\r\n";
    assert!(exchange(server.address(), chunked).ends_with("POST /c hello world"));
    let sized = b"POST /s HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello";
    assert!(exchange(server.address(), sized).ends_with("POST /s hello"));

    let pieces = HttpHandler::function(|_| {
        let pieces = (0..3).map(|number| Bytes::from(format!("piece {number}\n")));
        Response::new(Body::pieces(pieces.collect::<Vec<_>>()))
    });
    let server = serve(pieces);
    let answer = exchange(server.address(), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(
        answer.contains("\r\ntransfer-encoding: chunked\r\n"),
        "{answer}"
    );
    assert!(
        answer.ends_with("8\r\npiece 0\n\r\n8\r\npiece 1\n\r\n8\r\npiece 2\n\r\n0\r\n\r\n"),
        "{answer}"
    );
    let answer = exchange(server.address(), b"GET / HTTP/1.0\r\n\r\n");
    assert!(
        answer.ends_with("\r\n\r\npiece 0\npiece 1\npiece 2\n"),
        "{answer}"
    );
}

#[test]
fn a_client_that_waits_for_a_word_gets_it() {
    let server = serve(echo());
    let mut peer = connect(server.address());
    write!(
        peer,
        "PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
    )
    .unwrap();
    let mut word = [0; 25];
    peer.read_exact(&mut word).unwrap();
    assert_eq!(&word, b"HTTP/1.1 100 Continue\r\n\r\n");
    peer.write_all(b"body").unwrap();
    assert_eq!(read_answer(&mut peer).1, "PUT / body");
}

#[test]
fn an_actor_responds_later_and_a_dropped_reply_is_500() {
    let (server, desk, asked) = serve_desk();
    let mut peer = connect(server.address());
    write!(
        peer,
        "GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n"
    )
    .unwrap();
    let first = asked.recv_timeout(LONG).unwrap();
    assert!(asked.try_recv().is_err(), "one request at a time");
    first.send(Response::new(Body::from("first")));
    assert_eq!(read_answer(&mut peer).1, "first");
    drop(asked.recv_timeout(LONG).unwrap());
    let (head, _) = read_answer(&mut peer);
    assert!(head.starts_with("HTTP/1.1 500 "), "{head}");
    desk.stop();
    desk.join();
    write!(peer, "GET /3 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let (head, _) = read_answer(&mut peer);
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
}

#[test]
fn headers_of_the_handler_go_out_and_framing_is_not_its_to_say() {
    let handler = HttpHandler::function(|_| {
        Response::builder()
            .status(201)
            .header(CONTENT_TYPE, "text/plain")
            .header("content-length", "999")
            .header("transfer-encoding", "chunked")
            .body(Body::from("made"))
            .unwrap()
    });
    let server = serve(handler);
    let answer = exchange(server.address(), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 201 Created\r\n"), "{answer}");
    assert!(
        answer.contains("\r\ncontent-type: text/plain\r\n"),
        "{answer}"
    );
    assert!(answer.contains("\r\ncontent-length: 4\r\n"), "{answer}");
    assert!(
        !answer.contains("999") && !answer.contains("chunked"),
        "{answer}"
    );
}

#[test]
fn draining_lets_answers_go_out_and_takes_no_further_connections() {
    let (server, _desk, asked) = serve_desk();
    let idle = connect(server.address());
    let mut busy = connect(server.address());
    write!(busy, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let reply = asked.recv_timeout(LONG).unwrap();
    let draining = server.clone();
    let drained = std::thread::spawn(move || draining.drain(LONG));
    let mut idle = idle;
    assert_eq!(read_to_end(&mut idle), "");
    reply.send(Response::new(Body::from("the last")));
    let answer = read_to_end(&mut busy);
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    assert!(answer.ends_with("the last"), "{answer}");
    assert_eq!(drained.join().unwrap(), 0);
    assert!(std::net::TcpStream::connect(server.address()).is_err());
}

#[test]
fn a_handler_answers_in_full_or_the_client_gets_500() {
    let handler = HttpHandler::function(|request| match request.uri().path() {
        "/panic" => panic!("as the test wants it"),
        "/101" => {
            let answer = Response::builder().status(101);
            answer.body(Body::default()).unwrap()
        }
        _ => {
            let answer = Response::builder().header("connection", "x-hop, close");
            answer.body(Body::from("last")).unwrap()
        }
    });
    let server = serve(handler);
    for path in ["/panic", "/101"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        let answer = exchange(server.address(), request.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 500 "), "{path}: {answer}");
    }
    // The handler closes the connection: later requests are not answered.
    let twice = b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n";
    let answer = exchange(server.address(), twice);
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
    let snapshot = server.snapshot();
    assert_eq!((snapshot.requests, snapshot.answers), (3, 3));
    assert_eq!(snapshot.panics, 1);
}
