//! Bytes sent to a board and its answers: of a board without a token, and of one whose token the client lacks.
//!
//! To add an attack, add a line. An answer is its status, and from 400 on the line that it says; an answer to HEAD has
//! none. The requests are of HTTP/1.0 or close the connection, so that the board ends it.

use std::io::{Read, Write};

use crate::common::http::{Peer, get, serve};
use freeboard_board::BoardOptions;

const HOST: &str = "403 this board answers to localhost and to addresses, not to other names";
const SITE: &str = "403 this board does not answer to other sites' pages";
const METHOD: &str = "405 the board accepts only GET and HEAD";
const TOKEN: &str =
    "401 this board needs its token: open /?token=TOKEN once, or send it as a bearer token";

#[rustfmt::skip]
const CASES: &[(&[u8], &str, &str)] = &[
    // Local names.
    (b"GET /healthz HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n", "200", TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: 127.0.0.1:7700\r\n\r\n", "200", TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n", "200", TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: LOCALHOST:1\r\n\r\n", "200", TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: board.localhost:1\r\n\r\n", "200", TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: [::1]\r\n\r\n", "200", TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: [::1]:7700\r\n\r\n", "200", TOKEN),
    // Foreign names, and no names.
    (b"GET /healthz HTTP/1.0\r\n\r\n", HOST, TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost:\r\n\r\n", HOST, TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: evil.example\r\n\r\n", HOST, TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: evil.example:7700\r\n\r\n", HOST, TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: localhost.evil.example:7700\r\n\r\n", HOST, TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: 127.0.0.1.evil.example:7700\r\n\r\n", HOST, TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: evil.example/.localhost\r\n\r\n", HOST, TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: evil.example:80.localhost\r\n\r\n", HOST, TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", HOST, TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: localhost, evil.example\r\n\r\n", HOST, TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: localhost@evil.example\r\n\r\n", HOST, TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: localhost:@evil.example\r\n\r\n", HOST, TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: localhost:b\r\n\r\n", HOST, TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: localhost:+1\r\n\r\n", HOST, TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: localhost:65536\r\n\r\n", HOST, TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: localhost:1:2\r\n\r\n", HOST, TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: a:b\r\n\r\n", HOST, TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: \xff\r\n\r\n", HOST, TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: ::1\r\n\r\n", HOST, TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: []\r\n\r\n", HOST, TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: [zz]\r\n\r\n", HOST, TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: [::1\r\n\r\n", HOST, TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: [::1]x\r\n\r\n", HOST, TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: [::1].evil.com\r\n\r\n", HOST, TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: [127.0.0.1]\r\n\r\n", HOST, TOKEN),
    // Pages of other sites, under a local name.
    (b"GET /healthz HTTP/1.0\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\n\r\n", SITE, SITE),
    (b"GET /healthz HTTP/1.0\r\nHost: localhost\r\nSec-Fetch-Site: same-site\r\nSec-Fetch-Mode: no-cors\r\n\r\n", SITE, SITE),
    (b"GET /healthz HTTP/1.0\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n\r\n", "200", TOKEN),
    // Wrong tokens.
    (b"GET /?token= HTTP/1.0\r\nHost: localhost\r\n\r\n", "200", TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer\r\n\r\n", "200", TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer \xff\r\n\r\n", "200", TOKEN),
    (b"GET /healthz HTTP/1.0\r\nHost: localhost\r\nCookie: freeboard_token=; \xff\r\n\r\n", "200", TOKEN),
    // Other methods, and a refused HEAD.
    (b"POST /healthz HTTP/1.0\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n", METHOD, METHOD),
    (b"HEAD /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n", "200", "401"),
    (b"HEAD /healthz HTTP/1.0\r\nHost: evil.example\r\n\r\n", "403", "401"),
    // A refused connection is closed.
    (b"GET /no HTTP/1.1\r\nHost: x\r\n\r\nGET /no HTTP/1.1\r\nHost: x\r\n\r\n", HOST, TOKEN),
    // Not HTTP.
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 TLS\r\n\r\n", "400", "400"),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "", ""),
    (b"\0\0\0\0\r\n\r\n", "400", "400"),
    (b"GET\r\n\r\n", "400", "400"),
    (b"GET / HTTP/9.9\r\n\r\n", "400", "400"),
    (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", "400", "400"),
    (b"GET / HTTP/1.1\r\nHost: \xff\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "400", "400"),
    (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", "400", "400"),
];

/// The answers in the form of the table.
fn shown(answers: &[u8]) -> String {
    let answers = String::from_utf8_lossy(answers);
    let parts = answers.split("HTTP/1.").skip(1).map(|answer| {
        let (head, body) = answer.split_once("\r\n\r\n").expect("a whole head");
        match &head[2..5] {
            "200" => "200".to_owned(),
            status => format!("{status} {body}").trim_end().to_owned(),
        }
    });
    parts.collect::<Vec<_>>().join(" ")
}

#[test]
fn each_request_is_answered_as_the_table_says() {
    let (_open, open) = serve(BoardOptions::new());
    let (_closed, closed) = serve(BoardOptions::new().token("Kxq4-81_vYpLwm0Z"));
    let mut wrong = Vec::new();
    for (bytes, wanted, wanted_with_token) in CASES {
        let what = bytes.escape_ascii();
        for (address, wanted) in [(open, *wanted), (closed, *wanted_with_token)] {
            let mut peer = Peer::connect(address);
            peer.stream().write_all(bytes).unwrap();
            let mut answers = Vec::new();
            // A reset ends what there is.
            let _ = peer.stream().read_to_end(&mut answers);
            let answers = shown(&answers);
            if answers != wanted {
                wrong.push(format!("{what}: {answers:?} in place of {wanted:?}"));
            }
        }
        assert_eq!(get(open, "/healthz").text(), "ok\n");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
