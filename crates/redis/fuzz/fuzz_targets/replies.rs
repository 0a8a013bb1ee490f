//! Any bytes as what a server answers.
//!
//! ```text
//! mkdir -p crates/redis/fuzz/corpus/replies
//! cargo +nightly fuzz run --fuzz-dir crates/redis/fuzz replies \
//!     crates/redis/fuzz/corpus/replies crates/redis/tests/replies -- -max_len=4096
//! ```
//!
//! The first folder takes what is found, the second seeds it with replies of every type.

#![no_main]

#[path = "../../tests/it/common/replies.rs"]
mod replies;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| replies::check(bytes));
