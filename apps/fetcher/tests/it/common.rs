//! Helpers that several modules of tests use.

use std::{
    num::NonZeroU16,
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use freeboard_fetcher::broker::{Broker, Queue};
#[cfg(all(unix, any(feature = "mariadb", feature = "rabbitmq")))]
use {
    freeboard_fetcher::ConnectError,
    freeboard_test_servers::{Server, ServerError},
    std::net::TcpListener,
};

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

/// Publishes a body without waiting for the confirm.
pub(crate) fn publish(broker: &dyn Broker, queue: Queue, body: impl Into<Bytes>) {
    let published = broker.publish_with(queue, body.into(), Box::new(|_| {}));
    published.expect("capacity");
}

/// Checks the errors of connecting to a server of this scheme. `connect` returns the error for a URL.
#[cfg(all(unix, any(feature = "mariadb", feature = "rabbitmq")))]
pub(crate) fn check_refusals(
    scheme: &str,
    user: &str,
    wrong_urls: &[&str],
    server: Option<Server>,
    connect: impl Fn(&str) -> ConnectError,
) {
    let refused = |url: &str| {
        let error = connect(url);
        say(&format!("{url}: {error}"));
        assert!(!error.to_string().contains('\n'));
        error
    };
    for url in wrong_urls {
        assert!(matches!(refused(url), ConnectError::Url { .. }), "{url}");
    }
    let unknown = refused(&format!("{scheme}://{user}@no-such-host.invalid/x"));
    let is_named =
        matches!(unknown, ConnectError::UnknownHost { host, .. } if host == "no-such-host.invalid");
    assert!(is_named);

    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    let url = format!("{scheme}://{user}@{address}");
    assert!(matches!(refused(&url), ConnectError::TimedOut(_)));
    drop(silent);
    assert!(matches!(refused(&url), ConnectError::Unreachable { .. }));

    let Some(server) = server else { return };
    let address = server.address();
    let (name, _) = user.split_once(':').unwrap_or((user, ""));
    let password = refused(&format!("{scheme}://{name}:wrong@{address}"));
    assert!(matches!(password, ConnectError::Credentials(_)));
    let database = refused(&format!("{scheme}://{user}@{address}/nowhere"));
    assert!(matches!(database, ConnectError::Database { .. }));
}
