//! Any bytes as a stream's segment, with the key of the fixtures and without.
//!
//! ```text
//! mkdir -p crates/stream/fuzz/corpus/segment
//! cargo +nightly fuzz run --fuzz-dir crates/stream/fuzz segment \
//!     crates/stream/fuzz/corpus/segment crates/stream/tests/fixtures -- -max_len=65536
//! ```
//!
//! The first folder takes what is found, the second seeds it with segments of every kind.

#![no_main]

#[path = "../../tests/support/mod.rs"]
mod support;

use libfuzzer_sys::fuzz_target;
use support::{decode::decode, key, memory::Memory};

fuzz_target!(|bytes: &[u8]| {
    let memory = Memory::of(&[bytes.to_vec()]);
    decode(&memory, Some(&key()), None);
    decode(&memory, None, None);
});
