//! The scene's command line, and the runs it asks for.

use std::time::Duration;

use anyhow::Result;
use clap::{Args, value_parser};

use crate::{figures::counted, outputs::OutputArgs, parse, usage::Usage};

/// Parameters of `freeboard lab cluster`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ClusterArgs {
    /// Processes that share the devices; each of a list is a run
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [1, 3],
          value_parser = value_parser!(u16).range(1..=16))]
    nodes: Vec<u16>,

    /// Devices, each of which is an actor
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = value_parser!(u32).range(1..=1_000_000))]
    devices: u32,

    /// Reports a second, each of a random device
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = value_parser!(u32).range(1..=100_000))]
    rate: u32,

    /// The time after which an answer has no value, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = value_parser!(u64).range(1..=60_000))]
    deadline_ms: u64,

    /// How long the lease of a process holds: others take over what it keeps when it has been silent for so long
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse::seconds)]
    ttl: Duration,

    /// How long a process is dead, paused, and cut off
    #[arg(long, value_name = "SECONDS", default_value = "4", value_parser = parse::seconds)]
    fault: Duration,

    /// How long nothing is wrong, before and after each
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = parse::seconds)]
    calm: Duration,

    /// How often each of the three faults comes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=1_000))]
    rounds: u32,

    /// Parts of the devices that move together
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = value_parser!(u32).range(1..=256))]
    partitions: u32,

    /// The seed of the arrivals
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    #[command(flatten)]
    pub(crate) outputs: OutputArgs,
}

/// What a run does.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(super) nodes: u16,
    pub(super) devices: u32,
    pub(super) rate: u32,
    pub(super) deadline: Duration,
    pub(super) ttl: Duration,
    pub(super) fault: Duration,
    pub(super) calm: Duration,
    pub(super) rounds: u32,
    pub(super) partitions: u32,
    pub(super) seed: u64,
}

impl Plan {
    pub(super) fn title(&self) -> String {
        match self.nodes {
            1 => "1 process".to_owned(),
            nodes => format!("{nodes} processes"),
        }
    }

    /// How long reports are sent.
    pub(super) fn time(&self) -> Duration {
        self.calm + (self.fault + self.calm) * 3 * self.rounds
    }

    pub(super) fn parameters(&self) -> String {
        format!(
            "{}: {} in {}; {} reports/s for {} s, each answered when it is in the stream of its partition; deadline {} \
             ms; leases of {} s; one process is killed and another one added after {} s, one is paused for {} s, one is \
             cut off for {} s, with {} s before and after each; this {} times; seed {}",
            self.title(),
            counted(u64::from(self.devices), "device"),
            counted(u64::from(self.partitions), "partition"),
            self.rate,
            self.time().as_secs_f64(),
            self.deadline.as_millis(),
            self.ttl.as_secs_f64(),
            self.fault.as_secs_f64(),
            self.fault.as_secs_f64(),
            self.fault.as_secs_f64(),
            self.calm.as_secs_f64(),
            self.rounds,
            self.seed
        )
    }
}

impl ClusterArgs {
    /// The runs, in order.
    ///
    /// # Errors
    /// [`Usage`] if the lease is too short.
    pub(super) fn plans(&self) -> Result<Vec<Plan>> {
        if self.ttl < Duration::from_millis(200) {
            return Err(
                Usage::new("a lease holds for 0.2 s at least: raise --ttl".to_owned()).into(),
            );
        }
        let plan = |nodes: &u16| Plan {
            nodes: *nodes,
            devices: self.devices,
            rate: self.rate,
            deadline: Duration::from_millis(self.deadline_ms),
            ttl: self.ttl,
            fault: self.fault,
            calm: self.calm,
            rounds: self.rounds,
            partitions: self.partitions,
            seed: self.seed,
        };
        Ok(self.nodes.iter().map(plan).collect())
    }
}
