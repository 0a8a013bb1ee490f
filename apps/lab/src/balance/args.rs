//! The scene's command line, and the run it asks for.

use std::time::Duration;

use clap::Args;

use super::plan::{FaultKind, NativeKind, Place, Plan, YieldKind};
use crate::{outputs::OutputArgs, parse, peers::PeerArgs, processor, usage::Usage};

const PROCS_MAX: i64 = 1_000_000;
const REPEATS_MAX: i64 = 1_000_000_000;
const BYTES_MAX: u64 = 1 << 30;
const SPIN_MAX: u64 = 1_000_000_000;
const SLEEP_MS_MAX: u64 = 10_000;
const WORKERS_MAX: u64 = 256;

const BYTES_DEFAULT: u64 = 1 << 20;
const SPIN_DEFAULT: u64 = 5;
const SLEEP_MS_DEFAULT: u64 = 10;
/// The original's.
const PAUSE_DEFAULT: Duration = Duration::from_secs(12);

/// Processes and repetitions of a run that names none.
const SIZE_CPU: (u32, u32) = (400, 50);
/// A few seconds' worth: each repetition takes longer, and a fault is seen at once.
const SIZE_SLEEP: (u32, u32) = (100, 20);
const SIZE_FAULT: (u32, u32) = (100, 20);

/// Parameters of `freeboard lab balance`.
#[derive(Debug, Clone, Args)]
pub(crate) struct BalanceArgs {
    /// How many processes there are [default: 400; 100 with --native sleep or --fault]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=PROCS_MAX))]
    procs: Option<u32>,

    /// Bytes that each native call computes over [default: 1048576]
    #[arg(long, value_name = "W", value_parser = clap::value_parser!(u64).range(1..=BYTES_MAX))]
    bytes: Option<u64>,

    /// Repetitions of each process [default: 50; 20 with --native sleep or --fault]
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u32).range(1..=REPEATS_MAX))]
    repeats: Option<u32>,

    /// Empty iterations behind each native call [default: 5]
    #[arg(long, value_name = "BW", value_parser = clap::value_parser!(u64).range(0..=SPIN_MAX))]
    spin: Option<u64>,

    /// The same four in the original's order, as in wait:run(N, W, R, BW)
    #[arg(long, num_args = 4, value_names = ["N", "W", "R", "BW"],
          conflicts_with_all = ["procs", "bytes", "repeats", "spin"])]
    run: Option<Vec<u64>>,

    /// Workers [default: the cores this process may use]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=WORKERS_MAX))]
    schedulers: Option<u64>,

    /// Keep K workers on-line from the middle of the run on (with --iterations: before the run)
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..=WORKERS_MAX))]
    online: Option<u64>,

    /// Runs before the one that is measured, as when the original's schedulers collapsed; workers go off-line
    /// (--online) after them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=1_000))]
    iterations: Option<u32>,

    /// Pause after each of these runs; eight of the full size with it take several minutes [default: 12]
    #[arg(long, value_name = "SECONDS", requires = "iterations", value_parser = parse::seconds)]
    pause: Option<Duration>,

    /// Where the processes are born, and released from
    #[arg(long, value_enum, default_value_t = Place::One)]
    place: Place,

    /// When a process gives way to others
    #[arg(long = "yield", value_enum, default_value_t = YieldKind::Each)]
    yields: YieldKind,

    /// What a native call does
    #[arg(long, value_enum, default_value_t = NativeKind::Cpu)]
    native: NativeKind,

    /// How long a native call blocks, with --native sleep [default: 10]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=SLEEP_MS_MAX))]
    sleep_ms: Option<u64>,

    /// Break the scheduler on purpose, to see the break detected
    #[arg(long, value_enum)]
    fault: Option<FaultKind>,

    /// Time between two samples
    #[arg(long, value_name = "MS", default_value_t = 500,
          value_parser = clap::value_parser!(u64).range(1..=60_000))]
    sample_ms: u64,

    /// Native calls are counted over intervals of so many seconds
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = parse::seconds)]
    interval: Duration,

    #[command(flatten)]
    pub(super) peers: PeerArgs,

    #[command(flatten)]
    pub(crate) outputs: OutputArgs,
}

