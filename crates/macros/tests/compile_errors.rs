//! The errors by which the macro, or the compiler behind it, refuses wrong blocks: each points to the user's line.
//!
//! A binary of its own, because it runs the compiler. The expected texts are those of one compiler;
//! `TRYBUILD=overwrite cargo test -p freeboard-macros --test compile_errors` writes them anew.
#![cfg(not(loom))]

use std::{io::Write, process::Command};

/// The compiler that the expected texts are of.
const RUSTC: &str = "rustc 1.95.";

/// Why the texts cannot be compared here, or need not.
fn reason_to_skip() -> Option<String> {
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    if flags.contains("-Zsanitizer") {
        return Some("a sanitizer changes no error".to_owned());
    }
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output();
    let version = String::from_utf8(version.expect("a compiler").stdout).expect("text");
    let is_other = !version.starts_with(RUSTC);
    is_other.then(|| format!("the expected texts are of {RUSTC}x, this is {version}"))
}

#[test]
fn wrong_blocks_are_refused_at_their_lines() {
    let Some(reason) = reason_to_skip() else {
        trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
        return;
    };
    // Not by `eprintln`, which is shown for failed tests only.
    writeln!(std::io::stderr(), "skipped: {}", reason.trim()).ok();
}
