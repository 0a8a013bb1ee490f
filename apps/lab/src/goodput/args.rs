//! The scene's command line, and the runs it asks for.

use std::time::Duration;

use anyhow::Result;
use clap::Args;

use super::{run::Plan, service::Mailbox};
use crate::{figures::count, outputs::OutputArgs, parse, usage::Usage};

/// The loads, in capacities.
const FACTORS: [f64; 7] = [0.5, 0.8, 1.0, 1.5, 2.0, 5.0, 10.0];
/// Below it loads do not overload, above it a client could not send them.
const FACTOR_MAX: f64 = 100.0;
/// A request takes some 500 bytes while it waits.
const REQUESTS_MAX: f64 = 4e6;

/// Parameters of `freeboard lab goodput`.
#[derive(Debug, Clone, Args)]
pub(crate) struct GoodputArgs {
    /// The mailbox before the service; of a list, as unbounded,deadline, each is a side [default: all]
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    side: Vec<Mailbox>,

    /// Loads as multiples of the capacity; each is a run of each side [default: 0.5,0.8,1,1.5,2,5,10]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = factor)]
    factor: Vec<f64>,

    /// Processor time that a request takes, in microseconds
    #[arg(long, value_name = "US", default_value_t = 200,
          value_parser = clap::value_parser!(u64).range(10..=100_000))]
    cpu_us: u64,

    /// The time after which an answer has no value, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 50,
          value_parser = clap::value_parser!(u64).range(1..=60_000))]
    deadline_ms: u64,

    /// The bound of the sides `bounded`, `codel` and `adaptive`, in requests: by default one that limits memory, not the
    /// wait; the other sides have none, or one that the deadline gives
    #[arg(long, value_name = "N", default_value_t = 1_000,
          value_parser = clap::value_parser!(u32).range(1..))]
    bound: u32,

    /// How long each load lasts; requests of its first and last fifth are not measured
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = parse::seconds)]
    time: Duration,

    /// How long a load of half the capacity follows, to see the recovery
    #[arg(long, value_name = "SECONDS", default_value = "0.4", value_parser = parse::seconds)]
    recovery: Duration,

    /// The seed of the arrivals
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    #[command(flatten)]
    pub(crate) outputs: OutputArgs,
}

fn factor(text: &str) -> Result<f64, String> {
    let factor: f64 = text
        .parse()
        .map_err(|_| format!("\"{text}\" is not a number"))?;
    let is_sane = (0.01..=FACTOR_MAX).contains(&factor);
    is_sane
        .then_some(factor)
        .ok_or_else(|| format!("expected 0.01 to {FACTOR_MAX}"))
}

impl GoodputArgs {
    /// The runs, in order: those that need the most memory last, because memory that was freed still counts.
    ///
    /// # Errors
    /// [`Usage`] if the requests of a run would need too much memory.
    pub(super) fn plans(&self) -> Result<Vec<Plan>> {
        let all = [
            Mailbox::Deadline,
            Mailbox::Priority,
            Mailbox::CoDel,
            Mailbox::Adaptive,
            Mailbox::Bounded,
            Mailbox::Unbounded,
        ];
        let is_asked = |side: &Mailbox| self.side.is_empty() || self.side.contains(side);
        let factors = match self.factor.as_slice() {
            [] => &FACTORS,
            given => given,
        };
        let most = factors.iter().copied().fold(0.0, f64::max);
        let requests = most * self.time.as_secs_f64() * 1e6 / self.cpu_us as f64;
        if requests > REQUESTS_MAX {
            let (requests, most) = (count(requests as u64), count(REQUESTS_MAX as u64));
            return Err(Usage::new(format!(
                "a run would have about {requests} requests, and the most is {most}: lower --time or --factor, or \
                 raise --cpu-us"
            ))
            .into());
        }
        let plan = |side, factor| Plan {
            side,
            factor,
            cpu: Duration::from_micros(self.cpu_us),
            deadline: Duration::from_millis(self.deadline_ms),
            bound: self.bound as usize,
            time: self.time,
            recovery: self.recovery,
            seed: self.seed,
        };
        let sides = all.into_iter().filter(is_asked);
        Ok(sides
            .flat_map(|side| factors.iter().map(move |factor| plan(side, *factor)))
            .collect())
    }
}
