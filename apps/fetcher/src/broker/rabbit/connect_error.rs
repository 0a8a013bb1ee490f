//! Why there is no connection: one clear line each.

use std::io;

use lapin::ErrorKind;

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
