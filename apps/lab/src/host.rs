//! A system with a poller that its workers share, as whatever talks to the network needs it.

use anyhow::Result;
use freeboard::{
    System, SystemBuilder,
    net::poller::{Policy, Poller},
};

use crate::board;

/// The two of them.
pub(crate) struct Host {
    pub(crate) system: System,
    pub(crate) poller: Poller,
}

impl Host {
    /// Starts it, and shows it on the board if there is one.
    pub(crate) fn start(system: SystemBuilder, workers: usize, policy: Policy) -> Result<Self> {
        let poller = Poller::new(workers, policy)?;
        let system = system.workers(workers).driver(poller.driver()).build()?;
        board::watch(&system);
        Ok(Self { system, poller })
    }
}
