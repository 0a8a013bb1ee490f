//! `freeboard sim`: seeds of the standard worlds, one seed again, and the planted mistakes.

use std::{
    io::{IsTerminal, Write},
    ops::Range,
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::Instant,
};

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand, value_parser};
use freeboard::sim::{Failure, Reduction, Report, Simulation};
use freeboard_worlds::{ALL, PLANTED, Planted, StandardWorld, find, named};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};

use crate::{console::Console, interrupt::Interrupt, table::table, usage::Usage};

pub(crate) const EXAMPLES: &str = "\
Examples:
  freeboard sim run
      200 seeds of each world
  freeboard sim run mailboxes --seeds 10000 --jobs 2
  freeboard sim run mailboxes --seeds 1000 --twice
      fails, too, if two runs of a seed are not the same
  freeboard sim replay mailboxes --seed 17
      one run; says what failed
  freeboard sim replay mailboxes --seed 17 --without 0,3 --size senders=2 --until 812 --follow Receiver
      a smaller run, as a failure names it: the steps of the actors whose names contain Receiver, and each mailbox
      behind step 812
  freeboard sim replay mailboxes --seed 17 --trace trace.txt
      all steps
  freeboard sim planted
      which of the planted mistakes are found; needs a build with RUSTFLAGS='--cfg planted'

Exit codes: 0 nothing failed; 1 a seed failed, or a planted mistake was not found; 2 bad usage; 130 Ctrl-C.";

/// Seeds of the standard worlds.
#[derive(Debug, Subcommand)]
pub(crate) enum Sim {
    /// Lists the worlds
    List,
    /// Runs many seeds of worlds
    Run(RunArgs),
    /// Runs one seed again
    Replay(ReplayArgs),
    /// Searches seeds that find the planted mistakes
    Planted(PlantedArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The worlds; all if none is given
    worlds: Vec<String>,
    /// Seeds of each world, from the first
    #[arg(long, value_name = "NUMBER", default_value_t = 200, value_parser = value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    first: u64,
    /// Threads, one seed each; 0 for one per core
    #[arg(long, value_name = "THREADS", default_value_t = 0)]
    jobs: usize,
    /// Runs each seed twice, and compares the traces
    #[arg(long)]
    twice: bool,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The world
    world: String,
    /// The seed
    #[arg(long)]
    seed: u64,
    /// Faults that do not happen, by their numbers
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    without: Vec<usize>,
    /// The most that a size is, such as clients=2
    #[arg(long, value_name = "NAME=NUMBER")]
    size: Vec<String>,
    /// Stops behind this step, and shows each actor's mailbox
    #[arg(long, value_name = "STEP")]
    until: Option<u64>,
    /// Prints the lines of the trace that contain this text
    #[arg(long, value_name = "TEXT")]
    follow: Option<String>,
    /// Writes all lines of the trace into a file
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct PlantedArgs {
    /// The mistakes; all if none is given
    names: Vec<String>,
    /// Seeds that are tried for each
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, value_parser = value_parser!(u64).range(1..))]
    seeds: u64,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn sim(command: &Sim, interrupt: &Interrupt) -> Result<ExitCode> {
    match command {
        Sim::List => {
            for world in ALL {
                Console::new(false).line(&format!("{:<12} {}", world.name, world.about));
            }
            Ok(ExitCode::SUCCESS)
        }
        Sim::Run(args) => run(args, interrupt),
        Sim::Replay(args) => replay(args),
        Sim::Planted(args) => planted(args, interrupt),
    }
}

fn world(name: &str) -> Result<&'static StandardWorld> {
    Ok(named(name).ok_or_else(|| {
        let names: Vec<_> = ALL.iter().map(|world| world.name).collect();
        Usage::new(format!("no world `{name}`; there are {}", names.join(", ")))
    })?)
}

/// The most seeds of one world that this process runs; a process of its own runs each such part of more seeds. A node that is
/// killed runs no destructors, so its memory is leaked: up to 1 MB for each seed.
const PROCESS_SEEDS: u64 = 250;

/// The seeds of one world.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Outcome {
    world: String,
    seeds: u64,
    steps: u64,
    /// That were planned.
    faults: u64,
    virtual_seconds: f64,
    /// Of all threads together.
    seconds: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<FailureText>,
}

