//! Any bytes as what comes on a connection: whole, byte by byte, and cut where their last ones say.
//!
//! ```text
//! mkdir -p crates/net/fuzz/corpus/requests
//! cargo +nightly fuzz run --fuzz-dir crates/net/fuzz requests \
//!     crates/net/fuzz/corpus/requests crates/net/tests/fixtures/requests -- -max_len=4096
//! ```
//!
//! The first folder takes what is found, the second seeds it with requests of every kind.

#![no_main]

#[path = "../../tests/it/reading.rs"]
mod reading;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    reading::check(b"", bytes);
});
