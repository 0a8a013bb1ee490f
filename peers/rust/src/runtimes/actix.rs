//! actix: all actors on one arbiter, messages by `do_send`, as its docs recommend for throughput.
//!
//! The arbiter has a thread of its own. The main thread only waits, so that the small fan-in has two
//! sending threads and one receiving thread, as with every other peer.

use std::time::Instant;

use actix::prelude::*;
use anyhow::{Result, ensure};
use tokio::sync::oneshot;

use crate::countdown::Countdown;
use crate::finish::{self, Finish};
use crate::log_file::{self, LogFile};
use crate::memory;
use crate::outcome::Outcome;
use crate::senders;
use crate::stopwatch::Stopwatch;
use crate::tally::{Tally, sum_of};
use crate::work::{RING_NODES, SENDERS_FEW, SENDERS_MANY, Scale, Work};

use super::{NO_DAM, OTHER_SUITE};

pub fn run(work: Work, scale: Scale) -> Result<Outcome> {
    let _system = System::new();
    let arbiter = Arbiter::new();
    let units = scale.units(work);
    match work {
        Work::FanInFew => fan_in_from_threads(&arbiter, units),
        Work::FanInMany => fan_in_from_actors(&arbiter, units),
        Work::PingPong => ring(&arbiter, 2, units),
        Work::Ring => ring(&arbiter, RING_NODES, units),
        Work::Ask => ask(&arbiter, units),
        Work::Spawn => spawn(&arbiter, units),
        Work::Idle => idle(&arbiter, units),
        Work::Backlog1K | Work::Backlog64K | Work::Backlog1M | Work::Backlog8M => {
            backlog(&arbiter, units)
        }
        Work::FloodDirectRaw | Work::FloodDirectBuffered => flood(&arbiter, work, scale),
        Work::FloodDirectScan | Work::FloodDamPoll | Work::FloodDamCredit => {
            Ok(Outcome::Skipped(NO_DAM))
        }
        _ => Ok(Outcome::Skipped(OTHER_SUITE)),
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Number(u64);

/// The receiver of fan-in and backlog.
struct Counter(Tally);

impl Actor for Counter {
    type Context = Context<Self>;
}

impl Handler<Number> for Counter {
    type Result = ();

    fn handle(&mut self, message: Number, _: &mut Context<Self>) {
        self.0.add(message.0);
    }
}

fn start_counter(arbiter: &Arbiter, count: u64, finish: Finish) -> Addr<Counter> {
    let tally = Tally::new(count, finish);
    Counter::start_in_arbiter(&arbiter.handle(), |_| Counter(tally))
}

fn fan_in_from_threads(arbiter: &Arbiter, units: u64) -> Result<Outcome> {
    let (finish, waiting) = finish::line();
    let count = SENDERS_FEW * units;
    let counter = start_counter(arbiter, count, finish);
    let stopwatch = Stopwatch::default();
    let threads = senders::start(SENDERS_FEW, units, &stopwatch, |_| {
        let counter = counter.clone();
        move |value| counter.do_send(Number(value))
    });
    let ended = waiting.wait(count, sum_of(SENDERS_FEW, units))?;
    threads.join()?;
    Ok(Outcome::measured(count, stopwatch.seconds_until(ended)?))
}

/// Does something once, when told to.
struct Starter<F: FnMut() + Unpin + 'static>(F);

#[derive(Message)]
#[rtype(result = "()")]
struct Go;

impl<F: FnMut() + Unpin + 'static> Actor for Starter<F> {
    type Context = Context<Self>;
}

impl<F: FnMut() + Unpin + 'static> Handler<Go> for Starter<F> {
    type Result = ();

    fn handle(&mut self, _: Go, _: &mut Context<Self>) {
        (self.0)();
    }
}

/// Actors that each call their own function, all told to begin once all are there.
fn start_all<F>(arbiter: &Arbiter, count: u64, make: impl Fn(u64) -> F)
where
    F: FnMut() + Send + Unpin + 'static,
{
    let open = |number| {
        let function = make(number);
        Starter::start_in_arbiter(&arbiter.handle(), |_| Starter(function))
    };
    let starters: Vec<_> = (0..count).map(open).collect();
    for starter in starters {
        starter.do_send(Go);
    }
}

