//! `cargo xtask peers`: the same work on Freeboard and on other runtimes, side by side.
//!
//! ```text
//!  suite ──► programs ──► rounds: work A on every peer, work B on every peer, ... and again
//!            (build)         │  one process a run, one JSON line from it
//!                            ▼
//!                         results ──► statistics ──► tables, goals ──► docs/measurements
//! ```
//!
//! `cargo xtask peers all` does this for every suite at reduced size and writes the goals of all as one table.
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
mod summary;
mod table;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::error::ErrorKind;

use crate::component::Availability;
use crate::workspace;
use machine::Machine;
use outcome::Outcome;
use peer::{Host, Peer};
use programs::Programs;
use results::Results;
use suite::{SUITES, Suite};
use summary::{SuiteOutcome, SuiteReport};

pub(crate) const EXAMPLES: &str = "\
Examples:
  cargo xtask peers messaging                 all works of a suite; writes docs/measurements/messaging.md
  cargo xtask peers flood --rounds 3 --only freeboard,beam
  cargo xtask peers messaging --work fanin_2x2m --quick --no-write
  cargo xtask peers all                       every suite at reduced size; writes the goals into PERFORMANCE.md
  cargo xtask peers all --no-write            prints the table only";

/// The name that stands for every suite.
const ALL: &str = "all";
const ALL_ABOUT: &str = "Every suite at reduced size; one table of all goals in PERFORMANCE.md";
/// The scale of `--quick`.
const QUICK_SCALE: f64 = 0.1;
/// In a run of all suites, for each: rounds after the first are left out if they would take longer than this.
const ALL_BUDGET: Duration = Duration::from_secs(60);
const ALL_ROUNDS_MAX: u32 = 3;

/// What to measure, and how.
#[derive(Args)]
pub(crate) struct Options {
    /// The works that are measured together
    #[arg(value_parser = suite_names())]
    suite: String,
    /// Rounds over all works and peers; the tables show medians [default: 5, with --quick 1, of all suites as many of 3
    /// as a minute has room for]
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
    /// Print the tables, write no file
    #[arg(long)]
    no_write: bool,
    /// A run that takes longer is ended and counts as failed
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..))]
    limit_seconds: u64,
}

fn suite_names() -> PossibleValuesParser {
    let suites = SUITES.iter().map(|suite| (suite.name, suite.about));
    let names = suites.chain([(ALL, ALL_ABOUT)]);
    PossibleValuesParser::new(names.map(|(name, about)| PossibleValue::new(name).help(about)))
}

pub(crate) fn run(options: &Options) -> Result<()> {
    if options.suite == ALL {
        return run_all(options);
    }
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
        let path = root.join(format!("docs/measurements/{}.md", suite.name));
        write_section(&path, suite.name, &text)?;
    }
    Ok(())
}

/// Runs the works of every suite that have a goal. A suite that fails does not stop the others.
fn run_all(options: &Options) -> Result<()> {
    if options.quick || !options.only.is_empty() || !options.work.is_empty() {
        let text =
            "--quick, --only and --work select from one suite and cannot be used with 'all'\n";
        clap::Error::raw(ErrorKind::ArgumentConflict, text).exit();
    }
    let root = workspace::root()?;
    let machine = Machine::describe(&[]);
    let run_suite = |suite: &&'static Suite| {
        println!("\n{}: {}", suite.name, suite.about);
        let started = Instant::now();
        let outcome = measure_reduced(&root, suite, options);
        let time = started.elapsed();
        println!("{} took {:.0} s", suite.name, time.as_secs_f64());
        SuiteReport {
            suite,
            outcome,
            time,
        }
    };
    let reports: Vec<SuiteReport> = SUITES.iter().map(run_suite).collect();
    let description =
        "every suite at reduced size: the works with a target, a quarter to all of the named work";
    let text = summary::render(&reports, description, &machine);
    println!("\n{text}");
    if !options.no_write {
        write_section(&root.join("PERFORMANCE.md"), ALL, &text)?;
    }
    let failures = summary::failures(&reports);
    ensure!(failures.is_empty(), "failed:\n{}", failures.join("\n"));
    Ok(())
}

fn measure_reduced(root: &Path, suite: &'static Suite, options: &Options) -> SuiteOutcome {
    for component in suite.components {
        if let Availability::Missing(reason) = component.provide() {
            return SuiteOutcome::NotInstalled(reason);
        }
    }
    let plan = Plan::reduced(suite, options);
    match programs::told(Programs::build(root, &plan.hosts(), suite.harness)) {
        Ok(programs) => SuiteOutcome::Measured(plan.measure(&programs)),
        Err(reason) => SuiteOutcome::Failed(reason),
    }
}

