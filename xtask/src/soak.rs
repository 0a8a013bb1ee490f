//! `cargo xtask soak`: repeats loom, property, crash and kill tests with larger limits for a given time. With `--hours`,
//! runs the servers together instead, under changing load and kills ([`together`]).
//!
//! Each round prints its new seed before it starts, so that a failure can be repeated.

mod load;
mod process;
mod together;

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::cargo::{Cargo, readable};
use crate::{loom, sanitizer, workspace};

/// More than in `ci`. Each further preemption takes about ten times as long.
const LOOM_PREEMPTIONS_MAX: &str = "5";
/// One loom model may take this fraction of the time: a full search may take days.
const LOOM_MODEL_SHARE: u64 = 10;
/// Seeds for each of the three tests of a stream on a simulated disk.
const CRASH_SEEDS: u32 = 34_000;
/// Seeds of each stress test of actors.
const STRESS_SEEDS: u32 = 1_000;
/// Kills of a process that writes a stream.
const KILLS: u32 = 10_000;
/// Notifications of the fetcher while its servers and services are killed, and while services come and go.
const NOTIFICATIONS: u32 = 100_000;
/// Notifications a second that services share while others come and go.
const FETCHER_RATE: u32 = 2_000;
/// Kills of a log server in the middle of a flood.
const LOGD_KILLS: u32 = 1_000;
/// Lines of each of the 20 senders of a log server's overload.
const LOGD_LINES: u32 = 1_000_000;
/// Clients that a log server has at once.
const LOGD_CLIENTS: u32 = 10_000;
/// Kills of an archiver in the middle of a segment.
const ARCHIVE_KILLS: u32 = 100;
/// Kills of the key-value store under load.
const KVS_KILLS: u32 = 1_000;
/// Seeds of each world of the simulator, and of the search for each planted mistake.
const WORLD_SEEDS: &str = "10000";

/// How long to soak, and how hard.
#[derive(Args)]
pub(crate) struct Options {
    /// Start no new round after this many minutes
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    minutes: u64,
    /// Cases for each property test in one round
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    cases: u32,
    /// Run log server, fetcher, key-value store and a stream together for so long, under changing load and kills; 0.05
    /// works, too
    #[arg(long, value_name = "HOURS", conflicts_with_all = ["minutes", "cases"], value_parser = hours)]
    hours: Option<f64>,
    /// Use the debug build, as CI does
    #[arg(long, requires = "hours")]
    debug: bool,
    /// Print the result as JSON
    #[arg(long, requires = "hours")]
    json: bool,
}

fn hours(text: &str) -> Result<f64, String> {
    let hours = text.parse().ok().filter(|it| (0.01..=1_000.0).contains(it));
    hours.ok_or_else(|| "a number from 0.01 to 1000".to_owned())
}

/// The small form of the servers together, for CI: 90 seconds with the debug build.
pub(crate) fn short() -> Result<()> {
    together::run(&workspace::root()?, 0.025, false, false)
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let root = workspace::root()?;
    if let Some(hours) = options.hours {
        return together::run(&root, hours, !options.debug, options.json);
    }
    let packages = workspace::packages(&root)?;
    let loom = loom::calls(&packages, LOOM_PREEMPTIONS_MAX);
    let property: Vec<&str> = packages
        .iter()
        .filter(|package| package.depends_on("proptest"))
        .map(|package| package.name.as_str())
        .collect();
    if loom.is_empty() && property.is_empty() {
        bail!("no package has loom or property tests: there is nothing to soak");
    }

    let started = Instant::now();
    let limit = Duration::from_secs(options.minutes * 60);
    let mut round = 0_u32;
    while started.elapsed() < limit {
        round += 1;
        let seed = seed()?;
        println!(
            "\n== round {round}, seed {seed}, {} of {}",
            readable(started.elapsed()),
            readable(limit)
        );
        if !property.is_empty() {
            repeated_tests(&property, seed, options.cases).run(&root)?;
            fetcher_kills(seed).run(&root)?;
            kvs_kills(seed).run(&root)?;
            logd_kills().run(&root)?;
            logd_overload().run(&root)?;
            archive_kills().run(&root)?;
            worlds(seed).run(&root)?;
        }
        // loom and the planted mistakes are deterministic: a second pass would repeat the first.
        if round == 1 {
            planted_mistakes().run(&root)?;
            match sanitizer::target().map(sanitizer::threads) {
                Some(Ok(call)) => call.run(&root)?,
                Some(Err(reason)) => println!("thread sanitizer: SKIPPED: {reason:#}"),
                None => println!("thread sanitizer: SKIPPED: for Linux on x86-64 and aarch64"),
            }
            let seconds_max = (limit.as_secs() / LOOM_MODEL_SHARE).to_string();
            for call in &loom {
                call.clone()
                    .with_variable("LOOM_MAX_DURATION", seconds_max.as_str())
                    .run(&root)?;
            }
        }
        if property.is_empty() {
            break;
        }
    }
    println!(
        "\nsoak: {round} rounds without a failure in {}",
        readable(started.elapsed())
    );
    Ok(())
}

