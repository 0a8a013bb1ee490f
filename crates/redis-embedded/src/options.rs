//! The limits of a server.

use std::{fmt, ops::RangeInclusive};

/// What a server listens on, and what it may cost.
#[derive(Clone, PartialEq, Eq)]
pub struct EmbeddedOptions {
    /// The port of 127.0.0.1; default 0, which takes any that is free.
    pub port: u16,
    /// What clients have to say first, if anything; default nothing.
    pub password: Option<String>,
    /// The most connections open at once, 1 to 65,536; default 1,024. Further ones are refused.
    pub connections_max: usize,
    /// The longest request in bytes, 1 KiB to 512 MiB; default 64 MiB. A transaction is no larger either.
    pub query_bytes_max: usize,
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
            password: None,
            connections_max: 1_024,
            query_bytes_max: 64 << 20,
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
        check("write_bytes", self.write_bytes, 1..=512 << 20)?;
        check("output_bytes_max", self.output_bytes_max, 1 << 10..=4 << 30)?;
        check("bytes_max", self.bytes_max, 1 << 10..=1 << 40)
    }
}

impl fmt::Debug for EmbeddedOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("EmbeddedOptions")
            .field("port", &self.port)
            .field("has_password", &self.password.is_some())
            .field("connections_max", &self.connections_max)
            .field("query_bytes_max", &self.query_bytes_max)
            .field("write_bytes", &self.write_bytes)
            .field("output_bytes_max", &self.output_bytes_max)
            .field("bytes_max", &self.bytes_max)
            .field("seed", &self.seed)
            .finish()
    }
}
