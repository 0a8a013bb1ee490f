//! Why a connection to the server is over.

use std::{fmt, io, time::Duration};

use crate::{error::DownReason, protocol::ProtocolError};

/// Why a connection, or an attempt, is over.
pub(crate) enum Failure {
    Io(io::Error),
    Ended,
    Late(&'static str, Duration),
    Refused(DownReason),
    Protocol(ProtocolError),
    Stuck(Duration),
    Closed,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(formatter, "{error}"),
            Self::Ended => formatter.write_str("the server closed the connection"),
            Self::Late(what, time) => write!(formatter, "no {what} within {time:?}"),
            Self::Refused(reason) => write!(formatter, "{reason}"),
            Self::Protocol(error) => write!(formatter, "{error}"),
            Self::Stuck(time) => {
                write!(formatter, "a reply was more than {time:?} overdue")
            }
            Self::Closed => formatter.write_str("the client has ended"),
        }
    }
}