fn fan_in_from_actors(arbiter: &Arbiter, units: u64) -> Result<Outcome> {
    let (finish, waiting) = finish::line();
    let count = SENDERS_MANY * units;
    let counter = start_counter(arbiter, count, finish);
    let stopwatch = Stopwatch::default();
    start_all(arbiter, SENDERS_MANY, |_| {
        let (counter, clock) = (counter.clone(), stopwatch.clone());
        move || {
            clock.start();
            for value in 0..units {
                counter.do_send(Number(value));
            }
        }
    });
    let ended = waiting.wait(count, sum_of(SENDERS_MANY, units))?;
    Ok(Outcome::measured(count, stopwatch.seconds_until(ended)?))
}

/// Hands a token on until its hops are used up; a ring of two is ping-pong.
struct Node {
    next: Option<Addr<Node>>,
    hops: u64,
    finish: Finish,
}

#[derive(Message)]
#[rtype(result = "()")]
struct Link(Addr<Node>);

#[derive(Message)]
#[rtype(result = "()")]
struct Token(u64);

impl Actor for Node {
    type Context = Context<Self>;
}

impl Handler<Link> for Node {
    type Result = ();

    fn handle(&mut self, message: Link, _: &mut Context<Self>) {
        self.next = Some(message.0);
    }
}

impl Handler<Token> for Node {
    type Result = ();

    fn handle(&mut self, Token(hops_left): Token, _: &mut Context<Self>) {
        match &self.next {
            Some(next) if hops_left > 1 => next.do_send(Token(hops_left - 1)),
            _ => self.finish.report(self.hops, 0),
        }
    }
}

fn ring(arbiter: &Arbiter, nodes_count: usize, hops: u64) -> Result<Outcome> {
    let (finish, waiting) = finish::line();
    let nodes: Vec<Addr<Node>> = (0..nodes_count)
        .map(|_| {
            let node = Node {
                next: None,
                hops,
                finish: finish.clone(),
            };
            Node::start_in_arbiter(&arbiter.handle(), |_| node)
        })
        .collect();
    for (index, node) in nodes.iter().enumerate() {
        node.do_send(Link(nodes[(index + 1) % nodes_count].clone()));
    }
    let started = Instant::now();
    nodes[0].do_send(Token(hops));
    let ended = waiting.wait(hops, 0)?;
    Ok(Outcome::measured(
        hops,
        ended.duration_since(started).as_secs_f64(),
    ))
}

#[derive(Message)]
#[rtype(result = "u64")]
struct Question(u64);

struct Server;

impl Actor for Server {
    type Context = Context<Self>;
}

impl Handler<Question> for Server {
    type Result = u64;

    fn handle(&mut self, message: Question, _: &mut Context<Self>) -> u64 {
        message.0 + 1
    }
}

fn ask(arbiter: &Arbiter, count: u64) -> Result<Outcome> {
    let (finish, waiting) = finish::line();
    let server = Server::start_in_arbiter(&arbiter.handle(), |_| Server);
    let stopwatch = Stopwatch::default();
    let clock = stopwatch.clone();
    arbiter.spawn(async move {
        let mut tally = Tally::new(count, finish);
        clock.start();
        for value in 0..count {
            tally.add(
                server
                    .send(Question(value))
                    .await
                    .expect("the server replies to all"),
            );
        }
    });
    let ended = waiting.wait(count, sum_of(1, count) + count)?;
    Ok(Outcome::measured(count, stopwatch.seconds_until(ended)?))
}

/// Stops at its first message and counts itself when dropped.
struct Step(Countdown);

impl Actor for Step {
    type Context = Context<Self>;
}

impl Handler<Go> for Step {
    type Result = ();

    fn handle(&mut self, _: Go, context: &mut Context<Self>) {
        context.stop();
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.0.one_is_done();
    }
}

