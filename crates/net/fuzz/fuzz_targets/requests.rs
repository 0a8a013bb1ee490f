//! Any bytes as what comes on a connection: whole, byte by byte, and cut where their last ones say.
//!
//! ```text
//! cargo xtask fuzz --only requests
//! ```

#![no_main]

#[path = "../../tests/it/reading.rs"]
mod reading;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    reading::check(b"", bytes);
});
