//! The errors by which the compiler refuses wrong programs, and the names that a glob import leaves alone.
//!
//! The expected texts are those of one compiler; `TRYBUILD=overwrite cargo test -p freeboard-actor --test
//! compile_errors` writes them anew.
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
fn wrong_programs_are_refused_in_words_of_actors() {
    let Some(reason) = reason_to_skip() else {
        trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
        return;
    };
    // Not by `eprintln`, which is shown for failed tests only.
    let line = format!("compile errors are not compared: {reason}\n");
    std::io::stderr()
        .write_all(line.as_bytes())
        .expect("a standard error");
}

mod glob {
    use freeboard_actor::*;

    struct Unnamed;

    impl Actor for Unnamed {}

    impl Drop for Unnamed {
        fn drop(&mut self) {}
    }

    fn boxed<T, F>(future: T, call: F) -> Option<Box<dyn Send>>
    where
        T: Send + Sync + Unpin + Clone + Future<Output = Result<String, Vec<u8>>> + 'static,
        F: Fn(T) -> T + Copy + Sized,
    {
        Some(Box::new((IntoFuture::into_future(call(future)), Unnamed)))
    }

    #[test]
    fn a_glob_import_leaves_the_names_of_the_standard_library() {
        assert!(boxed(std::future::ready(Ok(String::new())), |it| it).is_some());
    }
}
