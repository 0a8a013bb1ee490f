//! The settings of a MariaDB directory, and its errors.

use std::{fmt, num::NonZeroU16, time::Duration};

use mysql_async::{DriverError, Error, IoError};

use super::super::StoreError;
use crate::ConnectError;

/// The database for a URL without one. It is created if missing.
pub const DATABASE_DEFAULT: &str = "fetcher";

/// The settings of a [`MariaDbDirectory`](super::MariaDbDirectory). `Debug` does not show the URL, which may
/// contain a password.
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

/// The server's error codes of a refused login.
const ACCESS_DENIED: [u16; 2] = [1045, 1698];
/// The database does not exist, or the user has no access.
const DATABASE_DENIED: [u16; 2] = [1044, 1049];
/// Temporary errors: too many connections (in all, of this user), a lock, a deadlock, an end by an operator or a
/// shutdown.
const PASSING: [u16; 7] = [1040, 1203, 1205, 1213, 1053, 1317, 1927];

/// The error of a refused connection.
pub(super) fn explain(server: String, error: &Error) -> ConnectError {
    let reason = match error {
        Error::Server(refused) => refused.message.clone(),
        Error::Io(IoError::Io(error)) => return ConnectError::unreachable(server, error),
        _ => error.to_string(),
    };
    match error {
        Error::Server(refused) if ACCESS_DENIED.contains(&refused.code) => {
            ConnectError::Credentials(server)
        }
        Error::Server(refused) if DATABASE_DENIED.contains(&refused.code) => {
            ConnectError::Database {
                server,
                database: "database",
                reason,
            }
        }
        _ => ConnectError::Protocol { server, reason },
    }
}

impl StoreError {
    /// `server` is its kind and address.
    pub(super) fn from_mysql(server: &str, error: &Error) -> Self {
        let said = |reason: &dyn fmt::Display| format!("{server}: {reason}");
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