impl Outcome {
    fn add(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.steps += other.steps;
        self.faults += other.faults;
        self.virtual_seconds += other.virtual_seconds;
        self.seconds += other.seconds;
        let failures = self.failure.take().into_iter().chain(other.failure);
        self.failure = failures.min_by_key(|it| it.seed);
    }
}

/// The first seed that failed, made as small as it can be.
#[derive(Debug, Deserialize, Serialize)]
struct FailureText {
    seed: u64,
    text: String,
    replay: String,
}

/// Counts the seeds of a world, in several threads.
struct Seeds<'a> {
    world: &'static StandardWorld,
    left: Mutex<Range<u64>>,
    /// Seeds that a thread takes at once.
    part: u64,
    /// Whether each seed runs twice.
    twice: bool,
    outcome: Mutex<Result<Outcome>>,
    bar: &'a ProgressBar,
    interrupt: &'a Interrupt,
}

impl Seeds<'_> {
    fn work(&self) {
        while let Some(seeds) = self.next()
            && !self.interrupt.has_come()
        {
            let count = seeds.end - seeds.start;
            let ran = match self.part {
                1 => Ok(run_seed(self.world, seeds.start, self.twice)),
                _ => run_process(self.world, seeds, self.twice),
            };
            // An interrupt ends the processes too.
            if !self.interrupt.has_come() && self.note(ran) {
                break;
            }
            self.bar.inc(count);
        }
    }

    fn next(&self) -> Option<Range<u64>> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let end = left.start.saturating_add(self.part).min(left.end);
        let part = left.start..end;
        left.start = end;
        (!part.is_empty()).then_some(part)
    }

    /// Whether something has failed.
    fn note(&self, ran: Result<Outcome>) -> bool {
        let mut all = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        match (all.as_mut(), ran) {
            (Ok(all), Ok(ran)) => all.add(ran),
            (Ok(_), Err(error)) => *all = Err(error),
            (Err(_), _) => {}
        }
        all.as_ref().map_or(true, |all| all.failure.is_some())
    }
}

fn run_seed(world: &StandardWorld, seed: u64, twice: bool) -> Outcome {
    let run = || match twice {
        true => Simulation::seed(seed).with_trace().try_run(world.test),
        false => Simulation::seed(seed).try_run(world.test),
    };
    let begin = Instant::now();
    let ran = run();
    let again = (twice && ran.is_ok()).then(run);
    let seconds = begin.elapsed().as_secs_f64();
    let (report, failure) = match ran {
        Ok(report) => {
            let difference = again.and_then(|again| difference(&report, again));
            let failure = difference.map(|lines| not_repeated(world, seed, &lines));
            (report, failure)
        }
        Err(failure) => (failure.report.clone(), Some(smaller(world, *failure))),
    };
    Outcome {
        world: world.name.to_owned(),
        seeds: 1,
        steps: report.steps,
        faults: report.faults.len() as u64,
        virtual_seconds: report.time.as_secs_f64(),
        seconds,
        failure,
    }
}

/// The first lines in which two runs of a seed differ.
fn difference(first: &Report, again: Result<Report, Box<Failure>>) -> Option<String> {
    let again = again.unwrap_or_else(|failure| failure.report);
    if again == *first {
        return None;
    }
    let [mut lines, mut other] =
        [first, &again].map(|it| it.trace.iter().flat_map(|it| it.lines()));
    loop {
        match (lines.next(), other.next()) {
            (None, None) => return Some("their traces are equal".to_owned()),
            (line, other) if line == other => {}
            pair => {
                let [line, other] = [pair.0, pair.1].map(|line| line.unwrap_or("the end"));
                return Some(format!("{line}\n{other}"));
            }
        }
    }
}

fn not_repeated(world: &StandardWorld, seed: u64, lines: &str) -> FailureText {
    let name = world.name;
    FailureText {
        seed,
        text: format!("two runs of seed {seed} of {name} differ:\n{lines}"),
        replay: format!(
            "cargo run --release --features sim -- sim run {name} --first {seed} --seeds 1 --twice"
        ),
    }
}

