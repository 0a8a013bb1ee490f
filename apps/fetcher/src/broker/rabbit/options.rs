//! How RabbitMQ is spoken to.

use std::{fmt, num::NonZeroU16, time::Duration};

use freeboard::flow::Backoff;

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
