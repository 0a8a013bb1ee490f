//! The board suite's question: what does watching cost those who are watched?
//!
//! ```text
//!   10,000 or 100,000 actors, a message for every tenth, passed on at random ── 2 workers, always busy
//!
//!   nobody │ watched │ nobody │ watched │ ...   2 s each; the hops of each are counted
//!              ▲
//!              └── all actors are read 10 times a second, or once, as each peer's users would do it
//! ```
//!
//! Each phase is set beside the one before it, so that what else the machine does falls on both. Whoever
//! watches shares the two cores: what its threads use is a figure of its own, and so is what a message
//! costs the workers, which other load on the machine sways less than how many there are.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::cpu_time;
use crate::outcome::Outcome;

/// Of every peer; the machine of the goals has as many cores.
pub const WORKERS_COUNT: usize = 2;
/// Enough to keep all workers busy; most actors wait for a message at any time.
pub const ACTORS_A_MESSAGE: usize = 10;
const PHASE: Duration = Duration::from_secs(2);

/// How many are watched, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    pub actors_count: usize,
    pub readings_per_second: u32,
}

/// What a watcher did in one phase.
#[derive(Clone, Copy, Debug, Default)]
pub struct Readings {
    pub count: u64,
    /// Processor time of all threads that read the actors.
    pub cpu: Duration,
    /// From the beginning to the end of all readings, where that can be told.
    pub busy: Option<Duration>,
    /// Processor time of whoever is shown them, where that is somebody else.
    pub viewer_cpu: Option<Duration>,
}

impl Readings {
    /// Of all who are not workers.
    fn all_cpu(&self) -> Duration {
        self.cpu + self.viewer_cpu.unwrap_or_default()
    }
}

/// Somebody who watches until told to end.
pub trait Watcher {
    fn end(self) -> Result<Readings>;
}

impl Watched {
    pub fn period(self) -> Duration {
        Duration::from_secs(1) / self.readings_per_second
    }

    /// Goes through this many phases, of which every other one is watched. `hops` says how many messages
    /// were passed on so far.
    pub fn measure<W: Watcher>(
        self,
        phases_count: u64,
        hops: impl Fn() -> u64,
        watch: impl Fn() -> Result<W>,
    ) -> Result<Outcome> {
        // What was spawned and never ran is in nobody's cache.
        thread::sleep(PHASE / 2);
        let mut tally = Tally::default();
        for _ in 0..phases_count / 2 {
            let nobody = Phase::begin(&hops);
            thread::sleep(PHASE);
            let nobody = nobody.end(&hops);
            let watched = Phase::begin(&hops);
            let watcher = watch()?;
            thread::sleep(PHASE);
            let readings = watcher.end()?;
            tally.add(nobody, watched.end(&hops), readings);
        }
        tally.outcome()
    }
}

/// Time, processor time and messages passed on.
#[derive(Clone, Copy)]
struct Phase {
    seconds: f64,
    cpu: Duration,
    hops_count: u64,
}

struct Beginning {
    at: Instant,
    cpu: Duration,
    hops_count: u64,
}

impl Phase {
    fn begin(hops: impl Fn() -> u64) -> Beginning {
        Beginning {
            at: Instant::now(),
            cpu: cpu_time::used(),
            hops_count: hops(),
        }
    }

    fn rate(self) -> f64 {
        self.hops_count as f64 / self.seconds
    }

    /// What a message costs the workers, if others used so much.
    fn cost(self, others_cpu: Duration) -> f64 {
        self.cpu.saturating_sub(others_cpu).as_secs_f64() / self.hops_count as f64
    }
}

impl Beginning {
    fn end(self, hops: impl Fn() -> u64) -> Phase {
        Phase {
            seconds: self.at.elapsed().as_secs_f64(),
            cpu: cpu_time::used() - self.cpu,
            hops_count: hops() - self.hops_count,
        }
    }
}

/// All phases so far.
#[derive(Default)]
struct Tally {
    nobody: Vec<Phase>,
    /// Watched over nobody, of each pair.
    ratios: Vec<f64>,
    /// What a message costs the workers, the same way.
    cost_ratios: Vec<f64>,
    watched_seconds: f64,
    readings: Readings,
}

impl Tally {
    fn add(&mut self, nobody: Phase, watched: Phase, readings: Readings) {
        let sum = |sum: Option<Duration>, one: Option<Duration>| {
            one.map(|one| sum.unwrap_or_default() + one)
        };
        self.nobody.push(nobody);
        self.ratios.push(watched.rate() / nobody.rate());
        let cost = watched.cost(readings.all_cpu());
        self.cost_ratios.push(cost / nobody.cost(Duration::ZERO));
        self.watched_seconds += watched.seconds;
        self.readings.count += readings.count;
        self.readings.cpu += readings.cpu;
        self.readings.busy = sum(self.readings.busy, readings.busy);
        self.readings.viewer_cpu = sum(self.readings.viewer_cpu, readings.viewer_cpu);
    }

    fn outcome(mut self) -> Result<Outcome> {
        let readings = self.readings;
        ensure!(readings.count > 0, "nothing was read");
        let hops_count: u64 = self.nobody.iter().map(|it| it.hops_count).sum();
        let seconds: f64 = self.nobody.iter().map(|it| it.seconds).sum();
        ensure!(hops_count > 0, "nothing was passed on");
        let cores_seconds = self.watched_seconds * WORKERS_COUNT as f64;
        let percent = |cpu: Duration| cpu.as_secs_f64() / cores_seconds * 100.0;
        let each_ms = |time: Duration| time.as_secs_f64() * 1e3 / readings.count as f64;
        let mut outcome = Outcome::measured(hops_count, seconds)
            .with_field("qps", hops_count as f64 / seconds)
            .with_field("watched_ratio", median(&mut self.ratios))
            .with_field("cost_ratio", median(&mut self.cost_ratios))
            .with_field(
                "readings_per_s",
                readings.count as f64 / self.watched_seconds,
            )
            .with_field("watcher_percent", percent(readings.cpu));
        if let Some(busy) = readings.busy {
            outcome = outcome.with_field("reading_ms", each_ms(busy));
        }
        if let Some(cpu) = readings.viewer_cpu {
            outcome = outcome.with_field("viewer_percent", percent(cpu));
        }
        Ok(outcome)
    }
}

/// The mean of the middle two if their number is even; there is at least one.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    }
}
