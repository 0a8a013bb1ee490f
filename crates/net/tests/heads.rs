//! What a request may ask for, and what a handler may say.

mod net;

use freeboard_io::Policy;
use freeboard_net::http::{Body, Handler, HttpServer, Limits};
use http::Response;
use net::{LONG, echo, exchange, serve, system};

/// Checks that the answer to each request begins with its status.
fn check(server: &HttpServer, cases: &[(&str, &str)]) {
    for (request, status) in cases {
        let answer = exchange(server.address(), request.as_bytes());
        let expected = format!("HTTP/1.1 {status} ");
        assert!(answer.starts_with(&expected), "{request:?}: {answer:?}");
    }
}

#[test]
fn a_target_is_a_path_a_url_or_all_of_a_server() {
    let (system, poller) = system(Policy::EAGER);
    let server = serve(&system, &poller, Limits::default(), echo());
    check(
        &server,
        &[
            ("GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
            ("GET http://y/z HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
            ("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
            ("GET * HTTP/1.1\r\nHost: x\r\n\r\n", "400"),
            ("GET foo HTTP/1.1\r\nHost: x\r\n\r\n", "400"),
            ("GET /#f HTTP/1.1\r\nHost: x\r\n\r\n", "400"),
            ("CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n", "501"),
        ],
    );
    assert_eq!(server.drain(LONG), 0);
    assert!(system.shutdown(LONG).is_clean());
}

#[test]
fn there_is_one_host_and_it_is_one() {
    let (system, poller) = system(Policy::EAGER);
    let server = serve(&system, &poller, Limits::default(), echo());
    check(
        &server,
        &[
            ("GET / HTTP/1.1\r\nHost: x:80\r\n\r\n", "200"),
            ("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "200"),
            ("GET / HTTP/1.1\r\nHost:\r\n\r\n", "200"),
            ("GET / HTTP/1.0\r\n\r\n", "200"),
            ("GET / HTTP/1.1\r\n\r\n", "400"),
            ("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", "400"),
            ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "400"),
            ("GET / HTTP/1.1\r\nHost: b/@\r\n\r\n", "400"),
            ("GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", "400"),
        ],
    );
    assert_eq!(server.drain(LONG), 0);
    assert!(system.shutdown(LONG).is_clean());
}

#[test]
fn chunks_and_trailers_are_read_strictly() {
    let (system, poller) = system(Policy::EAGER);
    let server = serve(&system, &poller, Limits::default(), echo());
    let head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (body, status) in [
        ("1 ;a=b\r\nx\r\n0\r\nA: b\r\n\r\n", "200"),
        ("1 \x0c\r\nx\r\n0\r\n\r\n", "400"),
        ("1;a\0\r\nx\r\n0\r\n\r\n", "400"),
        ("0\r\nno colon\r\n\r\n", "400"),
        ("0\r\nA: \0\r\n\r\n", "400"),
        ("0\r\n: b\r\n\r\n", "400"),
    ] {
        check(&server, &[(&format!("{head}{body}"), status)]);
    }
    assert_eq!(server.drain(LONG), 0);
    assert!(system.shutdown(LONG).is_clean());
}

#[test]
fn a_handler_answers_in_full_or_the_client_gets_500() {
    let (system, poller) = system(Policy::EAGER);
    let handler = Handler::function(|request| match request.uri().path() {
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
    let server = serve(&system, &poller, Limits::default(), handler);
    check(
        &server,
        &[
            ("GET /panic HTTP/1.1\r\nHost: x\r\n\r\n", "500"),
            ("GET /101 HTTP/1.1\r\nHost: x\r\n\r\n", "500"),
        ],
    );
    // The handler wants the connection closed: what follows is not answered.
    let twice = b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n";
    let answer = exchange(server.address(), twice);
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
    let snapshot = server.snapshot();
    assert_eq!((snapshot.requests, snapshot.answers), (3, 3));
    assert_eq!(snapshot.panics, 1);
    assert_eq!(server.drain(LONG), 0);
    assert!(system.shutdown(LONG).is_clean());
}
