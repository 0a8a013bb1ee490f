//! The ring suite's run: does handing over one event at a time keep up with the Disruptor?
//!
//! ```text
//!  this thread ──► ring of 1,024 ──► one consumer, which adds the values up
//! ```
//!
//! It is LMAX's one-to-one sequenced throughput test. Strategies are compared with their like only:
//! a peer that has none for a work says so.

use std::thread;
use std::time::Instant;

use anyhow::Result;

use crate::cpu_time;
use crate::finish;
use crate::outcome::Outcome;
use crate::tally::{Tally, sum_of};

pub const CAPACITY: usize = 1_024;

/// How the consumer waits when the ring is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Lock and condition.
    Blocking,
    /// Spins, then yields, then short sleeps.
    Sleeping,
    /// Spins, then yields.
    Yielding,
    BusySpin,
}

/// The ring that a work asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub strategy: Strategy,
    /// Two are a ring each, drained by one consumer in weighted rounds.
    pub priorities_count: usize,
    /// Whether the ring must allow several producers, of which the work has one all the same.
    pub is_multi_producer: bool,
}

impl Shape {
    pub fn single(strategy: Strategy) -> Self {
        Self {
            strategy,
            priorities_count: 1,
            is_multi_producer: false,
        }
    }

    pub fn two_priorities(strategy: Strategy) -> Self {
        Self {
            priorities_count: 2,
            ..Self::single(strategy)
        }
    }

    pub fn multi_producer(strategy: Strategy) -> Self {
        Self {
            is_multi_producer: true,
            ..Self::single(strategy)
        }
    }

    /// The strategy, if the plainest ring is asked for.
    pub fn plain(self) -> Option<Strategy> {
        (self == Self::single(self.strategy)).then_some(self.strategy)
    }
}

/// Measures `count` events. `start` starts the consumer with its tally and gives the way to publish
/// one value; this thread then does so.
pub fn measure<P: FnMut(u64)>(count: u64, start: impl FnOnce(Tally) -> P) -> Result<Outcome> {
    let (finish, waiting) = finish::line();
    let mut publish = start(Tally::new(count, finish));
    let cpu_before = cpu_time::used();
    let started = Instant::now();
    for value in 0..count {
        publish(value);
    }
    let ended = waiting.wait(count, sum_of(1, count))?;
    let cpu_seconds = (cpu_time::used() - cpu_before).as_secs_f64();
    let seconds = ended.duration_since(started).as_secs_f64();
    Ok(Outcome::measured(count, seconds)
        .with_field("qps", count as f64 / seconds)
        .with_field("cpu_s", cpu_seconds))
}

/// A consumer for rings that have none of their own: a thread that takes values until the last.
pub fn consume(mut tally: Tally, mut take: impl FnMut() -> u64 + Send + 'static) {
    thread::spawn(move || while !tally.add(take()) {});
}
