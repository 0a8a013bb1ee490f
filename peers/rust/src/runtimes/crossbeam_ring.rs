//! crossbeam's bounded channel in the place of a ring, with the waits that its users write.
//!
//! `send` and `recv` spin and yield for a moment before they park; for the other strategies both ends
//! try, and spin, or back off as `crossbeam_utils::Backoff` does: spins that double, then yields.

use std::hint;

use anyhow::Result;
use crossbeam_channel::{Receiver, Sender, bounded};
use crossbeam_utils::Backoff;

use crate::outcome::Outcome;
use crate::ring::{CAPACITY, Shape, Strategy, consume, measure};

const NO_SLEEP: &str = "a channel has no wait that sleeps shortly instead of parking";

pub fn run(shape: Shape, count: u64) -> Result<Outcome> {
    match shape.plain() {
        Some(Strategy::Blocking) => blocking(count),
        Some(Strategy::Yielding) => trying(count, || {
            let backoff = Backoff::new();
            move || backoff.snooze()
        }),
        Some(Strategy::BusySpin) => trying(count, || hint::spin_loop),
        Some(Strategy::Sleeping) => Ok(Outcome::Skipped(NO_SLEEP)),
        None => Ok(Outcome::Skipped(super::ring_skip(shape))),
    }
}

fn blocking(count: u64) -> Result<Outcome> {
    measure(count, |tally| {
        let (sender, receiver) = bounded::<u64>(CAPACITY);
        consume(tally, move || receiver.recv().expect("the producer stays"));
        move |value| sender.send(value).expect("the consumer takes all")
    })
}

/// `start_wait` begins a wait, what it gives does one step of it.
fn trying<W: FnMut()>(
    count: u64,
    start_wait: impl Fn() -> W + Copy + Send + 'static,
) -> Result<Outcome> {
    measure(count, |tally| {
        let (sender, receiver) = bounded(CAPACITY);
        consume(tally, move || take(&receiver, start_wait));
        move |value| put(&sender, value, start_wait)
    })
}

fn take<W: FnMut()>(receiver: &Receiver<u64>, start_wait: impl Fn() -> W) -> u64 {
    let mut wait = start_wait();
    loop {
        match receiver.try_recv() {
            Ok(value) => return value,
            Err(error) => assert!(error.is_empty(), "the producer stays"),
        }
        wait();
    }
}

fn put<W: FnMut()>(sender: &Sender<u64>, value: u64, start_wait: impl Fn() -> W) {
    let mut wait = start_wait();
    while let Err(error) = sender.try_send(value) {
        assert!(error.is_full(), "the consumer takes all");
        wait();
    }
}
