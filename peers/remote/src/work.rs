//! The works, and how large each is.

use std::{str::FromStr, time::Duration};

use anyhow::{Result, ensure};
use clap::ValueEnum;

/// What a peer is asked to do. The names are those of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Work {
    /// One ask after another.
    #[value(name = "remote_ask_1")]
    Ask1,
    /// 64 asks are under way at any time.
    #[value(name = "remote_ask_64")]
    Ask64,
    /// Messages without an answer, as fast as the peer takes them.
    #[value(name = "remote_tell")]
    Tell,
    /// Ten times as many messages as the receiver can handle.
    #[value(name = "remote_overload")]
    Overload,
}

/// A message of the overload is larger, so that a queue without a bound is seen.
const OVERLOAD_BYTES: usize = 1_024;
const BYTES: usize = 64;

/// The work of a message under overload: 5,000 messages a second, a tenth of what is offered.
pub const WORK_TIME: Duration = Duration::from_micros(200);
pub const OFFERED_PER_SECOND: u64 = 50_000;

/// Offers are made in batches, at this interval.
pub const TICK: Duration = Duration::from_millis(1);

impl Work {
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        // No work is hidden.
        value.map_or_else(String::new, |it| it.get_name().to_owned())
    }

    /// Of a message.
    pub fn bytes(self) -> usize {
        match self {
            Self::Overload => OVERLOAD_BYTES,
            _ => BYTES,
        }
    }

    /// How long is sent.
    pub fn time(self, scale: Scale) -> Duration {
        let full = match self {
            Self::Overload => Duration::from_secs(4),
            _ => Duration::from_secs(2),
        };
        full.mul_f64(scale.0)
    }

    /// Asks without an answer; `None` if it has no asks.
    pub fn outstanding(self) -> Option<usize> {
        match self {
            Self::Ask1 => Some(1),
            Self::Ask64 => Some(64),
            Self::Tell | Self::Overload => None,
        }
    }
}

/// The share of the work that is done: above 0.
#[derive(Clone, Copy, Debug)]
pub struct Scale(pub f64);

impl FromStr for Scale {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let scale = text.parse()?;
        ensure!(scale > 0.0 && scale <= 1_000.0, "it is out of range");
        Ok(Self(scale))
    }
}
