//! Requests out of bytes: however they are cut, and what is refused.

mod reading;

use freeboard_net::http::{Limits, Refusal};
use proptest::prelude::*;
use reading::Read;

/// What is read from these pieces.
fn read(pieces: &[&[u8]]) -> Read {
    reading::read(Limits::default(), pieces.iter().copied())
}

fn refusal(request: &[u8]) -> Option<Refusal> {
    read(&[request]).refusal
}

const STREAM: &[u8] = b"GET /a?b=c HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n\
    POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\nhello world\
    \r\nPUT /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
    5\r\nhello\r\n00b;x=\"y\"\r\n hello worl\r\n1\r\nd\r\n0\r\nA: b\r\n\r\n\
    HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n\
    DELETE /d HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

#[test]
fn five_requests_are_five_however_they_are_cut_in_two() {
    let whole = read(&[STREAM]);
    assert_eq!((whole.requests.len(), whole.refusal), (5, None));
    let third = &whole.requests[2];
    assert!(third.contains("hello hello world"), "{third}");
    for at in 0..=STREAM.len() {
        assert_eq!(read(&[&STREAM[..at], &STREAM[at..]]), whole, "cut at {at}");
    }
    let bytes: Vec<&[u8]> = STREAM.chunks(1).collect();
    assert_eq!(read(&bytes), whole);
}

proptest! {
    #[test]
    fn any_cuts_give_the_same(mut cuts in prop::collection::vec(0..STREAM.len(), 0..20)) {
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut before = 0;
        for cut in cuts {
            pieces.push(&STREAM[before..cut]);
            before = cut;
        }
        pieces.push(&STREAM[before..]);
        prop_assert_eq!(read(&pieces), read(&[STREAM]));
    }

    #[test]
    fn any_bytes_are_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..2_000), at in 0..2_000usize) {
        let at = at.min(bytes.len());
        prop_assert_eq!(read(&[&bytes[..at], &bytes[at..]]), read(&[&bytes]));
    }

    #[test]
    fn changed_requests_are_read_the_same_however_they_are_cut(
        changes in prop::collection::vec((0..STREAM.len(), any::<u8>()), 1..5),
        at in 0..STREAM.len(),
    ) {
        let mut bytes = STREAM.to_vec();
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        prop_assert_eq!(read(&[&bytes[..at], &bytes[at..]]), read(&[&bytes]));
    }
}

#[test]
fn what_others_might_read_differently_is_refused() {
    let with = |headers: &str| {
        refusal(format!("POST / HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\n0\r\n\r\n").as_bytes())
    };
    for headers in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5, 6",
        "Content-Length: +5",
        "Content-Length: 0x5",
        "Content-Length: -1",
        "Content-Length:",
        "Content-Length : 5",
        " Content-Length: 5",
        "Host: y",
        "X: a\rb",
    ] {
        let refused = with(headers);
        assert!(
            matches!(refused, Some(Refusal::Malformed(_))),
            "{headers:?}: {refused:?}"
        );
    }
    for coding in [
        "gzip",
        "chunked, chunked",
        "gzip, chunked",
        "xchunked",
        "identity",
    ] {
        let refused = with(&format!("Transfer-Encoding: {coding}"));
        assert_eq!(refused, Some(Refusal::Coding), "{coding}");
    }
    let no_host = refusal(b"GET / HTTP/1.1\r\n\r\n");
    assert!(matches!(no_host, Some(Refusal::Malformed(_))));
    let chunked_10 = refusal(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert!(matches!(chunked_10, Some(Refusal::Malformed(_))));
}

#[test]
fn bad_chunks_are_refused() {
    let with = |body: &str| {
        let head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
        refusal(format!("{head}{body}").as_bytes())
    };
    let long = "a".repeat(2_000);
    for body in [
        "x\r\n",
        "-1\r\n",
        "+1\r\na",
        "0x1\r\na",
        "\r\n",
        " 1\r\na",
        "1\na\n",
        "1\r\nab\r\n",
        "1\r\na\n\n",
        "1;\r\r\na",
        long.as_str(),
    ] {
        let refused = with(body);
        assert!(
            matches!(refused, Some(Refusal::Malformed(_))),
            "{body:?}: {refused:?}"
        );
    }
    assert_eq!(with("fffffffffffffffff\r\n"), Some(Refusal::BodyTooLong));
    assert_eq!(with("100001\r\n"), Some(Refusal::BodyTooLong));
}

#[test]
fn sizes_have_limits() {
    let head = format!(
        "GET / HTTP/1.1\r\nHost: x\r\nA: {}\r\n\r\n",
        "a".repeat(1 << 20)
    );
    assert_eq!(refusal(head.as_bytes()), Some(Refusal::HeadTooLong));
    let fields: String = (0..200).map(|number| format!("A{number}: b\r\n")).collect();
    let head = format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
    assert_eq!(refusal(head.as_bytes()), Some(Refusal::HeadTooLong));
    let body = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n";
    assert_eq!(refusal(body), Some(Refusal::BodyTooLong));
    let body = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n";
    assert_eq!(refusal(body), Some(Refusal::BodyTooLong));
}

#[test]
fn other_versions_and_expectations_are_refused() {
    assert_eq!(refusal(b"GET / HTTP/2.0\r\n\r\n"), Some(Refusal::Version));
    let expects = b"GET / HTTP/1.1\r\nHost: x\r\nExpect: a miracle\r\n\r\n";
    assert_eq!(refusal(expects), Some(Refusal::Expectation));
    let tls = b"\x16\x03\x01\x02\x00\x01";
    assert!(matches!(refusal(tls), Some(Refusal::Malformed(_))));
}
