//! Any bytes as a stream's segment, with the key of the fixtures and without.
//!
//! ```text
//! cargo xtask fuzz --only segment
//! ```

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
