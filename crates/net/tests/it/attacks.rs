//! Malformed and ambiguous requests, and the responses to them.
//!
//! To add an attack, add a line: the bytes, and the statuses of all responses, in order. A status of 400 or more is
//! followed by the body of the response, which is the reason; a response to HEAD has none. The client shuts down
//! its side after the bytes.

use crate::common::{echo, exchange, serve};
use crate::reading::CHUNKED;
use freeboard_net::http::Limits;

#[rustfmt::skip]
const CASES: &[(&[u8], &str)] = &[
    (b"", ""),
    (b"\r", ""),
    (b"G", ""),
    // The request line.
    (b"GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
    (b"GET http://y/z HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
    (b"GET http://y:b/z HTTP/1.1\r\nHost: x\r\n\r\n", "400 malformed: the target"),
    (b"GET http://[zz]/z HTTP/1.1\r\nHost: x\r\n\r\n", "400 malformed: the target"),
    (b"GET http://a@y/z HTTP/1.1\r\nHost: x\r\n\r\n", "400 malformed: the target"),
    (b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
    (b"GET * HTTP/1.1\r\nHost: x\r\n\r\n", "400 malformed: the target"),
    (b"GET foo HTTP/1.1\r\nHost: x\r\n\r\n", "400 malformed: the target"),
    (b"GET /#f HTTP/1.1\r\nHost: x\r\n\r\n", "400 malformed: the target"),
    (b"CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n", "501 the method is not served"),
    (b"GET / HTTP/2.0\r\n\r\n", "505 not HTTP/1"),
    (b"\x16\x03\x01\x02\x00\x01", "400 malformed: the head"),
    // Exactly one valid host.
    (b"GET / HTTP/1.1\r\nHost: x:80\r\n\r\n", "200"),
    (b"GET / HTTP/1.1\r\nHost: x:\r\n\r\n", "200"),
    (b"GET / HTTP/1.1\r\nHost: a-b.c_d~e\r\n\r\n", "200"),
    (b"GET / HTTP/1.1\r\nHost: 127.0.0.1:65535\r\n\r\n", "200"),
    (b"GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n", "200"),
    (b"GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "200"),
    (b"GET / HTTP/1.1\r\nHost:\r\n\r\n", "200"),
    (b"GET / HTTP/1.0\r\n\r\n", "200"),
    (b"GET / HTTP/1.1\r\n\r\n", "400 malformed: it needs one host"),
    (b"POST / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", "400 malformed: it needs one host"),
    (b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", "400 malformed: it needs one host"),
    (b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "400 malformed: the host"),
    (b"GET / HTTP/1.1\r\nHost: b/@\r\n\r\n", "400 malformed: the host"),
    (b"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", "400 malformed: the host"),
    (b"GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", "400 malformed: the host"),
    (b"GET / HTTP/1.1\r\nHost: a:1:2\r\n\r\n", "400 malformed: the host"),
    (b"GET / HTTP/1.1\r\nHost: a:+1\r\n\r\n", "400 malformed: the host"),
    (b"GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n", "400 malformed: the host"),
    (b"GET / HTTP/1.1\r\nHost: :80\r\n\r\n", "400 malformed: the host"),
    (b"GET / HTTP/1.1\r\nHost: a%20b\r\n\r\n", "400 malformed: the host"),
    (b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n", "400 malformed: the host"),
    (b"GET / HTTP/1.1\r\nHost: ::1\r\n\r\n", "400 malformed: the host"),
    (b"GET / HTTP/1.1\r\nHost: []\r\n\r\n", "400 malformed: the host"),
    (b"GET / HTTP/1.1\r\nHost: [zz]\r\n\r\n", "400 malformed: the host"),
    (b"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", "400 malformed: the host"),
    (b"GET / HTTP/1.1\r\nHost: [::1]x\r\n\r\n", "400 malformed: the host"),
    (b"GET / HTTP/1.1\r\nHost: [::1].evil.com\r\n\r\n", "400 malformed: the host"),
    (b"GET / HTTP/1.1\r\nHost: [127.0.0.1]\r\n\r\n", "400 malformed: the host"),
    // Bytes after a request.
    (b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", "200 200"),
    (b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
    (b"GET / HTTP/1.1\r\nHost: x\r\nConnection: x,\tCLOSE\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
    (b"GET / HTTP/1.1\r\nHost: x\r\nConnection: \xff, close\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
    (b"GET / HTTP/1.1\r\nHost: x\r\nConnection: \xffclose\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", "200 200"),
    (b"GET / HTTP/1.0\r\n\r\nGET / HTTP/1.0\r\n\r\n", "200"),
    (b"GET / HTTP/1.0\r\nConnection: \xff, keep-alive\r\n\r\nGET / HTTP/1.0\r\n\r\n", "200 200"),
    // Empty lines before a request, at most 16.
    (b"\r\n\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", "200 200"),
    (b"\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
    (b"\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", "400 malformed: empty lines"),
    (b"\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n", "400 malformed: empty lines"),
    (b"\r\rGET / HTTP/1.1\r\nHost: x\r\n\r\n", "400 malformed: the head"),
    // Requests that parsers read differently.
    (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", "200"),
    (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", "200"),
    (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400 malformed: two lengths"),
    (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", "400 malformed: two lengths"),
    (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "400 malformed: two lengths"),
    (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5, 6\r\n\r\nhello", "400 malformed: the length"),
    (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\nhello", "400 malformed: the length"),
    (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0x5\r\n\r\nhello", "400 malformed: the length"),
    (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\nhello", "400 malformed: the length"),
    (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n\r\nhello", "400 malformed: the length"),
    (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length : 5\r\n\r\nhello", "400 malformed: the head"),
    (b"POST / HTTP/1.1\r\nHost: x\r\n Content-Length: 5\r\n\r\nhello", "400 malformed: the head"),
    (b"POST / HTTP/1.1\r\nHost: x\r\nX: a\rb\r\n\r\n", "400 malformed: the head"),
    (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "400 malformed: a transfer coding in HTTP/1.0"),
    (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n0\r\n\r\n", "501 an unknown transfer coding"),
    (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", "501 an unknown transfer coding"),
    (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "501 an unknown transfer coding"),
    (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "501 an unknown transfer coding"),
    (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", "501 an unknown transfer coding"),
    (b"GET / HTTP/1.1\r\nHost: x\r\nExpect: a miracle\r\n\r\n", "417 an unknown expectation"),
    // Sizes.
    (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n", "413 the body is too long"),
    (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n", "413 the body is too long"),
    // A refused HEAD gets the head of the refusal.
    (b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
    (b"HEAD / HTTP/1.1\r\n\r\n", "400"),
    (b"\r\nHEAD / HTTP/1.1\r\nHost: a:b\r\n\r\n", "400"),
    (b"HEAD / HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n", "413"),
    (b"HEAD / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", "400"),
    (b"HEAD / HTTP/2.0\r\n\r\n", "505"),
    (b"HEADS / HTTP/1.1\r\n\r\n", "400 malformed: it needs one host"),
    (b"GET / HTTP/1.1\r\nHost: x\r\n\r\nHEAD / HTTP/1.1\r\n\r\nHEAD / HTTP/1.1\r\nHost: x\r\n\r\n", "200 400"),
];

/// Bodies in chunks.
#[rustfmt::skip]
const BODIES: &[(&[u8], &str)] = &[
    (b"1 ;a=b\r\nx\r\n0\r\nA: b\r\n\r\n", "200"),
    (b"x\r\n", "400 malformed: a chunk's size"),
    (b"-1\r\n", "400 malformed: a chunk's size"),
    (b"+1\r\na", "400 malformed: a chunk's size"),
    (b"0x1\r\na", "400 malformed: a chunk's size"),
    (b"\r\n", "400 malformed: a chunk's size"),
    (b" 1\r\na", "400 malformed: a chunk's size"),
    (b"1\na\n", "400 malformed: a chunk's line"),
    (b"1;\r\r\na", "400 malformed: a chunk's line"),
    (b"1 \x0c\r\nx\r\n0\r\n\r\n", "400 malformed: a chunk's line"),
    (b"1;a\0\r\nx\r\n0\r\n\r\n", "400 malformed: a chunk's line"),
    (b"1\r\nab\r\n", "400 malformed: a chunk's end"),
    (b"1\r\na\n\n", "400 malformed: a chunk's end"),
    (b"0\r\nno colon\r\n\r\n", "400 malformed: a trailer"),
    (b"0\r\nA: \0\r\n\r\n", "400 malformed: a trailer"),
    (b"0\r\n: b\r\n\r\n", "400 malformed: a trailer"),
    (b"fffffffffffffffff\r\n", "413 the body is too long"),
    (b"100001\r\n", "413 the body is too long"),
];

/// Cases too long to write down.
fn long_cases() -> [(Vec<u8>, &'static str); 3] {
    let field = format!(
        "GET / HTTP/1.1\r\nHost: x\r\nA: {}\r\n\r\n",
        "a".repeat(1 << 20)
    );
    let fields: String = (0..200).map(|number| format!("A{number}: b\r\n")).collect();
    let fields = format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
    let line = [CHUNKED, &b"a".repeat(2_000)].concat();
    [
        (field.into(), "431 the head is too long"),
        (fields.into(), "431 the head is too long"),
        (line, "400 malformed: a chunk's line"),
    ]
}

/// The responses in the short form of the tables.
fn shown(answers: &str) -> String {
    let answers = answers.split("HTTP/1.1 ").skip(1).map(|answer| {
        let (head, body) = answer.split_once("\r\n\r\n").expect("a whole head");
        match &head[..3] {
            "200" => "200".to_owned(),
            status => format!("{status} {body}").trim_end().to_owned(),
        }
    });
    answers.collect::<Vec<_>>().join(" ")
}

#[test]
fn each_is_answered_as_the_table_says() {
    let server = serve(echo());
    let cases = CASES
        .iter()
        .map(|&(bytes, wanted)| (bytes.to_vec(), wanted));
    let bodies = BODIES
        .iter()
        .map(|&(body, wanted)| ([CHUNKED, body].concat(), wanted));
    let mut wrong = Vec::new();
    for (bytes, wanted) in cases.chain(bodies).chain(long_cases()) {
        let what = bytes[..bytes.len().min(200)].escape_ascii();
        let answers = shown(&exchange(server.address(), &bytes));
        if answers != wanted {
            wrong.push(format!("{what}: {answers:?} in place of {wanted:?}"));
        }
        // The result does not depend on the cuts.
        let limits = Limits::default();
        let cut = crate::reading::read(limits, bytes.chunks(bytes.len() / 1_000 + 1));
        assert_eq!(cut, crate::reading::read(limits, [&bytes[..]]), "{what}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
