//! The limits of a server.

use std::{fmt, ops::RangeInclusive};

/// Bytes of a connection's unfinished requests that [`EmbeddedOptions::unfinished_bytes_max`] does not count.
pub(crate) const UNCOUNTED_BYTES: usize = 64 << 10;

/// What clients have to show before the server carries out their commands.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Password {
    /// 128 random bits, drawn when the server starts: a web page or another user of this machine cannot guess them.
    /// [`RedisEmbedded::client_options`](crate::RedisEmbedded::client_options) has them.
    #[default]
    Random,
    /// This one.
    Is(String),
    /// Nothing: every process of this machine may use the server.
    None,
}

/// What a server listens on, and what it may cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddedOptions {
    /// The port of 127.0.0.1; default 0, which takes any that is free.
    pub port: u16,
    /// What clients have to show; default [`Password::Random`].
    pub password: Password,
    /// The most connections open at once, 1 to 65,536; default 1,024. Further ones are refused.
    pub connections_max: usize,
    /// The longest request in bytes, 1 KiB to 512 MiB; default 64 MiB. A transaction is no larger either.
    pub query_bytes_max: usize,
    /// The most bytes of unfinished requests and transactions over all connections, 64 KiB to 1 TiB; default
    /// 128 MiB. A connection whose request would exceed it is told so and closed. The first 64 KiB of each connection
    /// do not count, so that short requests find room whatever other clients hold.
    pub unfinished_bytes_max: usize,
    /// With so many bytes of replies that a client has not taken no further request of it is carried out, 1 B to
    /// 512 MiB; default 256 KiB.
    pub write_bytes: usize,
    /// With more than so many bytes of replies, or of messages to a subscriber, its connection is closed, 1 KiB to
    /// 4 GiB; default 64 MiB.
    pub output_bytes_max: usize,
    /// What keys and values take at most, in bytes, 1 KiB to 1 TiB; default 256 MiB. What was not used for long
    /// makes way. What the allocator cannot use again between values of different sizes comes on top.
    pub bytes_max: usize,
    /// What chance begins with; by default it differs from run to run.
    pub seed: Option<u64>,
}

/// An option out of its range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{option} is {value}, and has to be {} to {}", range.start(), range.end())]
pub struct EmbeddedOptionsError {
    /// Its name.
    pub option: &'static str,
    /// What it is.
    pub value: usize,
    /// What it may be.
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
        let check = |option, value, range: RangeInclusive<usize>| {
            if range.contains(&value) {
                return Ok(());
            }
            Err(EmbeddedOptionsError {
                option,
                value,
                range,
            })
        };
        check("connections_max", self.connections_max, 1..=65_536)?;
        check("query_bytes_max", self.query_bytes_max, 1 << 10..=512 << 20)?;
        check(
            "unfinished_bytes_max",
            self.unfinished_bytes_max,
            UNCOUNTED_BYTES..=1 << 40,
        )?;
        check("write_bytes", self.write_bytes, 1..=512 << 20)?;
        check("output_bytes_max", self.output_bytes_max, 1 << 10..=4 << 30)?;
        check("bytes_max", self.bytes_max, 1 << 10..=1 << 40)
    }
}

impl Password {
    /// What a client has to show, if anything.
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

/// Without the password: no log shows it.
impl fmt::Debug for Password {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Random => "Random",
            Self::Is(_) => "Is(..)",
            Self::None => "None",
        })
    }
}
