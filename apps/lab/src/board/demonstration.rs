//! Something to look at: a system in which most of what a board can show happens by itself.
//!
//! ```text
//!   weather ──▶ devices (many, random)             flooder ──every 15 s──▶ log_server (long queue)
//!   weather ──▶ telemetry (sheds)                  mishaps: blocks, computes long, panics, a hot key
//!   journal ──▶ stream on disk                     readers ──▶ cache ──▶ Redis, both in this process
//! ```

use std::{net::SocketAddr, process::ExitCode, time::Duration};

use anyhow::Result;
use clap::Args;
use freeboard::{System, board::LISTEN_DEFAULT, net::poller::Policy};

use super::{devices, flood, mishaps, stores::Stores};
use crate::{host::Host, interrupt::Interrupt, processor};

/// How long actors may take to end.
const END: Duration = Duration::from_secs(2);

/// Knobs of `freeboard board`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DemonstrationArgs {
    /// Listen here; port 0 takes any that is free; other machines need a token to look
    #[arg(long, value_name = "ADDRESS:PORT", default_value = LISTEN_DEFAULT)]
    pub(super) listen: SocketAddr,

    /// Actors that devices report to
    #[arg(long, value_name = "N", default_value_t = 1_000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) actors: u32,

    /// Reports a second, of all devices together
    #[arg(long, value_name = "N", default_value_t = 2_000,
          value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(super) rate: u32,

    /// Seed of what happens by chance
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
}

/// The system, and what stands beside it.
pub(super) struct Demonstration {
    stores: Stores,
    system: System,
}

impl Demonstration {
    pub(super) fn start(args: &DemonstrationArgs) -> Result<Self> {
        let system = System::builder().name("demonstration");
        let Host { system, poller } = Host::start(system, processor::cores(), Policy::default())?;
        devices::start(&system, args.actors, args.rate, args.seed)?;
        flood::start(&system)?;
        mishaps::start(&system, args.seed)?;
        let stores = Stores::start(&system, &poller, args.seed)?;
        Ok(Self { stores, system })
    }

    /// Waits for Ctrl-C.
    pub(super) fn run(self, interrupt: &Interrupt) -> ExitCode {
        interrupt.wait();
        // Before the system: its threads ask for what lives there.
        drop(self.stores);
        self.system.shutdown(END);
        ExitCode::SUCCESS
    }
}
