//! Reads requests out of bytes, and what must be true of that whatever the bytes are.
//!
//! One function for the fuzzer and for the tests: [`check`] panics where an invariant does not hold.
//!
//! - Nothing panics, and everything ends.
//! - However the bytes are cut, the same requests come out of them, and the same refusal.
//! - What is kept while more must come is within the limits, and so is each request.
#![allow(dead_code, reason = "a fuzz target uses a part of it")]

use bytes::BytesMut;
use freeboard_net::http::{Incoming, Limits, Refusal, RequestReader, Step};

/// What comes before the body of a request that comes in chunks.
pub(crate) const CHUNKED: &[u8] =
    b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";

/// The last bytes of an input that also say where it is cut.
const CUTS_MAX: usize = 8;

/// What was read, up to the first refusal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Read {
    /// Requests and their manners, as text.
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

/// Reads what comes in these pieces.
pub(crate) fn read<'a>(limits: Limits, pieces: impl IntoIterator<Item = &'a [u8]>) -> Read {
    let mut reader = RequestReader::new(limits);
    let mut inbox = BytesMut::new();
    let mut requests = Vec::new();
    for piece in pieces {
        inbox.extend_from_slice(piece);
        loop {
            match reader.next(&mut inbox) {
                Ok(Step::More) => break,
                Ok(Step::Continue) => {}
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

/// Reads `head` and `input` whole, byte by byte, and cut where the last bytes of `input` say.
pub(crate) fn check(head: &[u8], input: &[u8]) -> Read {
    let bytes = [head, input].concat();
    let whole = read(small(), [&bytes[..]]);
    assert_eq!(read(small(), bytes.chunks(1)), whole);
    let lengths = &input[input.len().saturating_sub(CUTS_MAX)..];
    assert_eq!(read(small(), cut(&bytes, lengths)), whole, "{lengths:?}");
    whole
}

/// Pieces of these lengths, over and over; 0 is 256.
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