fn run_process(world: &StandardWorld, seeds: Range<u64>, twice: bool) -> Result<Outcome> {
    let first = seeds.start.to_string();
    let count = (seeds.end - seeds.start).to_string();
    let program = std::env::current_exe().context("this program's path is not known")?;
    let ran = Command::new(program)
        .args(["sim", "run", world.name, "--jobs", "1", "--json"])
        .args(["--first", &first, "--seeds", &count])
        .args(twice.then_some("--twice"))
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start a process for seeds")?;
    let outcomes: Vec<Outcome> = serde_json::from_slice(&ran.stdout).with_context(|| {
        format!(
            "the process of {}, seeds {first} and {count} further ones, ended with {}",
            world.name, ran.status
        )
    })?;
    outcomes.into_iter().next().context("no outcome")
}

fn run(args: &RunArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let worlds: Vec<_> = match args.worlds.is_empty() {
        true => ALL.iter().collect(),
        false => args
            .worlds
            .iter()
            .map(|name| world(name))
            .collect::<Result<_>>()?,
    };
    let end = args.first.checked_add(args.seeds);
    let end = end.ok_or_else(|| Usage::new("--first and --seeds go beyond the last seed"))?;
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    let jobs = if args.jobs == 0 { cores() } else { args.jobs };
    let console = Console::new(args.json);
    let mut outcomes = Vec::new();
    for world in worlds {
        let bar = bar(world.name, args.seeds);
        let seeds = Seeds {
            world,
            left: Mutex::new(args.first..end),
            part: if args.seeds > PROCESS_SEEDS {
                PROCESS_SEEDS
            } else {
                1
            },
            twice: args.twice,
            outcome: Mutex::new(Ok(Outcome::default())),
            bar: &bar,
            interrupt,
        };
        thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| seeds.work());
            }
        });
        bar.finish_and_clear();
        if interrupt.has_come() {
            return Ok(interrupt.exit_code());
        }
        let mut outcome = seeds
            .outcome
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)?;
        outcome.world = world.name.to_owned();
        outcomes.push(outcome);
    }
    let has_failed = outcomes.iter().any(|outcome| outcome.failure.is_some());
    if args.json {
        print_json(&outcomes)?;
    } else {
        print_outcomes(&console, &outcomes);
    }
    Ok(ExitCode::from(u8::from(has_failed)))
}

fn smaller(world: &StandardWorld, failure: Failure) -> FailureText {
    let small = Simulation::seed(failure.seed).minimise(failure, world.test);
    let mut replay = format!(
        "cargo run --release --features sim -- sim replay {} --seed {}",
        world.name, small.seed
    );
    let numbers: Vec<_> = small
        .reduction
        .without
        .iter()
        .map(ToString::to_string)
        .collect();
    if !numbers.is_empty() {
        replay += &format!(" --without {}", numbers.join(","));
    }
    for (name, size) in &small.reduction.sizes {
        replay += &format!(" --size {name}={size}");
    }
    FailureText {
        seed: small.seed,
        replay: format!("{replay} --until {}", small.report.steps),
        text: small.to_string(),
    }
}

fn print_outcomes(console: &Console, outcomes: &[Outcome]) {
    let header = [
        "world",
        "seeds",
        "steps",
        "faults",
        "virtual time",
        "ms per seed",
        "failed",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for it in outcomes {
        let failed = it.failure.as_ref();
        rows.push(vec![
            it.world.clone(),
            it.seeds.to_string(),
            it.steps.to_string(),
            it.faults.to_string(),
            format!("{:.0} s", it.virtual_seconds),
            format!("{:.2}", it.seconds * 1e3 / it.seeds.max(1) as f64),
            failed.map_or_else(|| "no".to_owned(), |it| format!("seed {}", it.seed)),
        ]);
    }
    console.line(&table(&rows));
    for failure in outcomes.iter().filter_map(|it| it.failure.as_ref()) {
        console.line(&format!(
            "\n{}\n\nto repeat it:\n  {}",
            failure.text, failure.replay
        ));
    }
}

fn print_json(value: &impl Serialize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)?;
    Ok(())
}

fn bar(name: &str, seeds: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{prefix:12} [{wide_bar}] {pos}/{len} seeds, {eta}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(seeds)
        .with_style(style)
        .with_prefix(name.to_owned())
}

