//! `cargo xtask peers`: the same work on Freeboard and on other runtimes, side by side.
//!
//! ```text
//!  suite ──► programs ──► rounds: work A on every peer, work B on every peer, ... and again
//!            (build)         │  one process a run, one JSON line from it
//!                            ▼
//!                         results ──► statistics ──► tables, goals ──► docs/measurements
//! ```
//!
//! Runs are interleaved so that a slow minute of the machine falls on all peers alike; claims in the
//! docs are ratios within one such run.

pub(crate) mod beam;
mod figure;
mod go;
mod goals;
mod group;
mod jvm;
mod machine;
mod measurements;
mod outcome;
mod peer;
mod process;
mod programs;
mod results;
mod statistics;
mod table;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};

use crate::workspace;
use group::Group;
use machine::Machine;
use outcome::Outcome;
use peer::{Host, Peer};
use programs::Programs;
use results::Results;

/// The share of the full work that `--quick` does.
const QUICK_SCALE: f64 = 0.1;

/// What to measure.
#[derive(Subcommand)]
pub(crate) enum Suite {
    /// Fan-in, ping-pong, ask, ring, spawn, idle memory, backlogs
    Messaging(#[command(flatten)] Options<group::Messaging>),
    /// 100 senders flood a log server that writes each line to a file
    Flood(#[command(flatten)] Options<group::Flood>),
    /// 400 equal processes of long native calls, all born on one worker
    Balance(#[command(flatten)] Options<group::Balance>),
    /// One producer, a ring of 1,024, one consumer, by wait strategy
    Ring(#[command(flatten)] Options<group::Ring>),
    /// One actor of a hundred blocks its worker; the others' latency
    Blocking(#[command(flatten)] Options<group::Blocking>),
    /// Records to disk: by mode, seal and size; single commits; beside fio
    Streams(#[command(flatten)] Options<group::Streams>),
    /// A page over HTTP, asked for by ab and wrk
    Http(#[command(flatten)] Options<group::Http>),
    /// All workers compute; how long a message from the network waits for its handler
    Readiness(#[command(flatten)] Options<group::Readiness>),
    /// A TCP proxy in front of an echo server and of MariaDB
    Proxy(#[command(flatten)] Options<group::Proxy>),
    /// Redis clients: GETs and SETs at several depths, and a server that stalls
    Redis(#[command(flatten)] Options<group::Redis>),
    /// The notification fetcher: 20,000/s embedded, and as quickly as RabbitMQ allows
    Fetch(#[command(flatten)] Options<group::Fetch>),
    /// 10,000 and 100,000 busy actors, watched; what that costs them
    Board(#[command(flatten)] Options<group::Board>),
}

/// How to measure; the works that can be chosen are those of suite `S`.
#[derive(Args)]
pub(crate) struct Options<S: Group> {
    /// Rounds over all works and peers; the tables show medians [default: 5, with --quick 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: Option<u32>,
    /// A tenth of the work, for a first look
    #[arg(long)]
    quick: bool,
    /// Only these peers, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "PEER", value_parser = PossibleValuesParser::new(S::PEERS.iter().copied()))]
    only: Vec<String>,
    /// Only these works, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "WORK", value_parser = PossibleValuesParser::new(figure::work_names(S::FIGURES)))]
    work: Vec<String>,
    /// Print the tables, leave docs/measurements alone
    #[arg(long)]
    no_write: bool,
    /// A run that takes longer is ended and counts as failed
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..))]
    limit_seconds: u64,
    #[arg(skip)]
    group: std::marker::PhantomData<S>,
}

pub(crate) fn run(suite: &Suite) -> Result<()> {
    match suite {
        Suite::Messaging(options) => run_group(options),
        Suite::Flood(options) => run_group(options),
        Suite::Balance(options) => run_group(options),
        Suite::Ring(options) => run_group(options),
        Suite::Blocking(options) => run_group(options),
        Suite::Streams(options) => run_group(options),
        Suite::Http(options) => run_group(options),
        Suite::Readiness(options) => run_group(options),
        Suite::Proxy(options) => run_group(options),
        Suite::Redis(options) => run_group(options),
        Suite::Fetch(options) => run_group(options),
        Suite::Board(options) => run_group(options),
    }
}

fn run_group<S: Group>(options: &Options<S>) -> Result<()> {
    let root = workspace::root()?;
    let plan = Plan::new(options);
    ensure!(
        !plan.peers.is_empty() && !plan.works.is_empty(),
        "no peer or no work is left to measure"
    );
    let hosts = plan.hosts();
    // Before the build, whose own load would otherwise be what is noted.
    let machine = Machine::describe(&hosts);
    for component in S::COMPONENTS {
        programs::provide(component)?;
    }
    let programs = Programs::build(&root, &hosts, S::NEEDS_LAB)?;
    let results = plan.measure(&programs);
    let text = table::render(
        S::FIGURES,
        S::RIVALS,
        &plan.peers,
        &results,
        &plan.description,
        &machine,
    );
    println!("\n{text}");
    if !options.no_write {
        write_measurements(&root, S::NAME, &text)?;
    }
    Ok(())
}

fn write_measurements(root: &Path, name: &str, text: &str) -> Result<()> {
    let path = root.join(format!("docs/measurements/{name}.md"));
    measurements::replace_section(&path, name, text)
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("written to {}", path.display());
    Ok(())
}

/// What a call of the command comes to.
struct Plan {
    peers: Vec<&'static Peer>,
    works: Vec<&'static str>,
    rounds_count: u32,
    scale: f64,
    limit: Duration,
    description: String,
}

impl Plan {
    fn new<S: Group>(options: &Options<S>) -> Self {
        let chosen =
            |names: &[String], name: &str| names.is_empty() || names.iter().any(|n| n == name);
        let scale = if options.quick { QUICK_SCALE } else { 1.0 };
        let rounds_count = options.rounds.unwrap_or(if options.quick { 1 } else { 5 });
        let mut description = match rounds_count {
            1 => "1 round".to_owned(),
            count => format!("{count} rounds, interleaved"),
        };
        if options.quick {
            description.push_str(", quick: a tenth of the named work, so fixed costs weigh more");
        }
        if !options.only.is_empty() || !options.work.is_empty() {
            description.push_str(", a selection of peers or works only");
        }
        Self {
            peers: peer::PEERS
                .iter()
                .filter(|peer| S::PEERS.contains(&peer.name) && chosen(&options.only, peer.name))
                .collect(),
            works: figure::work_names(S::FIGURES)
                .into_iter()
                .filter(|work| chosen(&options.work, work))
                .collect(),
            rounds_count,
            scale,
            limit: Duration::from_secs(options.limit_seconds),
            description,
        }
    }

    /// What the chosen peers run on, each once.
    fn hosts(&self) -> Vec<Host> {
        let mut hosts = Vec::new();
        for peer in &self.peers {
            if !hosts.contains(&peer.host) {
                hosts.push(peer.host);
            }
        }
        hosts
    }

    fn measure(&self, programs: &Programs) -> Results {
        let mut results = Results::default();
        for round in 1..=self.rounds_count {
            for work in &self.works {
                for peer in &self.peers {
                    if results.is_settled(peer.name, work) {
                        continue;
                    }
                    let outcome = match programs.command(peer, work, self.scale) {
                        Ok(command) => {
                            process::run(command, self.limit).into_outcome(peer.name, work)
                        }
                        Err(reason) => Outcome::Unavailable(reason),
                    };
                    println!(
                        "round {round}/{} {work:<22} {:<20} {outcome}",
                        self.rounds_count, peer.name
                    );
                    results.add(peer.name, work, outcome);
                }
            }
        }
        results
    }
}
