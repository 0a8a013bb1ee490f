//! How MariaDB is spoken to.

use std::{fmt, num::NonZeroU16, time::Duration};

/// The database of a URL that names none. It is made if there is none.
pub const DATABASE_DEFAULT: &str = "fetcher";

/// The settings of a [`MariaDbDirectory`](super::MariaDbDirectory).
#[derive(Clone)]
pub struct MariaDbOptions {
    /// `mysql://USER:PASSWORD@HOST:PORT/DATABASE`, without TLS; without a database it is
    /// [`DATABASE_DEFAULT`].
    pub url: String,
    /// Connections at once: 8 unless set.
    pub connections_max: NonZeroU16,
    /// Questions under way, before more are refused: 1,024 unless set.
    pub questions_max: NonZeroU16,
    /// How long a question may take, its wait for a connection included: 2 s unless set.
    pub question_timeout: Duration,
    /// How long the first connection may take to be made: 10 s unless set.
    pub connect_timeout: Duration,
}

impl MariaDbOptions {
    /// The settings for this URL.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            connections_max: const { NonZeroU16::new(8).unwrap() },
            questions_max: const { NonZeroU16::new(1_024).unwrap() },
            question_timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(10),
        }
    }
}

impl fmt::Debug for MariaDbOptions {
    /// Without the URL, in which there may be a password.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("MariaDbOptions")
            .finish_non_exhaustive()
    }
}
