//! The disruptor crate, which waits by spinning: bare, or with a hint to the processor.
//!
//! Its `Sleep` sleeps a fixed time at once, which is like none of the strategies here.

use anyhow::Result;
use disruptor::wait_strategies::WaitStrategy;
use disruptor::{BusySpin, BusySpinWithSpinLoopHint, Producer, build_single_producer};

use crate::outcome::Outcome;
use crate::ring::{CAPACITY, Shape, Strategy, measure};

const SPINS_ONLY: &str = "the crate waits by spinning, or by a sleep of fixed length";

#[derive(Default)]
struct Event {
    value: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spin {
    Bare,
    Hinted,
}

pub fn run(shape: Shape, count: u64, spin: Spin) -> Result<Outcome> {
    match (shape.plain(), spin) {
        (Some(Strategy::BusySpin), Spin::Bare) => publish_all(count, BusySpin),
        (Some(Strategy::BusySpin), Spin::Hinted) => publish_all(count, BusySpinWithSpinLoopHint),
        (Some(_), _) => Ok(Outcome::Skipped(SPINS_ONLY)),
        (None, _) => Ok(Outcome::Skipped(super::ring_skip(shape))),
    }
}

fn publish_all(count: u64, wait: impl WaitStrategy + 'static) -> Result<Outcome> {
    measure(count, |mut tally| {
        let mut producer = build_single_producer(CAPACITY, Event::default, wait)
            .handle_events_with(move |event: &Event, _, _| {
                tally.add(event.value);
            })
            .build();
        move |value| producer.publish(|event| event.value = value)
    })
}
