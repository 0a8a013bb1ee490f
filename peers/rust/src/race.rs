//! The balance suite's race: equal processes of long native calls, released together.
//!
//! ```text
//!  born and waiting ──► release ──► each: 50 x (MD5 over 1 MiB, a short loop) ──► elapsed seconds
//! ```
//!
//! One call takes about 2 ms and gives nothing back to a scheduler before it ends. A fair scheduler
//! lets all processes end at about the same time, and an awake one keeps all workers busy until then.

use std::hint::black_box;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use md5::{Digest, Md5};

use crate::cpu_time;
use crate::finish::{self, Finish, Waiting};
use crate::outcome::Outcome;

pub const PROCESSES_COUNT: u64 = 400;
/// Of every peer.
const WORKERS_COUNT: f64 = 2.0;
const HASHED_BYTES: usize = 1 << 20;
const SPIN_ITERATIONS: u32 = 5;

/// Shared by all processes of a run.
#[derive(Clone)]
pub struct Race(Arc<Shared>);

struct Shared {
    text: Vec<u8>,
    digest: [u8; 16],
    repeats_count: u64,
    release: OnceLock<Release>,
    elapsed_seconds: Mutex<Vec<f64>>,
    finish: Finish,
}

struct Release {
    at: Instant,
    cpu_used: Duration,
}

/// Held by the main thread.
pub struct Finishers {
    race: Race,
    waiting: Waiting,
}

impl Race {
    pub fn new(repeats_count: u64) -> (Self, Finishers) {
        let text = vec![0x5a; HASHED_BYTES];
        let (finish, waiting) = finish::line();
        let race = Self(Arc::new(Shared {
            digest: Md5::digest(&text).into(),
            text,
            repeats_count,
            release: OnceLock::new(),
            elapsed_seconds: Mutex::new(Vec::with_capacity(PROCESSES_COUNT as usize)),
            finish,
        }));
        let finishers = Finishers {
            race: race.clone(),
            waiting,
        };
        (race, finishers)
    }

    pub fn repeats_count(&self) -> u64 {
        self.0.repeats_count
    }

    /// Starts the clock. Called once, when all processes are there, just before they are let go.
    pub fn release(&self) {
        self.0.release.get_or_init(|| Release {
            at: Instant::now(),
            cpu_used: cpu_time::used(),
        });
    }

    /// One repetition of one process.
    ///
    /// # Panics
    /// If the digest is not that of the text.
    pub fn repeat_once(&self) {
        let digest: [u8; 16] = Md5::digest(black_box(&self.0.text)).into();
        assert_eq!(digest, self.0.digest, "a digest is wrong");
        for iteration in 0..SPIN_ITERATIONS {
            black_box(iteration);
        }
    }

    /// Called by each process after its last repetition.
    ///
    /// # Panics
    /// If nobody has released the processes.
    pub fn one_has_ended(&self) {
        let release = self
            .0
            .release
            .get()
            .expect("processes wait for the release");
        let seconds = release.at.elapsed().as_secs_f64();
        let mut elapsed_seconds = self
            .0
            .elapsed_seconds
            .lock()
            .expect("nobody panics while it holds the lock");
        elapsed_seconds.push(seconds);
        if elapsed_seconds.len() as u64 == PROCESSES_COUNT {
            self.0.finish.report(PROCESSES_COUNT, 0);
        }
    }
}

impl Finishers {
    /// Waits for the last process.
    ///
    /// The ideal is the processor time that was used, spread evenly over all workers; a worker that
    /// spins for want of work counts as used, so a runtime that does is flattered by it.
    pub fn into_outcome(self) -> Result<Outcome> {
        let ended = self.waiting.wait(PROCESSES_COUNT, 0)?;
        let shared = &self.race.0;
        let release = shared.release.get().context("nobody was released")?;
        let cpu_seconds = (cpu_time::used() - release.cpu_used).as_secs_f64();
        let seconds = ended.duration_since(release.at).as_secs_f64();
        let mut elapsed = shared
            .elapsed_seconds
            .lock()
            .expect("nobody panics while it holds the lock")
            .clone();
        elapsed.sort_by(f64::total_cmp);
        let (shortest, longest) = (elapsed[0], elapsed[elapsed.len() - 1]);
        Ok(
            Outcome::measured(PROCESSES_COUNT * shared.repeats_count, seconds)
                .with_field("max_over_min", longest / shortest)
                .with_field("elapsed_min_s", shortest)
                .with_field("elapsed_median_s", elapsed[elapsed.len() / 2])
                .with_field("elapsed_max_s", longest)
                .with_field(
                    "makespan_over_ideal",
                    seconds / (cpu_seconds / WORKERS_COUNT),
                )
                .with_field("utilisation", cpu_seconds / (seconds * WORKERS_COUNT))
                .with_field("cpu_s", cpu_seconds)
                .with_field("workers", WORKERS_COUNT),
        )
    }
}
