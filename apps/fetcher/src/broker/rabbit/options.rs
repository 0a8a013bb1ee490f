//! The settings of a RabbitMQ broker, and the errors of connecting.

use std::time::Duration;

use freeboard::flow::Backoff;
use lapin::ErrorKind;

use crate::ConnectError;

/// The longest prefix of queue names, in bytes: full names are short strings of AMQP.
pub(super) const NAME_BYTES_MAX: usize = 100;

/// The settings of a [`RabbitBroker`](super::RabbitBroker). `Debug` does not show the URL, which may contain a
/// password.
#[derive(Clone)]
pub struct RabbitOptions {
    /// `amqp://USER:PASSWORD@HOST:PORT/VHOST`; the virtual host `/` is written `%2f` or left out.
    pub url: String,
    /// The prefix of all queue names, at most 100 bytes; `fetcher` unless set. Brokers with the same prefix share
    /// the queues, and must use the same `retry_delays`.
    pub name: String,
    /// The supported delays, ascending. A message gets the first that is at least as long as requested, or else the
    /// last. 100 ms, 1 s, 10 s and 60 s unless set.
    pub retry_delays: Vec<Duration>,
    /// The timeout of connecting; 10 s unless set.
    pub connect_timeout: Duration,
    /// The back-off of reconnecting, of reopening a channel, and of delaying or dead-lettering a message again:
    /// from 50 ms to 5 s, doubling, unless set.
    pub backoff: Backoff,
}

impl RabbitOptions {
    /// The default settings for a URL.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            name: "fetcher".to_owned(),
            retry_delays: [100, 1_000, 10_000, 60_000]
                .map(Duration::from_millis)
                .to_vec(),
            connect_timeout: Duration::from_secs(10),
            backoff: Backoff {
                min_ns: 50_000_000,
                max_ns: 5_000_000_000,
                factor: 2,
            },
        }
    }
}

/// AMQP's reply codes of a refused handshake.
const ACCESS_REFUSED: u16 = 403;
const NOT_ALLOWED: u16 = 530;

/// The error of a refused connection.
pub(super) fn explain(server: String, error: &lapin::Error) -> ConnectError {
    match error.kind() {
        ErrorKind::ProtocolError(refused) => {
            let reason = refused.get_message().to_string();
            match refused.get_id() {
                ACCESS_REFUSED => ConnectError::Credentials(server),
                NOT_ALLOWED => ConnectError::Database {
                    server,
                    database: "virtual host",
                    reason,
                },
                _ => ConnectError::Protocol { server, reason },
            }
        }
        ErrorKind::IOError(error) => ConnectError::unreachable(server, error),
        _ => ConnectError::Protocol {
            server,
            reason: error.to_string(),
        },
    }
}
