//! Any bytes as a body in chunks, behind a head that is well-formed.
//!
//! ```text
//! cargo xtask fuzz --only chunked
//! ```

#![no_main]

#[path = "../../tests/it/reading.rs"]
mod reading;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    reading::check(reading::CHUNKED, bytes);
});
