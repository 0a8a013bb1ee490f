//! Any bytes as what comes on a connection: the last four say how the others are cut.
//!
//! ```text
//! cargo xtask fuzz --only lines
//! ```

#![no_main]

#[path = "../../tests/it/cutting.rs"]
mod cutting;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (bytes, sizes) = bytes.split_at(bytes.len().saturating_sub(4));
    cutting::check(bytes, sizes);
});
