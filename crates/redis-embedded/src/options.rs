//! Options of a server, and the errors of its start.

use std::{fmt, ops::RangeInclusive};

use freeboard_actor::SpawnError;
use freeboard_net::tcp::BindError;

/// Bytes of a connection's unfinished requests that [`EmbeddedOptions::unfinished_bytes_max`] does not count.
pub(crate) const UNCOUNTED_BYTES: usize = 64 << 10;

/// The password that clients must send.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Password {
    /// 128 random bits, generated at start, so that web pages and other users of the machine cannot guess it. See
    /// [`RedisEmbedded::client_options`](crate::RedisEmbedded::client_options).
    #[default]
    Random,
    /// This password.
    Is(String),
    /// No password: every process on the machine can use the server.
    None,
}

/// Port, password and limits of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddedOptions {
    /// Port on 127.0.0.1; default 0, which means any free port.
    pub port: u16,
    /// Password; default [`Password::Random`].
    pub password: Password,
    /// Limit of connections, 1 to 65,536; default 1,024. Further connections are refused.
    pub connections_max: usize,
    /// Limit of a request in bytes, 1 KiB to 512 MiB; default 64 MiB.
    pub query_bytes_max: usize,
    /// Limit of the bytes of unfinished requests of all connections, 64 KiB to 1 TiB; default 128 MiB. A connection
    /// that would exceed it gets an error and is closed. The first 64 KiB of each connection do not count, so that
    /// short requests are always possible.
    pub unfinished_bytes_max: usize,
    /// Bytes of unread replies at which no further request of the client is executed, 1 B to 512 MiB; default
    /// 256 KiB.
    pub write_bytes: usize,
    /// Limit of the bytes of unread replies, and of messages to a subscriber, 1 KiB to 4 GiB; default 64 MiB. A
    /// connection that exceeds it is closed.
    pub output_bytes_max: usize,
    /// Limit of the memory of keys and values in bytes, 1 KiB to 1 TiB; default 256 MiB. Beyond it, keys that were
    /// not used recently are evicted. Fragmentation of the allocator is not included.
    pub bytes_max: usize,
    /// Random seed for evictions; default differs from run to run.
    pub seed: Option<u64>,
}

/// An option out of its range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{option} is {value}, but must be between {} and {}", range.start(), range.end())]
pub struct EmbeddedOptionsError {
    /// Its name.
    pub option: &'static str,
    /// Its value.
    pub value: usize,
    /// The valid range.
    pub range: RangeInclusive<usize>,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            port: 0,
            password: Password::Random,
            connections_max: 1_024,
            query_bytes_max: 64 << 20,
            unfinished_bytes_max: 128 << 20,
            write_bytes: 256 << 10,
            output_bytes_max: 64 << 20,
            bytes_max: 256 << 20,
            seed: None,
        }
    }
}

impl EmbeddedOptions {
    pub(crate) fn check(&self) -> Result<(), EmbeddedOptionsError> {
        for (option, value, range) in [
            ("connections_max", self.connections_max, 1..=65_536),
            ("query_bytes_max", self.query_bytes_max, 1 << 10..=512 << 20),
            (
                "unfinished_bytes_max",
                self.unfinished_bytes_max,
                UNCOUNTED_BYTES..=1 << 40,
            ),
            ("write_bytes", self.write_bytes, 1..=512 << 20),
            ("output_bytes_max", self.output_bytes_max, 1 << 10..=4 << 30),
            ("bytes_max", self.bytes_max, 1 << 10..=1 << 40),
        ] {
            if !range.contains(&value) {
                return Err(EmbeddedOptionsError {
                    option,
                    value,
                    range,
                });
            }
        }
        Ok(())
    }
}

impl Password {
    /// The password, if any.
    pub(crate) fn resolve(&self) -> Result<Option<String>, getrandom::Error> {
        let mut bits = [0; 16];
        match self {
            Self::Random => {
                getrandom::fill(&mut bits)?;
                Ok(Some(format!("{:032x}", u128::from_ne_bytes(bits))))
            }
            Self::Is(password) => Ok(Some(password.clone())),
            Self::None => Ok(None),
        }
    }
}

/// Never shows the password.
impl fmt::Debug for Password {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Random => "Random",
            Self::Is(_) => "Is(..)",
            Self::None => "None",
        })
    }
}

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An option is out of range.
    #[error(transparent)]
    Options(#[from] EmbeddedOptionsError),
    /// The operating system returned no random bits for a password.
    #[error("cannot generate a password: {0}")]
    Password(#[from] getrandom::Error),
    /// The port cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The system accepts no actors.
    #[error("the server's sweeper cannot be spawned")]
    Spawn(#[from] SpawnError),
}
