//! Any bytes as what a client sends to the server. Requests and error do not depend on how the bytes are cut.
//!
//! ```text
//! cargo xtask fuzz --only commands
//! ```

#![no_main]

#[allow(dead_code, reason = "the server uses more of it")]
#[path = "../../src/arguments.rs"]
mod arguments;
#[allow(dead_code, reason = "the server uses more of it")]
#[path = "../../src/request_reader.rs"]
mod request_reader;

use libfuzzer_sys::fuzz_target;
use request_reader::{Malformed, RequestReader};

/// A limit that short inputs reach.
const REQUEST_BYTES_MAX: usize = 256;

/// The arguments of each request.
type Requests = Vec<Vec<Vec<u8>>>;

/// Parses bytes that arrive in pieces of a length.
fn parse(bytes: &[u8], piece: usize, is_logged_in: bool) -> (Requests, Option<Malformed>) {
    let (mut reader, mut requests) = (RequestReader::new(REQUEST_BYTES_MAX), Vec::new());
    let (mut begin, mut end) = (0, 0);
    while end < bytes.len() {
        end = bytes.len().min(end + piece);
        loop {
            let input = &bytes[begin..end];
            match reader.next(input, is_logged_in) {
                Ok(Some(length)) => {
                    let arguments = reader.arguments(input).from(0);
                    requests.push(arguments.map(<[u8]>::to_vec).collect());
                    begin += length;
                }
                Ok(None) => break,
                Err(error) => return (requests, Some(error)),
            }
        }
    }
    (requests, None)
}

fuzz_target!(|bytes: &[u8]| {
    for is_logged_in in [false, true] {
        let whole = parse(bytes, bytes.len(), is_logged_in);
        for piece in [1, 2, 3, 7] {
            assert_eq!(
                parse(bytes, piece, is_logged_in),
                whole,
                "cut every {piece} bytes"
            );
        }
    }
});
