//! Helpers of tests: waiting for a condition, servers that may be missing, the memory of the process.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::server::ServerError;

/// Longer than any step of a test takes.
pub const LONG: Duration = Duration::from_secs(60);

/// Waits for a condition.
///
/// # Panics
/// It does not hold within [`LONG`].
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < until, "never happened: {what}");
        thread::yield_now();
    }
}

/// The server; `None`, with a note on standard error, if it is not installed.
///
/// # Panics
/// It is installed and does not start.
#[track_caller]
#[allow(clippy::print_stderr, reason = "skipped tests say so")]
pub fn if_installed<T>(started: Result<T, ServerError>) -> Option<T> {
    match started {
        Ok(server) => Some(server),
        Err(error @ ServerError::Missing { .. }) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The resident memory of this process in bytes.
///
/// # Panics
/// `/proc` is not mounted.
#[cfg(target_os = "linux")]
#[must_use]
pub fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    kilobytes.expect("a number of kB") << 10
}
