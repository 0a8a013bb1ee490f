//! Invariants of the request reader, for any bytes.
//!
//! One function for the fuzzer and for the tests: [`check`] panics where an invariant does not hold.
//!
//! - Reading ends without a panic.
//! - The requests and the refusal do not depend on how the bytes are cut, nor on whether bodies are read in pieces.
//! - The bytes kept for incomplete requests, and each request, are within the limits.
#![allow(dead_code, reason = "a fuzz target uses a part of it")]

use bytes::BytesMut;
use freeboard_net::http::{Incoming, Limits, Refusal, RequestReader, Step};

/// The head of a request in chunks.
pub(crate) const CHUNKED: &[u8] =
    b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";

/// The last bytes of an input, which also determine the cuts.
const CUTS_MAX: usize = 8;

/// The requests up to the first refusal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Read {
    /// Requests and their framing, as text.
    pub(crate) requests: Vec<String>,
    pub(crate) refusal: Option<Refusal>,
}

/// Limits that a fuzzer's inputs can reach.
pub(crate) fn small() -> Limits {
    Limits {
        head_bytes: 1 << 10,
        body_bytes: 1 << 8,
        ..Limits::default()
    }
}

/// Reads these pieces.
pub(crate) fn read<'a>(limits: Limits, pieces: impl IntoIterator<Item = &'a [u8]>) -> Read {
    read_with(RequestReader::new(limits), limits, pieces)
}

fn read_with<'a>(
    mut reader: RequestReader,
    limits: Limits,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Read {
    // The request whose body a streaming reader returns in pieces.
    let mut begun: Option<(Incoming, Vec<u8>)> = None;
    let mut inbox = BytesMut::new();
    let mut requests = Vec::new();
    for piece in pieces {
        inbox.extend_from_slice(piece);
        loop {
            match reader.next(&mut inbox) {
                Ok(Step::More) => break,
                Ok(Step::Continue) => {}
                Ok(Step::Begin(incoming)) => begun = Some((*incoming, Vec::new())),
                Ok(Step::Piece(piece)) => {
                    assert!(!piece.is_empty());
                    begun.as_mut().expect("a request").1.extend(piece);
                }
                Ok(Step::End) => {
                    let (mut incoming, body) = begun.take().expect("a request");
                    *incoming.request.body_mut() = body.into();
                    check_size(&incoming, &limits);
                    requests.push(format!("{:?} {:?}", incoming.request, incoming.framing));
                }
                Ok(Step::Request(incoming)) => {
                    check_size(&incoming, &limits);
                    requests.push(format!("{:?} {:?}", incoming.request, incoming.framing));
                }
                Err(refusal) => {
                    return Read {
                        requests,
                        refusal: Some(refusal),
                    };
                }
            }
        }
        let kept = inbox.len();
        assert!(kept < reader.inbox_bytes_max(), "{kept} bytes are kept");
    }
    Read {
        requests,
        refusal: None,
    }
}

fn check_size(incoming: &Incoming, limits: &Limits) {
    let request = &incoming.request;
    let fields = request.headers().iter();
    let fields: usize = fields
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    assert!(fields < limits.head_bytes, "{fields} bytes of fields");
    assert!(request.body().len() <= limits.body_bytes);
}

/// Reads `head` and `input` at once, byte by byte, and cut as the last bytes of `input` determine.
pub(crate) fn check(head: &[u8], input: &[u8]) -> Read {
    let bytes = [head, input].concat();
    let whole = read(small(), [&bytes[..]]);
    assert_eq!(read(small(), bytes.chunks(1)), whole);
    let streaming = || RequestReader::streaming(small());
    assert_eq!(read_with(streaming(), small(), [&bytes[..]]), whole);
    assert_eq!(read_with(streaming(), small(), bytes.chunks(1)), whole);
    let lengths = &input[input.len().saturating_sub(CUTS_MAX)..];
    assert_eq!(read(small(), cut(&bytes, lengths)), whole, "{lengths:?}");
    whole
}

/// Pieces of these lengths, repeated; 0 means 256.
fn cut<'a>(bytes: &'a [u8], lengths: &[u8]) -> Vec<&'a [u8]> {
    let mut rest = bytes;
    let mut pieces = Vec::new();
    for length in lengths.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let length = if *length == 0 {
            256
        } else {
            usize::from(*length)
        };
        let (piece, behind) = rest.split_at(length.min(rest.len()));
        pieces.push(piece);
        rest = behind;
    }
    pieces.push(rest);
    pieces
}
