//! The settings of a MariaDB directory, and its errors.

use std::{fmt, io, num::NonZeroU16, time::Duration};

use mysql_async::{DriverError, Error, IoError};

use super::super::StoreError;

/// The database for a URL without one. It is created if missing.
pub const DATABASE_DEFAULT: &str = "fetcher";

/// The settings of a [`MariaDbDirectory`](super::MariaDbDirectory).
#[derive(Clone)]
pub struct MariaDbOptions {
    /// `mysql://USER:PASSWORD@HOST:PORT/DATABASE`, without TLS; the database defaults to [`DATABASE_DEFAULT`].
    pub url: String,
    /// Concurrent connections; 8 unless set.
    pub connections_max: NonZeroU16,
    /// Queries in flight before more are refused; 1,024 unless set.
    pub queries_max: NonZeroU16,
    /// The timeout of a query, including its wait for a connection; 2 s unless set.
    pub query_timeout: Duration,
    /// The timeout of the first connection; 10 s unless set.
    pub connect_timeout: Duration,
}

impl MariaDbOptions {
    /// The default settings for a URL.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            connections_max: const { NonZeroU16::new(8).unwrap() },
            queries_max: const { NonZeroU16::new(1_024).unwrap() },
            query_timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(10),
        }
    }
}

impl fmt::Debug for MariaDbOptions {
    /// Without the URL, which may contain a password.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("MariaDbOptions")
            .finish_non_exhaustive()
    }
}

/// The server's error codes of a refused login.
const ACCESS_DENIED: [u16; 2] = [1045, 1698];
/// The database does not exist, or the user has no access.
const DATABASE_DENIED: [u16; 2] = [1044, 1049];
/// Temporary errors: too many connections (in all, of this user), a lock, a deadlock, an end by an operator or a
/// shutdown.
const PASSING: [u16; 7] = [1040, 1203, 1205, 1213, 1053, 1317, 1927];

/// Connecting to MariaDB failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL is not one of MariaDB without TLS.
    #[error("not a URL of the form mysql://USER:PASSWORD@HOST:PORT/DATABASE: {0}")]
    Url(String),
    /// The host is unknown.
    #[error("MariaDB's host {0} is not known")]
    UnknownHost(String),
    /// The server cannot be reached.
    #[error("MariaDB at {address} cannot be reached: {error}")]
    Unreachable {
        /// Host and port.
        address: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The server did not answer in time.
    #[error("MariaDB at {0} does not answer in time")]
    TimedOut(String),
    /// The user or the password is wrong.
    #[error("MariaDB at {0} refuses the user or the password")]
    Credentials(String),
    /// The database does not exist, or the user has no access.
    #[error("MariaDB at {address} refuses the database: {reason}")]
    Database {
        /// Host and port.
        address: String,
        /// The server's message.
        reason: String,
    },
    /// The server answers unexpectedly.
    #[error("MariaDB at {address}: {reason}")]
    Protocol {
        /// Host and port.
        address: String,
        /// The details.
        reason: String,
    },
    /// The runtime cannot be created.
    #[error("no runtime for MariaDB: {0}")]
    Runtime(io::Error),
}

impl ConnectError {
    pub(super) fn of(address: String, error: &Error) -> Self {
        match error {
            Error::Server(refused) if ACCESS_DENIED.contains(&refused.code) => {
                Self::Credentials(address)
            }
            Error::Server(refused) if DATABASE_DENIED.contains(&refused.code) => Self::Database {
                address,
                reason: refused.message.clone(),
            },
            Error::Server(refused) => Self::Protocol {
                address,
                reason: refused.message.clone(),
            },
            Error::Io(IoError::Io(error)) => Self::Unreachable {
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

impl StoreError {
    pub(super) fn from_mysql(address: &str, error: &Error) -> Self {
        let said = |what: &dyn std::fmt::Display| format!("MariaDB at {address}: {what}");
        match error {
            Error::Server(refused) if PASSING.contains(&refused.code) => {
                Self::Unavailable(said(&refused.message))
            }
            Error::Server(refused) => Self::Refused(said(&refused.message)),
            Error::Driver(DriverError::FromRow { .. }) => {
                Self::Refused(said(&"a row of the table is not of text"))
            }
            Error::Io(IoError::Io(error)) => Self::Unavailable(said(error)),
            _ => Self::Unavailable(said(error)),
        }
    }
}