fn spawn(arbiter: &Arbiter, count: u64) -> Result<Outcome> {
    let (finish, waiting) = finish::line();
    let stopwatch = Stopwatch::default();
    let clock = stopwatch.clone();
    arbiter.spawn_fn(move || {
        let countdown = Countdown::new(count, finish);
        clock.start();
        for _ in 0..count {
            Step(countdown.clone()).start().do_send(Go);
        }
    });
    let ended = waiting.wait(count, 0)?;
    Ok(Outcome::measured(count, stopwatch.seconds_until(ended)?))
}

/// Counts itself when it has started, and waits for messages that never come.
struct Idle(Countdown);

impl Actor for Idle {
    type Context = Context<Self>;

    fn started(&mut self, _: &mut Context<Self>) {
        self.0.one_is_done();
    }
}

fn idle(arbiter: &Arbiter, count: u64) -> Result<Outcome> {
    let (finish, waiting) = finish::line();
    let stopwatch = Stopwatch::default();
    let clock = stopwatch.clone();
    let before = memory::resident_bytes()?;
    let (keep, kept) = std::sync::mpsc::channel();
    arbiter.spawn_fn(move || {
        clock.start();
        let countdown = Countdown::new(count, finish);
        let addresses: Vec<Addr<Idle>> = (0..count)
            .map(|_| Idle(countdown.clone()).start())
            .collect();
        // The main thread holds them until it has measured; it exits earlier only if the run failed.
        let _ = keep.send(addresses);
    });
    let ended = waiting.wait(count, 0)?;
    let bytes_each = memory::bytes_each(before, count)?;
    let addresses = kept.recv()?;
    ensure!(
        addresses.iter().all(Addr::connected),
        "an idle actor has ended"
    );
    let seconds = stopwatch.seconds_until(ended)?;
    Ok(Outcome::measured(count, seconds).with_field("bytes_per_actor", bytes_each))
}

/// Keeps the counter from what is queued behind it until the gate opens.
#[derive(Message)]
#[rtype(result = "()")]
struct Hold(oneshot::Receiver<()>);

impl Handler<Hold> for Counter {
    type Result = ();

    fn handle(&mut self, message: Hold, context: &mut Context<Self>) {
        let opened = async {
            // An error means that the run has failed already.
            let _ = message.0.await;
        };
        context.wait(opened.into_actor(self));
    }
}

fn backlog(arbiter: &Arbiter, count: u64) -> Result<Outcome> {
    let (finish, waiting) = finish::line();
    let counter = start_counter(arbiter, count, finish);
    let (release, held) = oneshot::channel();
    counter.do_send(Hold(held));
    let filling = Instant::now();
    for value in 0..count {
        counter.do_send(Number(value));
    }
    let fill_seconds = filling.elapsed().as_secs_f64();
    let released = Instant::now();
    let _ = release.send(());
    let ended = waiting.wait(count, sum_of(1, count))?;
    let seconds = ended.duration_since(released).as_secs_f64();
    Ok(Outcome::measured(count, seconds).with_field("fill_seconds", fill_seconds))
}

#[derive(Message)]
#[rtype(result = "()")]
struct Line(String);

struct LogServer(LogFile);

impl Actor for LogServer {
    type Context = Context<Self>;
}

impl Handler<Line> for LogServer {
    type Result = ();

    fn handle(&mut self, message: Line, _: &mut Context<Self>) {
        self.0.write(&message.0);
    }
}

fn flood(arbiter: &Arbiter, work: Work, scale: Scale) -> Result<Outcome> {
    let (log_file, check) = log_file::create(work, scale)?;
    let server = LogServer::start_in_arbiter(&arbiter.handle(), |_| LogServer(log_file));
    let stopwatch = Stopwatch::default();
    let units = scale.units(work);
    start_all(arbiter, SENDERS_MANY, |number| {
        let (server, clock) = (server.clone(), stopwatch.clone());
        move || {
            clock.start();
            for value in 0..units {
                server.do_send(Line(log_file::line(number, value)));
            }
        }
    });
    check.into_outcome(&stopwatch)
}
