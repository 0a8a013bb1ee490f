//! Any bytes as what a server answers.
//!
//! ```text
//! cargo xtask fuzz --only replies
//! ```

#![no_main]

#[path = "../../tests/it/common/replies.rs"]
mod replies;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| replies::check(bytes));