fn repeated_tests(names: &[&str], seed: u64, cases: u32) -> Cargo {
    Cargo::new(["test", "--release"])
        .with_arguments(names.iter().flat_map(|name| ["-p", name]))
        .with_variable("PROPTEST_RNG_SEED", seed.to_string())
        .with_variable("PROPTEST_CASES", cases.to_string())
        .with_variable("FREEBOARD_SEED", seed.to_string())
        .with_variable("FREEBOARD_SEEDS", CRASH_SEEDS.to_string())
        .with_variable("FREEBOARD_STRESS_SEED", seed.to_string())
        .with_variable("FREEBOARD_STRESS_SEEDS", STRESS_SEEDS.to_string())
        .with_variable("FREEBOARD_KILLS", KILLS.to_string())
}

fn fetcher_kills(seed: u64) -> Cargo {
    Cargo::new(["test", "--release"])
        .with_arguments(["-p", "freeboard-lab", "--test", "fetcher_kills"])
        .with_arguments(["--features", "real-backends"])
        .with_variable("FREEBOARD_SEED", seed.to_string())
        .with_variable("FREEBOARD_NOTIFICATIONS", NOTIFICATIONS.to_string())
        .with_variable("FREEBOARD_RATE", FETCHER_RATE.to_string())
}

fn kvs_kills(seed: u64) -> Cargo {
    Cargo::new(["test", "--release"])
        .with_arguments(["-p", "freeboard-kvs", "--test", "it", "kills"])
        .with_variable("FREEBOARD_SEED", seed.to_string())
        .with_variable("FREEBOARD_KVS_KILLS", KVS_KILLS.to_string())
}

fn logd_kills() -> Cargo {
    Cargo::new(["test", "--release"])
        .with_arguments(["-p", "freeboard-logd", "--test", "it", "kills"])
        .with_variable("FREEBOARD_LOGD_KILLS", LOGD_KILLS.to_string())
}

fn logd_overload() -> Cargo {
    Cargo::new(["test", "--release"])
        .with_arguments(["-p", "freeboard-lab", "--test", "logd_overload"])
        .with_variable("FREEBOARD_LOGD_LINES", LOGD_LINES.to_string())
        .with_variable("FREEBOARD_LOGD_CLIENTS", LOGD_CLIENTS.to_string())
}

fn archive_kills() -> Cargo {
    Cargo::new(["test", "--release"])
        .with_arguments(["-p", "freeboard-lab", "--test", "stream_archive"])
        .with_arguments(["--features", "archive"])
        .with_variable("FREEBOARD_ARCHIVE_KILLS", ARCHIVE_KILLS.to_string())
}

fn worlds(seed: u64) -> Cargo {
    // Seeds that `freeboard sim replay` prints short.
    let first = (seed & 0xffff_ffff).to_string();
    simulate(["run", "--twice", "--first", &first])
}

fn planted_mistakes() -> Cargo {
    let call = simulate(["planted"]).with_rustflags("--cfg planted");
    call.with_variable("CARGO_TARGET_DIR", "target/planted")
}

fn simulate<const N: usize>(command: [&str; N]) -> Cargo {
    Cargo::new([
        "run",
        "--release",
        "-p",
        "freeboard-lab",
        "--features",
        "sim",
    ])
    .with_arguments(["--bin", "freeboard", "--", "sim"])
    .with_arguments(command)
    .with_arguments(["--seeds", WORLD_SEEDS])
}

fn seed() -> Result<u64> {
    let since_epoch = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .context("the clock stands before 1970")?;
    Ok(u64::from(since_epoch.subsec_nanos()) << 32 | since_epoch.as_secs() & 0xffff_ffff)
}
