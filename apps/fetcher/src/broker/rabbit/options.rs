//! The settings of a RabbitMQ broker, and why connecting can fail.

use std::{fmt, io, num::NonZeroU16, time::Duration};

use freeboard::flow::Backoff;
use lapin::ErrorKind;

/// The longest name of a broker's queues, in bytes: what is built from it is a short string of AMQP.
pub(super) const NAME_BYTES_MAX: usize = 100;

/// The settings of a [`RabbitBroker`](super::RabbitBroker).
#[derive(Clone)]
pub struct RabbitOptions {
    /// `amqp://USER:PASSWORD@HOST:PORT/VHOST`; the virtual host `/` is written `%2f` or left out.
    pub url: String,
    /// What the names of all queues begin with, at most 100 bytes: `fetcher` unless set. Those who share
    /// it share the queues, and must agree on `retry_delays`.
    pub name: String,
    /// How long a message is put off: the first of these, in ascending order, that is no shorter than what
    /// was asked for, or the last. 100 ms, 1 s, 10 s and 60 s unless set.
    pub retry_delays: Vec<Duration>,
    /// What may be published and not yet confirmed, in messages: 4,096 unless set.
    pub unconfirmed_max: NonZeroU16,
    /// How long a connection may take to be made: 10 s unless set.
    pub connect_timeout: Duration,
    /// Between attempts to connect again, to open a channel again, and to put a message off or dead-letter it
    /// again: from 50 ms to 5 s, doubling, unless set.
    pub backoff: Backoff,
}

impl RabbitOptions {
    /// The settings for this URL.
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
    /// Without the URL, in which there may be a password.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RabbitOptions")
            .finish_non_exhaustive()
    }
}

/// AMQP's reply codes of a handshake that is refused.
const ACCESS_REFUSED: u16 = 403;
const NOT_ALLOWED: u16 = 530;

/// Why RabbitMQ cannot be spoken to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL is none of AMQP without TLS.
    #[error("not a URL of the form amqp://USER:PASSWORD@HOST:PORT/VHOST: {0}")]
    Url(String),
    /// A setting that cannot be.
    #[error("the settings of the broker: {0}")]
    Options(&'static str),
    /// No such host.
    #[error("RabbitMQ's host {0} is not known")]
    UnknownHost(String),
    /// Nobody answers there.
    #[error("RabbitMQ at {address} cannot be reached: {error}")]
    Unreachable {
        /// Host and port.
        address: String,
        /// What the system says.
        error: io::Error,
    },
    /// It did not answer in time.
    #[error("RabbitMQ at {0} does not answer in time")]
    TimedOut(String),
    /// Wrong user or password.
    #[error("RabbitMQ at {0} refuses the user or the password")]
    Credentials(String),
    /// The user may not use the virtual host, or there is none of this name.
    #[error("RabbitMQ at {address} refuses the virtual host: {reason}")]
    VirtualHost {
        /// Host and port.
        address: String,
        /// What it says.
        reason: String,
    },
    /// It speaks, but not as expected.
    #[error("RabbitMQ at {address}: {reason}")]
    Protocol {
        /// Host and port.
        address: String,
        /// What is wrong.
        reason: String,
    },
    /// No thread or socket poller can be had.
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
