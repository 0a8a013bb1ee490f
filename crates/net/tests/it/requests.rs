//! The request reader gives the same result for all cuts.

use freeboard_net::http::Limits;
use proptest::prelude::*;
use crate::reading::Read;

/// Reads these pieces.
fn read(pieces: &[&[u8]]) -> Read {
    crate::reading::read(Limits::default(), pieces.iter().copied())
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
