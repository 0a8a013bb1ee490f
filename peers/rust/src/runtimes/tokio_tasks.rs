//! tokio tasks joined by mpsc channels: what many use in the place of actors.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::countdown::Countdown;
use crate::finish::{self, Finish};
use crate::log_file::{self, LogFile};
use crate::memory;
use crate::outcome::Outcome;
use crate::senders;
use crate::stopwatch::Stopwatch;
use crate::tally::{Tally, sum_of};
use crate::work::{DEADLINE, RING_NODES, SENDERS_FEW, SENDERS_MANY, Scale, WAITING_CAPACITY, Work};

use super::tokio_channel::Channel;
use super::tokio_runtime::{run_on_worker, start};
use super::{NO_DAM, OTHER_SUITE};

/// Of the bounded channel.
const CAPACITY: usize = 1_024;
/// What a receiver takes at once; larger ones were not faster.
const BATCH: usize = 256;

pub fn run<C: Channel>(work: Work, scale: Scale) -> Result<Outcome> {
    let units = scale.units(work);
    match work {
        Work::FanInFew => fan_in_from_threads::<C>(units),
        Work::FanInMany => fan_in_from_tasks::<C>(units),
        Work::PingPong => ring::<C>(2, units),
        Work::Ring => ring::<C>(RING_NODES, units),
        Work::Ask => ask::<C>(units, None),
        Work::AskDeadline => ask::<C>(units, Some(DEADLINE)),
        Work::Waiting1K | Work::Waiting10K | Work::Waiting100K | Work::Waiting1M => {
            waiting::<C>(units)
        }
        Work::Spawn => spawn(units),
        Work::Idle => idle::<C>(units),
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

async fn receive_all<C: Channel>(mut receiver: C::Receiver<u64>, mut tally: Tally) {
    let mut batch = Vec::with_capacity(BATCH);
    while C::receive_many(&mut receiver, &mut batch, BATCH).await > 0 {
        for value in batch.drain(..) {
            tally.add(value);
        }
    }
}

fn fan_in_from_threads<C: Channel>(units: u64) -> Result<Outcome> {
    let runtime = start()?;
    let (sender, receiver) = C::open::<u64>(CAPACITY);
    let (finish, waiting) = finish::line();
    let stopwatch = Stopwatch::default();
    let count = SENDERS_FEW * units;
    runtime.spawn(receive_all::<C>(receiver, Tally::new(count, finish)));
    let threads = senders::start(SENDERS_FEW, units, &stopwatch, |_| {
        let sender = sender.clone();
        move |value| C::send_blocking(&sender, value)
    });
    let ended = waiting.wait(count, sum_of(SENDERS_FEW, units))?;
    threads.join()?;
    Ok(Outcome::measured(count, stopwatch.seconds_until(ended)?))
}

fn fan_in_from_tasks<C: Channel>(units: u64) -> Result<Outcome> {
    let runtime = start()?;
    let (sender, receiver) = C::open::<u64>(CAPACITY);
    let (finish, waiting) = finish::line();
    let count = SENDERS_MANY * units;
    let stopwatch = Stopwatch::default();
    let clock = stopwatch.clone();
    run_on_worker(&runtime, async move {
        tokio::spawn(receive_all::<C>(receiver, Tally::new(count, finish)));
        for _ in 0..SENDERS_MANY {
            let (sender, clock) = (sender.clone(), clock.clone());
            tokio::spawn(async move {
                clock.start();
                for value in 0..units {
                    C::send(&sender, value).await;
                }
            });
        }
    })?;
    let ended = waiting.wait(count, sum_of(SENDERS_MANY, units))?;
    Ok(Outcome::measured(count, stopwatch.seconds_until(ended)?))
}

/// A token goes round until its hops are used up; a ring of two is ping-pong.
fn ring<C: Channel>(nodes_count: usize, hops: u64) -> Result<Outcome> {
    let runtime = start()?;
    let (finish, waiting) = finish::line();
    let (first, mut inbox) = C::open::<u64>(1);
    let entry = first.clone();
    let started = run_on_worker(&runtime, async move {
        for _ in 1..nodes_count {
            let (next, next_inbox) = C::open::<u64>(1);
            tokio::spawn(node::<C>(inbox, next, hops, finish.clone()));
            inbox = next_inbox;
        }
        tokio::spawn(node::<C>(inbox, first, hops, finish));
        let started = Instant::now();
        C::send(&entry, hops).await;
        started
    })?;
    let ended = waiting.wait(hops, 0)?;
    Ok(Outcome::measured(
        hops,
        ended.duration_since(started).as_secs_f64(),
    ))
}

async fn node<C: Channel>(
    mut inbox: C::Receiver<u64>,
    next: C::Sender<u64>,
    hops: u64,
    finish: Finish,
) {
    while let Some(hops_left) = C::receive(&mut inbox).await {
        match hops_left {
            1 => finish.report(hops, 0),
            _ => C::send(&next, hops_left - 1).await,
        }
    }
}

fn ask<C: Channel>(count: u64, deadline: Option<Duration>) -> Result<Outcome> {
    let runtime = start()?;
    let (requests, mut inbox) = C::open::<(u64, oneshot::Sender<u64>)>(CAPACITY);
    let (finish, waiting) = finish::line();
    runtime.spawn(async move {
        while let Some((value, reply_to)) = C::receive(&mut inbox).await {
            // The asker waits for each reply, so it is there.
            let _ = reply_to.send(value + 1);
        }
    });
    let started = run_on_worker(&runtime, async move {
        let mut tally = Tally::new(count, finish);
        let started = Instant::now();
        for value in 0..count {
            let (reply_to, reply) = oneshot::channel();
            C::send(&requests, (value, reply_to)).await;
            let answer = match deadline {
                None => reply.await,
                Some(deadline) => timeout(deadline, reply).await.expect("it replies in time"),
            };
            tally.add(answer.expect("the server replies to all"));
        }
        started
    })?;
    let ended = waiting.wait(count, sum_of(1, count) + count)?;
    Ok(Outcome::measured(
        count,
        ended.duration_since(started).as_secs_f64(),
    ))
}

/// Each of many tasks sends one message to a channel of a hundred; all but those wait for capacity.
fn waiting<C: Channel>(count: u64) -> Result<Outcome> {
    if !C::IS_BOUNDED {
        return Ok(Outcome::Skipped(
            "nobody waits for a channel without a bound",
        ));
    }
    let runtime = start()?;
    let (finish, waiting) = finish::line();
    let (sender, receiver) = C::open::<u64>(WAITING_CAPACITY);
    let (release, held) = oneshot::channel::<()>();
    runtime.spawn(async move {
        // An error means that the run has failed already.
        let _ = held.await;
        receive_all::<C>(receiver, Tally::new(count, finish)).await;
    });
    let polled = Arc::new(AtomicU64::new(0));
    for value in 0..count {
        let (sender, polled) = (sender.clone(), polled.clone());
        runtime.spawn(async move {
            // Ordering: a count; the sending that follows is polled within the same run of the task.
            polled.fetch_add(1, Ordering::Relaxed);
            C::send(&sender, value).await;
        });
    }
    while polled.load(Ordering::Relaxed) < count {
        std::thread::yield_now();
    }
    let started = Instant::now();
    let _ = release.send(());
    let ended = waiting.wait(count, sum_of(1, count))?;
    Ok(Outcome::measured(
        count,
        ended.duration_since(started).as_secs_f64(),
    ))
}

fn spawn(count: u64) -> Result<Outcome> {
    let runtime = start()?;
    let (finish, waiting) = finish::line();
    let started = run_on_worker(&runtime, async move {
        let countdown = Countdown::new(count, finish);
        let started = Instant::now();
        for _ in 0..count {
            let countdown = countdown.clone();
            tokio::spawn(async move { countdown.one_is_done() });
        }
        started
    })?;
    let ended = waiting.wait(count, 0)?;
    Ok(Outcome::measured(
        count,
        ended.duration_since(started).as_secs_f64(),
    ))
}

/// Each task waits on a channel of its own, as an idle actor would.
fn idle<C: Channel>(count: u64) -> Result<Outcome> {
    let runtime = start()?;
    let (finish, waiting) = finish::line();
    let before = memory::resident_bytes()?;
    let (started, senders) = run_on_worker(&runtime, async move {
        let countdown = Countdown::new(count, finish);
        let started = Instant::now();
        let mut senders = Vec::new();
        for _ in 0..count {
            let (sender, mut receiver) = C::open::<u64>(CAPACITY);
            let countdown = countdown.clone();
            tokio::spawn(async move {
                countdown.one_is_done();
                while C::receive(&mut receiver).await.is_some() {}
            });
            senders.push(sender);
        }
        (started, senders)
    })?;
    let ended = waiting.wait(count, 0)?;
    let bytes_each = memory::bytes_each(before, count)?;
    drop(senders);
    let seconds = ended.duration_since(started).as_secs_f64();
    Ok(Outcome::measured(count, seconds).with_field("bytes_per_actor", bytes_each))
}

/// The bounded channel is as large as the backlog here: what is measured is the drain.
fn backlog<C: Channel>(count: u64) -> Result<Outcome> {
    let runtime = start()?;
    let (sender, receiver) = C::open::<u64>(count as usize);
    let (finish, waiting) = finish::line();
    let (release, held) = oneshot::channel::<()>();
    runtime.spawn(async move {
        // An error means that the run has failed already.
        let _ = held.await;
        receive_all::<C>(receiver, Tally::new(count, finish)).await;
    });
    let filling = Instant::now();
    for value in 0..count {
        C::send_blocking(&sender, value);
    }
    let fill_seconds = filling.elapsed().as_secs_f64();
    let released = Instant::now();
    let _ = release.send(());
    let ended = waiting.wait(count, sum_of(1, count))?;
    let seconds = ended.duration_since(released).as_secs_f64();
    Ok(Outcome::measured(count, seconds).with_field("fill_seconds", fill_seconds))
}

fn flood<C: Channel>(work: Work, scale: Scale) -> Result<Outcome> {
    let runtime = start()?;
    let (log_file, check) = log_file::create(work, scale)?;
    let (sender, receiver) = C::open::<String>(CAPACITY);
    let stopwatch = Stopwatch::default();
    let (clock, units) = (stopwatch.clone(), scale.units(work));
    run_on_worker(&runtime, async move {
        tokio::spawn(write_all::<C>(receiver, log_file));
        for number in 0..SENDERS_MANY {
            let (sender, clock) = (sender.clone(), clock.clone());
            tokio::spawn(async move {
                clock.start();
                for value in 0..units {
                    C::send(&sender, log_file::line(number, value)).await;
                }
            });
        }
    })?;
    check.into_outcome(&stopwatch)
}

async fn write_all<C: Channel>(mut receiver: C::Receiver<String>, mut log_file: LogFile) {
    let mut batch = Vec::with_capacity(BATCH);
    while C::receive_many(&mut receiver, &mut batch, BATCH).await > 0 {
        for line in batch.drain(..) {
            log_file.write(&line);
        }
    }
}