impl BalanceArgs {
    /// The run that is asked for.
    ///
    /// # Errors
    /// [`Usage`] for parameters that contradict each other.
    pub(crate) fn plan(&self) -> Result<Plan, Usage> {
        let size = match (self.native, self.fault) {
            (NativeKind::Sleep, _) => SIZE_SLEEP,
            (NativeKind::Cpu, Some(_)) => SIZE_FAULT,
            (NativeKind::Cpu, None) => SIZE_CPU,
        };
        let (procs, bytes, repeats, spin) = match self.run.as_deref() {
            Some(&[procs, bytes, repeats, spin]) => (
                ranged("N", procs, 1, PROCS_MAX as u64)? as u32,
                ranged("W", bytes, 1, BYTES_MAX)?,
                ranged("R", repeats, 1, REPEATS_MAX as u64)? as u32,
                ranged("BW", spin, 0, SPIN_MAX)?,
            ),
            _ => (
                self.procs.unwrap_or(size.0),
                self.bytes.unwrap_or(BYTES_DEFAULT),
                self.repeats.unwrap_or(size.1),
                self.spin.unwrap_or(SPIN_DEFAULT),
            ),
        };
        if self.native == NativeKind::Sleep && self.bytes.is_some() {
            return Err(Usage::new(
                "--bytes is for calls that compute: --native cpu",
            ));
        }
        if self.native == NativeKind::Cpu && self.sleep_ms.is_some() {
            return Err(Usage::new(
                "--sleep-ms is for calls that block: --native sleep",
            ));
        }
        let schedulers = self
            .schedulers
            .map_or_else(processor::cores, |schedulers| schedulers as usize);
        let online = self.online.map(|online| online as usize);
        if let Some(online) = online.filter(|online| *online > schedulers) {
            return Err(Usage::new(format!(
                "--online {online} is more than there are: --schedulers is {schedulers}"
            )));
        }
        Ok(Plan {
            procs,
            repeats,
            bytes: bytes as usize,
            sleep: Duration::from_millis(self.sleep_ms.unwrap_or(SLEEP_MS_DEFAULT)),
            spin,
            schedulers,
            online,
            iterations: self.iterations.unwrap_or(0),
            pause: self.pause.unwrap_or(PAUSE_DEFAULT),
            place: self.place,
            yields: self.yields,
            native: self.native,
            fault: self.fault,
            sample_every: Duration::from_millis(self.sample_ms),
            interval: self.interval,
        })
    }
}

/// A number of `--run`, which clap cannot give a range of its own.
fn ranged(name: &str, value: u64, least: u64, most: u64) -> Result<u64, Usage> {
    if (least..=most).contains(&value) {
        Ok(value)
    } else {
        Err(Usage::new(format!(
            "--run: {name} is {value}, and must be {least} to {most}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: BalanceArgs,
    }

    fn plan(line: &str) -> Result<Plan, String> {
        let words = std::iter::once("x").chain(line.split_whitespace());
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        line.args.plan().map_err(|error| error.to_string())
    }

    #[test]
    fn the_originals_order_is_understood() {
        let plan = plan("--run 400 1048576 1100 5").unwrap();
        assert_eq!((plan.procs, plan.bytes), (400, 1 << 20));
        assert_eq!((plan.repeats, plan.spin), (1_100, 5));
    }

    #[test]
    fn what_blocks_or_breaks_is_small_unless_told() {
        for (line, procs, repeats) in [
            ("", 400, 50),
            ("--native sleep", 100, 20),
            ("--fault drop-wakes", 100, 20),
            ("--fault drop-wakes --procs 7 --repeats 3", 7, 3),
        ] {
            let plan = plan(line).unwrap();
            assert_eq!((plan.procs, plan.repeats), (procs, repeats), "{line}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (line, says) in [
            ("--schedulers 0", "--schedulers"),
            ("--schedulers 2 --online 3", "--online 3"),
            ("--online 0", "--online"),
            ("--run 1 2 3", "--run"),
            ("--run 0 1 1 1", "N is 0"),
            ("--run 1 1 1 1 --procs 5", "--procs"),
            ("--sleep-ms 5", "--native sleep"),
            ("--native sleep --bytes 5", "--native cpu"),
        ] {
            let error = plan(line).unwrap_err();
            assert!(error.contains(says), "{line}: {error}");
        }
    }
}