fn replay(args: &ReplayArgs) -> Result<ExitCode> {
    let world = world(&args.world)?;
    let mut reduction: Reduction = args
        .size
        .join(" ")
        .parse()
        .map_err(|error| Usage::new(format!("--size: {error}")))?;
    reduction.without.extend(&args.without);
    let mut simulation = Simulation::seed(args.seed).reduced(reduction.clone());
    if args.trace.is_some() || args.follow.is_some() {
        simulation = simulation.with_trace();
    }
    if let Some(step) = args.until {
        simulation = simulation.until(step);
    }
    let outcome = simulation.try_run(world.test);
    let report = match &outcome {
        Ok(report) => report,
        Err(failure) => &failure.report,
    };
    let console = Console::new(false);
    let lines = report.trace.as_deref().unwrap_or_default();
    if let Some(path) = &args.trace {
        std::fs::write(path, lines)
            .map_err(|error| Usage::new(format!("cannot write {}: {error}", path.display())))?;
    }
    if let Some(text) = &args.follow {
        lines
            .lines()
            .filter(|line| line.contains(text))
            .for_each(|line| console.line(line));
    }
    if report.has_stopped {
        console.line(&report.actors_text());
    }
    if let Some(text) = report.without_effect(&reduction) {
        console.line(&format!("without effect: {text}"));
    }
    match &outcome {
        Err(failure) => {
            console.line(&failure.to_string());
            Ok(ExitCode::FAILURE)
        }
        Ok(report) if !report.has_stopped => {
            let (steps, time) = (report.steps, report.time);
            console.line(&format!(
                "nothing failed in {steps} steps, {time:?} of virtual time"
            ));
            Ok(ExitCode::SUCCESS)
        }
        Ok(_) => Ok(ExitCode::SUCCESS),
    }
}

/// Whether a planted mistake was found.
#[derive(Debug, Serialize)]
struct Found {
    mistake: &'static str,
    about: &'static str,
    world: &'static str,
    seed: Option<u64>,
    seconds: f64,
    text: String,
}

fn planted(args: &PlantedArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    if !cfg!(planted) {
        let text = "no mistakes are planted in this build: build it with RUSTFLAGS='--cfg planted', and a --target-dir of its own";
        return Err(Usage::new(text).into());
    }
    let by_name = |name: &String| -> Result<&'static Planted> {
        let known = PLANTED.iter().find(|it| it.name == name);
        Ok(known.ok_or_else(|| Usage::new(format!("no planted mistake `{name}`")))?)
    };
    let mistakes: Vec<_> = match args.names.is_empty() {
        true => PLANTED.iter().collect(),
        false => args.names.iter().map(by_name).collect::<Result<_>>()?,
    };
    let console = Console::new(args.json);
    let mut all = Vec::new();
    for mistake in mistakes {
        if interrupt.has_come() {
            return Ok(interrupt.exit_code());
        }
        let begin = Instant::now();
        let failure = find(mistake, args.seeds);
        let text = failure
            .as_ref()
            .map(|it| it.message.lines().next().unwrap_or_default());
        let text = text.unwrap_or("not found").to_owned();
        all.push(Found {
            mistake: mistake.name,
            about: mistake.about,
            world: mistake.world,
            seed: failure.map(|it| it.seed),
            seconds: begin.elapsed().as_secs_f64(),
            text,
        });
    }
    let found = all.iter().filter(|it| it.seed.is_some()).count();
    if args.json {
        print_json(&all)?;
    } else {
        let header = ["mistake", "world", "first seed", "seconds"];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        rows.extend(all.iter().map(|it| {
            let seed = it
                .seed
                .map_or_else(|| "-".to_owned(), |seed| seed.to_string());
            vec![
                it.mistake.to_owned(),
                it.world.to_owned(),
                seed,
                format!("{:.2}", it.seconds),
            ]
        }));
        console.line(&table(&rows));
        console.line(&format!("found {found} of {}", all.len()));
    }
    Ok(ExitCode::from(u8::from(found < all.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_differ_are_told_by_their_first_different_lines() {
        let run = |text: &'static str| {
            let simulation = Simulation::seed(1).with_trace();
            simulation.try_run(|world| ["first", text].into_iter().for_each(|it| world.note(it)))
        };
        let first = run("one").expect("it ends");
        assert_eq!(difference(&first, run("one")), None);
        let lines = difference(&first, run("two")).expect("they differ");
        let words: Vec<_> = lines.split_whitespace().collect();
        assert!(words.contains(&"one") && words.contains(&"two"), "{lines}");
        assert!(!words.contains(&"first"), "{lines}");
    }
}
