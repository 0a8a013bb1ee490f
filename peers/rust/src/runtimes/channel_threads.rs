//! A channel with threads of the operating system at its ends: what one does without actors.
//!
//! ```text
//!  thread ──┐
//!  thread ──┼──► channel ──► this thread
//!  thread ──┘
//! ```

use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow};

use crate::finish::{self, Finish};
use crate::log_file;
use crate::outcome::Outcome;
use crate::senders;
use crate::stopwatch::Stopwatch;
use crate::tally::{Tally, sum_of};
use crate::work::{FULL_CAPACITY, SENDERS_FEW, SENDERS_FULL, SENDERS_MANY, Scale, Work};

use super::{NO_DAM, OTHER_SUITE};

/// A channel of many senders and one receiver.
pub trait Channel: 'static {
    type Sender<T: Send + 'static>: Clone + Send + 'static;
    type Receiver<T: Send + 'static>: Send + 'static;

    /// Without a bound.
    fn open<T: Send + 'static>() -> (Self::Sender<T>, Self::Receiver<T>);
    /// `None` if it always is without one.
    fn open_bounded<T: Send + 'static>(
        capacity: usize,
    ) -> Option<(Self::Sender<T>, Self::Receiver<T>)>;
    fn send<T: Send + 'static>(sender: &Self::Sender<T>, message: T);
    /// Waits for a message.
    fn receive<T: Send + 'static>(receiver: &Self::Receiver<T>) -> T;
}

pub fn run<C: Channel>(work: Work, scale: Scale) -> Result<Outcome> {
    let units = scale.units(work);
    match work {
        Work::FanInFew => fan_in::<C>(SENDERS_FEW, units, C::open()),
        Work::FanInMany => fan_in::<C>(SENDERS_MANY, units, C::open()),
        Work::FanInFull => match C::open_bounded(FULL_CAPACITY) {
            Some(channel) => fan_in::<C>(SENDERS_FULL, units, channel),
            None => Ok(Outcome::Skipped("it has no bound")),
        },
        Work::PingPong => ping_pong::<C>(units),
        Work::Ask => ask::<C>(units),
        Work::Ring => Ok(Outcome::Skipped(
            "1,000 threads in a ring are no use of a channel",
        )),
        Work::Spawn | Work::Idle => Ok(Outcome::Skipped("a channel has no actors to start")),
        Work::Backlog1K | Work::Backlog64K | Work::Backlog1M | Work::Backlog8M => {
            backlog::<C>(units)
        }
        Work::FloodDirectRaw | Work::FloodDirectBuffered => flood::<C>(work, scale),
        Work::FloodDirectScan | Work::FloodDamPoll | Work::FloodDamCredit => {
            Ok(Outcome::Skipped(NO_DAM))
        }
        _ => Ok(Outcome::Skipped(OTHER_SUITE)),
    }
}

fn receive_all<C: Channel>(receiver: &C::Receiver<u64>, count: u64, finish: Finish) {
    let mut tally = Tally::new(count, finish);
    while !tally.add(C::receive(receiver)) {}
}

fn fan_in<C: Channel>(
    senders_count: u64,
    units: u64,
    (sender, receiver): (C::Sender<u64>, C::Receiver<u64>),
) -> Result<Outcome> {
    let (finish, waiting) = finish::line();
    let stopwatch = Stopwatch::default();
    let count = senders_count * units;
    let threads = senders::start(senders_count, units, &stopwatch, |_| {
        let sender = sender.clone();
        move |value| C::send(&sender, value)
    });
    receive_all::<C>(&receiver, count, finish);
    threads.join()?;
    let ended = waiting.wait(count, sum_of(senders_count, units))?;
    Ok(Outcome::measured(count, stopwatch.seconds_until(ended)?))
}

/// This thread serves, the other returns; a ball is the number of messages so far.
fn ping_pong<C: Channel>(count: u64) -> Result<Outcome> {
    let (to_other, from_here) = C::open::<u64>();
    let (to_here, from_other) = C::open::<u64>();
    let other = thread::spawn(move || {
        loop {
            let ball = C::receive(&from_here) + 1;
            C::send(&to_here, ball);
            if ball >= count {
                break;
            }
        }
    });
    let started = Instant::now();
    C::send(&to_other, 1);
    loop {
        let ball = C::receive(&from_other);
        if ball >= count {
            break;
        }
        C::send(&to_other, ball + 1);
    }
    let seconds = started.elapsed().as_secs_f64();
    other
        .join()
        .map_err(|_| anyhow!("the other thread panicked"))?;
    Ok(Outcome::measured(count, seconds))
}

/// A request carries the way back, which the asker opens once: the cheapest ask a channel allows.
fn ask<C: Channel>(count: u64) -> Result<Outcome> {
    let (requests, inbox) = C::open::<(u64, Option<C::Sender<u64>>)>();
    let server = thread::spawn(move || {
        while let (value, Some(reply_to)) = C::receive(&inbox) {
            C::send(&reply_to, value + 1);
        }
    });
    let (reply_to, replies) = C::open::<u64>();
    let (finish, waiting) = finish::line();
    let mut tally = Tally::new(count, finish);
    let started = Instant::now();
    for value in 0..count {
        C::send(&requests, (value, Some(reply_to.clone())));
        tally.add(C::receive(&replies));
    }
    C::send(&requests, (0, None));
    server.join().map_err(|_| anyhow!("the server panicked"))?;
    let ended = waiting.wait(count, sum_of(1, count) + count)?;
    Ok(Outcome::measured(
        count,
        ended.duration_since(started).as_secs_f64(),
    ))
}

fn backlog<C: Channel>(count: u64) -> Result<Outcome> {
    let (sender, receiver) = C::open::<u64>();
    let (finish, waiting) = finish::line();
    let (release, held) = mpsc::channel::<()>();
    let consumer = thread::spawn(move || {
        // An error means that the run has failed already.
        let _ = held.recv();
        receive_all::<C>(&receiver, count, finish);
    });
    let filling = Instant::now();
    for value in 0..count {
        C::send(&sender, value);
    }
    let fill_seconds = filling.elapsed().as_secs_f64();
    let released = Instant::now();
    release.send(())?;
    let ended = waiting.wait(count, sum_of(1, count))?;
    consumer
        .join()
        .map_err(|_| anyhow!("the receiver panicked"))?;
    let seconds = ended.duration_since(released).as_secs_f64();
    Ok(Outcome::measured(count, seconds).with_field("fill_seconds", fill_seconds))
}

fn flood<C: Channel>(work: Work, scale: Scale) -> Result<Outcome> {
    let (mut log_file, check) = log_file::create(work, scale)?;
    let (sender, receiver) = C::open::<String>();
    let stopwatch = Stopwatch::default();
    let threads = senders::start(SENDERS_MANY, scale.units(work), &stopwatch, |number| {
        let sender = sender.clone();
        move |value| C::send(&sender, log_file::line(number, value))
    });
    while !log_file.write(&C::receive(&receiver)) {}
    threads.join()?;
    check.into_outcome(&stopwatch)
}
