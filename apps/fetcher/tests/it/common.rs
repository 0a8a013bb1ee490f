//! Helpers that several modules of tests use.

use std::{
    num::NonZeroU16,
    thread,
    time::{Duration, Instant},
};

#[cfg(all(unix, any(feature = "mariadb", feature = "rabbitmq")))]
use freeboard_test_servers::{Server, ServerError};

/// The deadline of a test's waits, far beyond their usual time.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// Waits for a condition.
pub(crate) fn eventually(condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < LONG, "the condition does not come true");
        thread::yield_now();
    }
}

/// Prints a line, which `--nocapture` shows.
#[expect(clippy::print_stdout, reason = "figures, seeds and skipped tests")]
pub(crate) fn say(text: &str) {
    println!("{text}");
}

/// The server, or `None` if it is not installed: the test is then skipped and says so.
#[cfg(all(unix, any(feature = "mariadb", feature = "rabbitmq")))]
pub(crate) fn installed(started: Result<Server, ServerError>) -> Option<Server> {
    match started {
        Err(error @ ServerError::Missing { .. }) => {
            say(&format!("skipped: {error}"));
            None
        }
        server => Some(server.expect("the server starts")),
    }
}

pub(crate) fn prefetch(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).expect("not zero")
}
