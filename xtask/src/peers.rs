//! `cargo xtask peers`: the same work on Freeboard and on other runtimes, side by side.
//!
//! ```text
//!  suite ──► programs ──► rounds: work A on every peer, work B on every peer, ... and again
//!            (build)         │  one process a run, one JSON line from it
//!                            ▼
//!                         results ──► statistics ──► tables, goals ──► docs/measurements
//! ```
//!
//! Runs are interleaved, so that a slow minute of the machine affects all peers. Claims in the docs are ratios
//! within one run.

pub(crate) mod beam;
mod figure;
mod go;
mod goals;
mod jvm;
mod machine;
mod measurements;
mod outcome;
mod peer;
mod process;
mod programs;
mod results;
mod statistics;
mod suite;
mod table;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::error::ErrorKind;

use crate::workspace;
use machine::Machine;
use outcome::Outcome;
use peer::{Host, Peer};
use programs::Programs;
use results::Results;
use suite::{SUITES, Suite};

/// The scale of `--quick`.
const QUICK_SCALE: f64 = 0.1;

/// What to measure, and how.
#[derive(Args)]
pub(crate) struct Options {
    /// The works that are measured together
    #[arg(value_parser = PossibleValuesParser::new(SUITES.iter().map(|it| PossibleValue::new(it.name).help(it.about))))]
    suite: String,
    /// Rounds over all works and peers; the tables show medians [default: 5, with --quick 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: Option<u32>,
    /// A tenth of the work, for a first look
    #[arg(long)]
    quick: bool,
    /// Only these peers, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "PEER")]
    only: Vec<String>,
    /// Only these works, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "WORK")]
    work: Vec<String>,
    /// Print the tables, leave docs/measurements alone
    #[arg(long)]
    no_write: bool,
    /// A run that takes longer is ended and counts as failed
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..))]
    limit_seconds: u64,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let suite = SUITES.iter().find(|it| it.name == options.suite);
    let suite = suite.context("the parser allows only known suites")?;
    require_known("--only", &options.only, suite.peers);
    require_known("--work", &options.work, &suite.works());
    let root = workspace::root()?;
    let plan = Plan::new(suite, options);
    let hosts = plan.hosts();
    // Before the build, whose load would otherwise be noted.
    let machine = Machine::describe(&hosts);
    for component in suite.components {
        component.require()?;
    }
    let programs = Programs::build(&root, &hosts, suite.harness)?;
    let results = plan.measure(&programs);
    let text = table::render(suite, &plan.peers, &results, &plan.description, &machine);
    println!("\n{text}");
    if !options.no_write {
        write_measurements(&root, suite.name, &text)?;
    }
    Ok(())
}

/// Ends the program as clap does if a value is none of the suite's.
fn require_known(option: &str, values: &[String], known: &[&str]) {
    if let Some(value) = values.iter().find(|value| !known.contains(&value.as_str())) {
        let known = known.join(", ");
        let text = format!("invalid value '{value}' for '{option}'; possible values: {known}\n");
        clap::Error::raw(ErrorKind::InvalidValue, text).exit();
    }
}

fn write_measurements(root: &Path, name: &str, text: &str) -> Result<()> {
    let path = root.join(format!("docs/measurements/{name}.md"));
    measurements::replace_section(&path, name, text)
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("written to {}", path.display());
    Ok(())
}

/// The measurements of one call of the command.
struct Plan {
    peers: Vec<&'static Peer>,
    works: Vec<&'static str>,
    rounds_count: u32,
    scale: f64,
    limit: Duration,
    description: String,
}

impl Plan {
    fn new(suite: &Suite, options: &Options) -> Self {
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
                .filter(|peer| suite.peers.contains(&peer.name) && chosen(&options.only, peer.name))
                .collect(),
            works: suite
                .works()
                .into_iter()
                .filter(|work| chosen(&options.work, work))
                .collect(),
            rounds_count,
            scale,
            limit: Duration::from_secs(options.limit_seconds),
            description,
        }
    }

    /// The hosts of the chosen peers, each once.
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
