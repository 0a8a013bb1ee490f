//! The blocking suite's load: letters sent at times fixed beforehand, whatever becomes of the earlier.
//!
//! ```text
//!                  10,000/s, in turn   ┌─► actors 1 .. 99   latency from the scheduled time
//!  generator ──────────────────────────┤      ▲             to the end of the handler
//!  (a thread)                          │      │ 8 letters, then asleep for 100 ms
//!                  one every 200 ms    └─► actor 0
//! ```
//!
//! How long must others wait when one actor of a hundred keeps its worker half of the time? And how
//! long those whom it has just woken, which many runtimes put into the queue of that very worker?
//!
//! The generator sleeps to the next scheduled time, and what a sleep overshoots is part of the latency:
//! some 60 us on Linux, far below what is looked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;

use crate::finish::{self, Finish, Waiting};
use crate::outcome::Outcome;

/// The first of them is the one that blocks.
pub const ACTORS_COUNT: usize = 100;
const LETTER_PERIOD: Duration = Duration::from_micros(100);
/// One letter that blocks for so many of the others.
const LETTERS_PER_BLOCK: u64 = 2_000;
/// What the actor that blocks sends just before, each to another actor.
const LETTERS_BEFORE_BLOCK: usize = 8;
const BLOCK: Duration = Duration::from_millis(100);

/// What an actor receives.
#[derive(Clone, Copy, Debug)]
pub struct Letter {
    scheduled: Instant,
    task: Task,
}

#[derive(Clone, Copy, Debug)]
enum Task {
    /// Nothing but to be handled; the number is that of its latency.
    Note(usize),
    /// Send letters from this number on, then block.
    Block(usize),
}

/// Shared by all actors: what has been handled, and how late.
#[derive(Clone)]
pub struct Desk(Arc<Shared>);

struct Shared {
    /// Nanoseconds by number, those of the generator's letters first; zero is not handled yet.
    latencies: Vec<AtomicU64>,
    left_count: AtomicU64,
    finish: Finish,
}

/// The main thread's side.
pub struct Load {
    desk: Desk,
    letters_count: u64,
    blocked_count: u64,
    waiting: Waiting,
}

/// A call that keeps the thread for the time of a block, with nothing said to the runtime.
pub fn block() {
    thread::sleep(BLOCK);
}

/// A load of so many letters beside those that block.
pub fn plan(letters_count: u64) -> (Desk, Load) {
    let blocked_count = letters_count.div_ceil(LETTERS_PER_BLOCK);
    let numbers_count = letters_count + blocked_count * LETTERS_BEFORE_BLOCK as u64;
    let (finish, waiting) = finish::line();
    let desk = Desk(Arc::new(Shared {
        latencies: (0..numbers_count).map(|_| AtomicU64::new(0)).collect(),
        left_count: AtomicU64::new(numbers_count + blocked_count),
        finish,
    }));
    let load = Load {
        desk: desk.clone(),
        letters_count,
        blocked_count,
        waiting,
    };
    (desk, load)
}

impl Desk {
    /// What an actor does with a letter. `send` takes the index of another actor, `block` is how the
    /// peer blocks.
    ///
    /// # Panics
    /// If a letter comes twice.
    pub fn handle(&self, letter: Letter, send: impl Fn(usize, Letter), block: impl FnOnce()) {
        let shared = &self.0;
        match letter.task {
            Task::Block(first) => {
                for index in 0..LETTERS_BEFORE_BLOCK {
                    let task = Task::Note(first + index);
                    let scheduled = Instant::now();
                    send(1 + index, Letter { scheduled, task });
                }
                block();
            }
            Task::Note(number) => {
                let latency = letter.scheduled.elapsed().as_nanos().max(1) as u64;
                // Ordering: the main thread reads after the report, which a channel brings.
                let earlier = shared.latencies[number].swap(latency, Ordering::Relaxed);
                assert_eq!(earlier, 0, "letter {number} came twice");
            }
        }
        // Ordering: whoever takes the last one reports for all; AcqRel chains their latencies to it.
        if shared.left_count.fetch_sub(1, Ordering::AcqRel) == 1 {
            shared.finish.report(shared.latencies.len() as u64, 0);
        }
    }
}

impl Load {
    /// Sends all letters from a thread of their own, and waits until the last is handled. `send` takes
    /// the actor's index and must not wait.
    pub fn run(self, send: impl FnMut(usize, Letter) + Send + 'static) -> Result<Outcome> {
        let letters_count = self.letters_count;
        let started = Instant::now();
        let generator = thread::spawn(move || generate(started, letters_count, send));
        let latencies = &self.desk.0.latencies;
        let ended = self.waiting.wait(latencies.len() as u64, 0)?;
        generator
            .join()
            .ok()
            .context("the load generator panicked")?;
        let (others, woken) = latencies.split_at(letters_count as usize);
        let (others, woken) = (histogram(others)?, histogram(woken)?);
        let microseconds = |nanoseconds: u64| nanoseconds as f64 / 1e3;
        let quantile = |of: &Histogram<u64>, share| microseconds(of.value_at_quantile(share));
        let seconds = ended.duration_since(started).as_secs_f64();
        Ok(Outcome::measured(letters_count, seconds)
            .with_field("p50_us", quantile(&others, 0.5))
            .with_field("p99_us", quantile(&others, 0.99))
            .with_field("p999_us", quantile(&others, 0.999))
            .with_field("max_us", microseconds(others.max()))
            .with_field("woken_p50_us", quantile(&woken, 0.5))
            .with_field("woken_p99_us", quantile(&woken, 0.99))
            .with_field("woken_max_us", microseconds(woken.max()))
            .with_field("blocked_count", self.blocked_count as f64))
    }
}

fn histogram(latencies: &[AtomicU64]) -> Result<Histogram<u64>> {
    let mut histogram = Histogram::new(3)?;
    for latency in latencies {
        // Ordering: see where it is written.
        histogram.record(latency.load(Ordering::Relaxed))?;
    }
    Ok(histogram)
}

fn generate(started: Instant, letters_count: u64, mut send: impl FnMut(usize, Letter)) {
    let mut scheduled = started;
    for number in 0..letters_count {
        scheduled += LETTER_PERIOD;
        thread::sleep(scheduled.saturating_duration_since(Instant::now()));
        if number % LETTERS_PER_BLOCK == 0 {
            let blocks_before = (number / LETTERS_PER_BLOCK) as usize;
            let task = Task::Block(letters_count as usize + blocks_before * LETTERS_BEFORE_BLOCK);
            send(0, Letter { scheduled, task });
        }
        let task = Task::Note(number as usize);
        let receiver = 1 + number as usize % (ACTORS_COUNT - 1);
        send(receiver, Letter { scheduled, task });
    }
}
