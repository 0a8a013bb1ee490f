//! The blocking suite's load: messages sent at scheduled times, however late the earlier ones are.
//!
//! ```text
//!                  10,000/s, in turn   ┌─► actors 1 .. 99   latency from the scheduled time
//!  generator ──────────────────────────┤      ▲             to the end of the handler
//!  (a thread)                          │      │ 8 messages, then asleep for 100 ms
//!                  one every 200 ms    └─► actor 0
//! ```
//!
//! One actor of a hundred blocks its worker half of the time. How long do the others wait? And how long do the actors
//! wait that it has just woken, which many runtimes put into the queue of the same worker?
//!
//! The generator sleeps until the next scheduled time. Its oversleeping is part of the latency: some 60 us on Linux,
//! far below the effect that is measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;

use crate::finish::{self, Finish, Waiting};
use crate::outcome::Outcome;

/// Actor 0 blocks.
pub const ACTORS_COUNT: usize = 100;
const MESSAGE_PERIOD: Duration = Duration::from_micros(100);
/// One message in this many blocks.
const MESSAGES_PER_BLOCK: u64 = 2_000;
/// Messages that the blocking actor sends just before, each to another actor.
const MESSAGES_BEFORE_BLOCK: usize = 8;
const BLOCK: Duration = Duration::from_millis(100);

/// What an actor receives.
#[derive(Clone, Copy, Debug)]
pub struct TimedMessage {
    scheduled: Instant,
    task: Task,
}

#[derive(Clone, Copy, Debug)]
enum Task {
    /// Is only handled; the number is that of its latency.
    Note(usize),
    /// Send messages from this number on, then block.
    Block(usize),
}

/// Shared by all actors: what has been handled, and how late.
#[derive(Clone)]
pub struct LoadState(Arc<Shared>);

struct Shared {
    /// Nanoseconds by number, those of the generator's messages first; zero is not handled yet.
    latencies: Vec<AtomicU64>,
    left_count: AtomicU64,
    finish: Finish,
}

/// The main thread's side.
pub struct Load {
    state: LoadState,
    messages_count: u64,
    blocked_count: u64,
    waiting: Waiting,
}

/// A call that keeps the thread for the time of a block, with nothing said to the runtime.
pub fn block() {
    thread::sleep(BLOCK);
}

/// A load of this many messages, without the blocking ones.
pub fn plan(messages_count: u64) -> (LoadState, Load) {
    let blocked_count = messages_count.div_ceil(MESSAGES_PER_BLOCK);
    let numbers_count = messages_count + blocked_count * MESSAGES_BEFORE_BLOCK as u64;
    let (finish, waiting) = finish::line();
    let state = LoadState(Arc::new(Shared {
        latencies: (0..numbers_count).map(|_| AtomicU64::new(0)).collect(),
        left_count: AtomicU64::new(numbers_count + blocked_count),
        finish,
    }));
    let load = Load {
        state: state.clone(),
        messages_count,
        blocked_count,
        waiting,
    };
    (state, load)
}

impl LoadState {
    /// What an actor does with a message. `send` takes the index of another actor, `block` is how the
    /// peer blocks.
    ///
    /// # Panics
    /// If a message comes twice.
    pub fn handle(
        &self,
        message: TimedMessage,
        send: impl Fn(usize, TimedMessage),
        block: impl FnOnce(),
    ) {
        let shared = &self.0;
        match message.task {
            Task::Block(first) => {
                for index in 0..MESSAGES_BEFORE_BLOCK {
                    let task = Task::Note(first + index);
                    let scheduled = Instant::now();
                    send(1 + index, TimedMessage { scheduled, task });
                }
                block();
            }
            Task::Note(number) => {
                let latency = message.scheduled.elapsed().as_nanos().max(1) as u64;
                // Ordering: the main thread reads after the report, which a channel brings.
                let earlier = shared.latencies[number].swap(latency, Ordering::Relaxed);
                assert_eq!(earlier, 0, "message {number} came twice");
            }
        }
        // Ordering: whoever takes the last one reports for all; AcqRel chains their latencies to it.
        if shared.left_count.fetch_sub(1, Ordering::AcqRel) == 1 {
            shared.finish.report(shared.latencies.len() as u64, 0);
        }
    }
}

impl Load {
    /// Sends all messages from a thread of their own, and waits until the last is handled. `send` takes
    /// the actor's index and must not wait.
    pub fn run(self, send: impl FnMut(usize, TimedMessage) + Send + 'static) -> Result<Outcome> {
        let messages_count = self.messages_count;
        let started = Instant::now();
        let generator = thread::spawn(move || generate(started, messages_count, send));
        let latencies = &self.state.0.latencies;
        let ended = self.waiting.wait(latencies.len() as u64, 0)?;
        generator
            .join()
            .ok()
            .context("the load generator panicked")?;
        let (others, woken) = latencies.split_at(messages_count as usize);
        let (others, woken) = (histogram(others)?, histogram(woken)?);
        let microseconds = |nanoseconds: u64| nanoseconds as f64 / 1e3;
        let quantile = |of: &Histogram<u64>, share| microseconds(of.value_at_quantile(share));
        let seconds = ended.duration_since(started).as_secs_f64();
        Ok(Outcome::measured(messages_count, seconds)
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

fn generate(started: Instant, messages_count: u64, mut send: impl FnMut(usize, TimedMessage)) {
    let mut scheduled = started;
    for number in 0..messages_count {
        scheduled += MESSAGE_PERIOD;
        thread::sleep(scheduled.saturating_duration_since(Instant::now()));
        if number % MESSAGES_PER_BLOCK == 0 {
            let blocks_before = (number / MESSAGES_PER_BLOCK) as usize;
            let task = Task::Block(messages_count as usize + blocks_before * MESSAGES_BEFORE_BLOCK);
            send(0, TimedMessage { scheduled, task });
        }
        let task = Task::Note(number as usize);
        let receiver = 1 + number as usize % (ACTORS_COUNT - 1);
        send(receiver, TimedMessage { scheduled, task });
    }
}
