//! Parsing ends without a panic for any bytes, and its result does not depend on how the bytes are cut.
//!
//! The bounded form of `fuzz/`, with the same checks.

use std::{fs, path::Path};

use crate::reading::{CHUNKED, check, read};
use freeboard_net::http::Limits;
use proptest::prelude::*;

const STREAM: &[u8] = b"GET /a?b=c HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n\
    POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\nhello world\
    \r\nPUT /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
    5\r\nhello\r\n00b;x=\"y\"\r\n hello worl\r\n1\r\nd\r\n0\r\nA: b\r\n\r\n\
    HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n\
    DELETE /d HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

#[test]
fn five_requests_are_five_however_they_are_cut_in_two() {
    let read_all = |pieces: &[&[u8]]| read(Limits::default(), pieces.iter().copied());
    let whole = read_all(&[STREAM]);
    assert_eq!((whole.requests.len(), whole.refusal), (5, None));
    let third = &whole.requests[2];
    assert!(third.contains("hello hello world"), "{third}");
    for at in 0..=STREAM.len() {
        let (first, second) = STREAM.split_at(at);
        assert_eq!(read_all(&[first, second]), whole, "cut at {at}");
    }
}

/// The seeds of the fuzzer, and their names.
fn seeds() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/requests");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    let mut seeds: Vec<_> = files
        .map(|file| {
            let name = file.file_name().into_string().unwrap();
            (name, fs::read(file.path()).unwrap())
        })
        .collect();
    seeds.sort();
    seeds
}

fn seed() -> impl Strategy<Value = Vec<u8>> {
    let seeds = seeds().into_iter().map(|(_, bytes)| bytes);
    prop::sample::select(seeds.chain([STREAM.to_vec()]).collect::<Vec<_>>())
}

#[test]
fn the_seeds_are_what_their_names_say() {
    let seeds = seeds();
    assert!(seeds.len() >= 10);
    for (name, bytes) in seeds {
        let read = check(b"", &bytes);
        let is_refused = name.starts_with("refused");
        assert_eq!(read.refusal.is_some(), is_refused, "{name}: {read:?}");
        assert_eq!(read.requests.is_empty(), is_refused, "{name}: {read:?}");
    }
}

/// The bytes of a chunk.
fn chunk(data: &[u8], extension: &str) -> Vec<u8> {
    let line = format!("{:X}{extension}\r\n", data.len());
    [line.as_bytes(), data, b"\r\n"].concat()
}

proptest! {
    #[test]
    fn any_bytes_are_read_one_way(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
        check(b"", &bytes);
        check(CHUNKED, &bytes);
    }

    #[test]
    fn requests_that_were_changed_are_read_one_way(
        mut bytes in seed(),
        other in seed(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5),
        join in any::<prop::sample::Index>(),
        lengths in any::<[u8; 8]>(),
    ) {
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(join.index(bytes.len() + 1));
        bytes.extend_from_slice(&other);
        bytes.extend_from_slice(&lengths);
        check(b"", &bytes);
    }

    #[test]
    fn chunks_are_the_body_that_they_were_cut_from(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..100), 0..10),
        extension in "(;[a-z]{1,9}(=[a-z0-9]{1,9})?){0,3}",
        trailers in prop::collection::vec("[A-Z][a-z]{0,9}: [a-z]{0,9}", 0..4),
        length in 1..50usize,
    ) {
        let mut chunked = CHUNKED.to_vec();
        for piece in &pieces {
            chunked.extend(chunk(piece, &extension));
        }
        chunked.extend(format!("0{extension}\r\n").bytes());
        for trailer in &trailers {
            chunked.extend(format!("{trailer}\r\n").bytes());
        }
        chunked.extend(b"\r\n");
        let body = pieces.concat();
        let plain = format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
        let plain = [plain.as_bytes(), &body].concat();
        // Equal except for the header that gives the length.
        let shown = |bytes: &[u8]| {
            let read = read(Limits::default(), bytes.chunks(length));
            assert_eq!((read.requests.len(), read.refusal), (1, None));
            let (_, body) = read.requests[0].split_once("body: ").unwrap();
            body.to_owned()
        };
        prop_assert_eq!(shown(&chunked), shown(&plain));
    }
}
