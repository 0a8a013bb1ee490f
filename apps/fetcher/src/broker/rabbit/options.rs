//! The settings of a RabbitMQ broker, and why connecting can fail.

use std::{fmt, io, num::NonZeroU16, time::Duration};

use freeboard::flow::Backoff;
use lapin::ErrorKind;

/// The longest prefix of queue names, in bytes: full names are short strings of AMQP.
pub(super) const NAME_BYTES_MAX: usize = 100;

/// The settings of a [`RabbitBroker`](super::RabbitBroker).
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
    /// The most unconfirmed messages; 4,096 unless set.
    pub unconfirmed_max: NonZeroU16,
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
            unconfirmed_max: const { NonZeroU16::new(4_096).unwrap() },
            connect_timeout: Duration::from_secs(10),
            backoff: Backoff {
                min_ns: 50_000_000,
                max_ns: 5_000_000_000,
                factor: 2,
            },
        }
    }
}

impl fmt::Debug for RabbitOptions {
    /// Without the URL, which may contain a password.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RabbitOptions")
            .finish_non_exhaustive()
    }
}

/// AMQP's reply codes of a refused handshake.
const ACCESS_REFUSED: u16 = 403;
const NOT_ALLOWED: u16 = 530;

/// Connecting to RabbitMQ failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL is not one of AMQP without TLS.
    #[error("not a URL of the form amqp://USER:PASSWORD@HOST:PORT/VHOST: {0}")]
    Url(String),
    /// A setting is invalid.
    #[error("the settings of the broker: {0}")]
    Options(&'static str),
    /// The host is unknown.
    #[error("RabbitMQ's host {0} is not known")]
    UnknownHost(String),
    /// The server cannot be reached.
    #[error("RabbitMQ at {address} cannot be reached: {error}")]
    Unreachable {
        /// Host and port.
        address: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The server did not answer in time.
    #[error("RabbitMQ at {0} does not answer in time")]
    TimedOut(String),
    /// The user or the password is wrong.
    #[error("RabbitMQ at {0} refuses the user or the password")]
    Credentials(String),
    /// The virtual host does not exist, or the user has no access.
    #[error("RabbitMQ at {address} refuses the virtual host: {reason}")]
    VirtualHost {
        /// Host and port.
        address: String,
        /// The server's message.
        reason: String,
    },
    /// The server answers unexpectedly.
    #[error("RabbitMQ at {address}: {reason}")]
    Protocol {
        /// Host and port.
        address: String,
        /// The details.
        reason: String,
    },
    /// The runtime cannot be created.
    #[error("no runtime for RabbitMQ: {0}")]
    Runtime(io::Error),
}

impl ConnectError {
    pub(super) fn of(address: &str, error: &lapin::Error) -> Self {
        let address = address.to_owned();
        match error.kind() {
            ErrorKind::ProtocolError(refused) => match refused.get_id() {
                ACCESS_REFUSED => Self::Credentials(address),
                NOT_ALLOWED => Self::VirtualHost {
                    address,
                    reason: refused.get_message().to_string(),
                },
                _ => Self::Protocol {
                    address,
                    reason: refused.get_message().to_string(),
                },
            },
            ErrorKind::IOError(error) => Self::Unreachable {
                address,
                error: io::Error::new(error.kind(), error.to_string()),
            },
            _ => Self::Protocol {
                address,
                reason: error.to_string(),
            },
        }
    }
}
