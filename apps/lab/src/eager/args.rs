//! The knobs of the eager scene.

use std::time::Duration;

use clap::{Args, ValueEnum};
use freeboard::net::poller::Policy;

use super::{
    backend::MysqlChoice,
    plan::{BackendKind, Plan, Workload},
};
use crate::{outputs::OutputArgs, parse, peers::PeerArgs};

/// The test workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Choice {
    /// A page over HTTP: short connections, then kept ones
    Http,
    /// A TCP proxy before a database, over kept connections
    Proxy,
    /// The author's question: computing for each request beside actors that only compute
    Sweep,
}

/// Which policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PollChoice {
    /// After 64 runs of actors or 200 us
    Eager,
    /// As often, but only when all events of the last poll were handled
    Drain,
    /// Never: a thread of its own polls
    Dedicated,
    /// The original's rule without its eager check: after twice the budget, by messages, and only when all events of
    /// the last poll were handled. Sockets starve while all workers compute
    Lazy,
    All,
}

/// All policies, in the order of their runs.
const POLICIES: [Policy; 4] = [
    Policy::EAGER,
    Policy::DRAIN,
    Policy::Dedicated,
    Policy::Lazy,
];

/// Computing for each request in the sweep, in microseconds, and requests a second beside it: a third
/// of what two cores could do, at the most.
const SWEEP: [(u64, f64); 4] = [(0, 4_000.0), (10, 4_000.0), (100, 2_000.0), (1_000, 500.0)];

/// Fewer requests say nothing.
const SWEEP_REQUESTS_MIN: f64 = 10.0;
/// Rounds of the sweep: its latencies differ from round to round.
const SWEEP_ROUNDS: u32 = 3;

/// Knobs of `freeboard lab eager`.
#[derive(Debug, Clone, Args)]
pub(crate) struct EagerArgs {
    /// One workload or several, as http,sweep [default: all]
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    scene: Vec<Choice>,

    /// When busy workers poll the network
    #[arg(long, value_enum, default_value_t = PollChoice::All)]
    poll: PollChoice,

    /// Clients at once
    #[arg(long, value_name = "N", default_value_t = 60,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    clients: u32,

    /// Requests of a run of the workloads http and proxy
    #[arg(long, value_name = "N", default_value_t = 20_000,
          value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    requests: u64,

    /// Compute so long for each request, in microseconds; in the sweep, of a list, each is a run
    /// [default: 0; in the sweep 0,10,100,1000]
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          value_parser = clap::value_parser!(u64).range(..=100_000))]
    cpu_us: Vec<u64>,

    /// Ask for so long in each run of the sweep
    #[arg(long, value_name = "SECONDS", default_value = "1.5", value_parser = parse::seconds)]
    time: Duration,

    /// Rounds; of each run the one with the median p99 is shown [default: 3 in the sweep, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: Option<u32>,

    /// While a run goes on, print its counters each N attempts to poll
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "10000",
          value_parser = clap::value_parser!(u64).range(1..))]
    counts: Option<u64>,

    /// What is behind the proxy [default: mariadb with --mysql, or if built with --features real-backends and installed;
    /// else echo]
    #[arg(long, value_enum, value_name = "BACKEND")]
    pub(super) backend: Option<BackendKind>,

    /// The database behind the proxy: auto starts a MariaDB with a data directory of its own, an
    /// address or mysql://user:password@HOST:PORT/database names one that runs
    #[arg(long, value_name = "auto|HOST:PORT", default_value = "auto")]
    pub(super) mysql: MysqlChoice,

    #[command(flatten)]
    pub(super) peers: PeerArgs,

    #[command(flatten)]
    pub(super) outputs: OutputArgs,
}

impl EagerArgs {
    fn backend(&self) -> BackendKind {
        match self.mysql {
            MysqlChoice::Auto => self.backend.unwrap_or(BackendKind::DEFAULT),
            _ => self.backend.unwrap_or(BackendKind::Mariadb),
        }
    }

    /// The runs, in order.
    pub(super) fn plans(&self) -> Vec<Plan> {
        let policies: &[Policy] = match self.poll {
            PollChoice::Eager => &[Policy::EAGER],
            PollChoice::Drain => &[Policy::DRAIN],
            PollChoice::Dedicated => &[Policy::Dedicated],
            PollChoice::Lazy => &[Policy::Lazy],
            PollChoice::All => &POLICIES,
        };
        let mut plans = Vec::new();
        let is_asked = |choice| self.scene.is_empty() || self.scene.contains(&choice);
        let mut workloads = Vec::new();
        if is_asked(Choice::Http) {
            workloads.extend([Workload::Short, Workload::Kept]);
        }
        if is_asked(Choice::Proxy) {
            workloads.push(Workload::Proxy(self.backend()));
        }
        for workload in workloads {
            let cpu_us = match workload {
                Workload::Proxy(_) => 0,
                _ => self.cpu_us.first().copied().unwrap_or(0),
            };
            plans.extend(policies.iter().map(|&policy| Plan {
                workload,
                policy,
                clients: self.clients,
                requests: self.requests,
                cpu_us,
                rounds: self.rounds.unwrap_or(1),
                counts_every: self.counts,
            }));
        }
        if is_asked(Choice::Sweep) {
            let rate = |cpu_us: u64| (300_000.0 / cpu_us.max(75) as f64).min(4_000.0);
            let all = match self.cpu_us.as_slice() {
                [] => SWEEP.to_vec(),
                asked => asked.iter().map(|&cpu_us| (cpu_us, rate(cpu_us))).collect(),
            };
            for (cpu_us, rate) in all {
                plans.extend(policies.iter().map(|&policy| Plan {
                    workload: Workload::Sweep { rate },
                    policy,
                    clients: self.clients,
                    requests: (rate * self.time.as_secs_f64()).max(SWEEP_REQUESTS_MIN) as u64,
                    cpu_us,
                    rounds: self.rounds.unwrap_or(SWEEP_ROUNDS),
                    counts_every: self.counts,
                }));
            }
        }
        plans
    }
}