/// Ends the program as clap does if a value is none of the suite's.
fn require_known(option: &str, values: &[String], known: &[&str]) {
    if let Some(value) = values.iter().find(|value| !known.contains(&value.as_str())) {
        let known = known.join(", ");
        let text = format!("invalid value '{value}' for '{option}'; possible values: {known}\n");
        clap::Error::raw(ErrorKind::InvalidValue, text).exit();
    }
}

fn write_section(path: &Path, name: &str, text: &str) -> Result<()> {
    measurements::replace_section(path, name, text)
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
    /// Rounds after the first are left out if they would take longer.
    budget: Option<Duration>,
    description: String,
}

impl Plan {
    fn new(suite: &Suite, options: &Options) -> Self {
        let chosen =
            |names: &[String], name: &str| names.is_empty() || names.iter().any(|n| n == name);
        let peers = peers_of(suite).filter(|peer| chosen(&options.only, peer.name));
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
            peers: peers.collect(),
            works: suite
                .works()
                .into_iter()
                .filter(|work| chosen(&options.work, work))
                .collect(),
            rounds_count,
            scale,
            limit: Duration::from_secs(options.limit_seconds),
            budget: None,
            description,
        }
    }

    /// For a run of all suites.
    fn reduced(suite: &Suite, options: &Options) -> Self {
        Self {
            peers: peers_of(suite).collect(),
            works: suite.summary_works(),
            rounds_count: options.rounds.unwrap_or(ALL_ROUNDS_MAX),
            scale: suite.reduced_scale,
            limit: Duration::from_secs(options.limit_seconds),
            budget: options.rounds.is_none().then_some(ALL_BUDGET),
            description: String::new(),
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

    /// Whether a round can begin after those before it took this time. The first always can.
    fn has_time_for(&self, round: u32, elapsed: Duration) -> bool {
        let before = round - 1;
        match self.budget {
            Some(budget) if before > 0 => elapsed / before * round <= budget,
            _ => true,
        }
    }

    fn measure(&self, programs: &Programs) -> Results {
        let mut results = Results::default();
        let started = Instant::now();
        for round in 1..=self.rounds_count {
            if !self.has_time_for(round, started.elapsed()) {
                break;
            }
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

/// The suite's peers, in the order of all peers.
fn peers_of(suite: &Suite) -> impl Iterator<Item = &'static Peer> {
    let is_in = |peer: &&'static Peer| suite.peers.contains(&peer.name);
    peer::PEERS.iter().filter(is_in)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::suite::MESSAGING;
    use super::*;

    #[derive(Parser)]
    struct Call {
        #[command(flatten)]
        options: Options,
    }

    fn options(arguments: &[&str]) -> Options {
        let arguments = ["peers"].iter().chain(arguments);
        Call::try_parse_from(arguments).unwrap().options
    }

    #[test]
    fn all_suites_have_rounds_within_a_minute_unless_told_otherwise() {
        let plan = Plan::reduced(&MESSAGING, &options(&["all"]));
        let has_time = |round, seconds| plan.has_time_for(round, Duration::from_secs(seconds));
        assert!(has_time(1, 0) && has_time(2, 30) && has_time(3, 40));
        assert!(!has_time(2, 31) && !has_time(3, 41));
        let plan = Plan::reduced(&MESSAGING, &options(&["all", "--rounds", "2"]));
        assert_eq!(plan.rounds_count, 2);
        assert!(plan.has_time_for(2, Duration::from_secs(600)));
    }

    #[test]
    fn one_suite_is_measured_in_full_unless_told_otherwise() {
        let plan = Plan::new(&MESSAGING, &options(&["messaging"]));
        assert_eq!((plan.rounds_count, plan.scale), (5, 1.0));
        assert_eq!(plan.works, MESSAGING.works());
        let quick = ["messaging", "--quick", "--only", "kanal,beam"];
        let plan = Plan::new(&MESSAGING, &options(&quick));
        let names: Vec<&str> = plan.peers.iter().map(|peer| peer.name).collect();
        assert_eq!((plan.rounds_count, plan.scale), (1, QUICK_SCALE));
        assert_eq!(names, ["beam", "kanal"]);
    }
}
