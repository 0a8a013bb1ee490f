//! The works, and how large each is.

use std::str::FromStr;

use anyhow::{Result, ensure};
use clap::ValueEnum;

/// What a peer is asked to do. The names are those of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Work {
    #[value(name = "fanin_2x2m")]
    FanInFew,
    #[value(name = "fanin_100x10k")]
    FanInMany,
    #[value(name = "pingpong")]
    PingPong,
    #[value(name = "ask")]
    Ask,
    #[value(name = "ring_1000")]
    Ring,
    #[value(name = "spawn")]
    Spawn,
    #[value(name = "idle_1m")]
    Idle,
    #[value(name = "backlog_1k")]
    Backlog1K,
    #[value(name = "backlog_64k")]
    Backlog64K,
    #[value(name = "backlog_1m")]
    Backlog1M,
    #[value(name = "backlog_8m")]
    Backlog8M,
    #[value(name = "flood_direct_scan")]
    FloodDirectScan,
    #[value(name = "flood_direct_raw")]
    FloodDirectRaw,
    #[value(name = "flood_direct_buffered")]
    FloodDirectBuffered,
    #[value(name = "flood_dam_poll")]
    FloodDamPoll,
    #[value(name = "flood_dam_credit")]
    FloodDamCredit,
}

/// Senders of the large fan-in and of the flood.
pub const SENDERS_MANY: u64 = 100;
/// Senders of the small fan-in, each a thread of the operating system.
pub const SENDERS_FEW: u64 = 2;
/// Actors in the ring.
pub const RING_NODES: usize = 1_000;

impl Work {
    pub fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// What `count` counts.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Ring => "hop",
            Self::Spawn | Self::Idle => "actor",
            _ => "msg",
        }
    }

    /// How many units the full work has; for fan-in and flood, what each sender sends.
    pub fn units(self) -> u64 {
        match self {
            Self::FanInFew | Self::PingPong | Self::Ring => 2_000_000,
            Self::FanInMany
            | Self::FloodDirectScan
            | Self::FloodDirectRaw
            | Self::FloodDirectBuffered
            | Self::FloodDamPoll
            | Self::FloodDamCredit => 10_000,
            Self::Ask | Self::Spawn | Self::Idle => 1_000_000,
            Self::Backlog1K => 1_000,
            Self::Backlog64K => 65_536,
            Self::Backlog1M => 1_000_000,
            Self::Backlog8M => 8_000_000,
        }
    }
}

/// The share of the full work to do.
#[derive(Clone, Copy, Debug)]
pub struct Scale(f64);

impl Scale {
    /// The units of `work` at this scale: at least two, and even, so that ping-pong ends where it
    /// began.
    pub fn units(self, work: Work) -> u64 {
        let scaled = (work.units() as f64 * self.0).round() as u64;
        (scaled / 2 * 2).max(2)
    }
}

impl FromStr for Scale {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let value: f64 = text.parse()?;
        ensure!(
            value > 0.0 && value <= 100.0,
            "the scale lies above 0 and up to 100"
        );
        Ok(Self(value))
    }
}
