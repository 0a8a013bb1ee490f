//! kameo on a tokio runtime: unbounded mailboxes, messages by `tell`, requests by `ask`.

use std::time::Instant;

use anyhow::Result;
use kameo::error::Infallible;
use kameo::prelude::*;
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

use super::tokio_runtime::{run_on_worker, start};
use super::{NO_DAM, OTHER_SUITE, kameo_bank};

pub const ALIVE: &str = "the actor is alive";

pub fn run(work: Work, scale: Scale) -> Result<Outcome> {
    let units = scale.units(work);
    match work {
        Work::FanInFew => fan_in_from_threads(units),
        Work::FanInMany => fan_in_from_actors(units),
        Work::PingPong => ring(2, units),
        Work::Ring => ring(RING_NODES, units),
        Work::Ask => ask(units),
        Work::Bank => kameo_bank::run(units),
        Work::Spawn => spawn(units),
        Work::Idle => idle(units),
        Work::Backlog1K | Work::Backlog64K | Work::Backlog1M | Work::Backlog8M => backlog(units),
        Work::FloodDirectRaw | Work::FloodDirectBuffered => flood(work, scale),
        Work::FloodDirectScan | Work::FloodDamPoll | Work::FloodDamCredit => {
            Ok(Outcome::Skipped(NO_DAM))
        }
        _ => Ok(Outcome::Skipped(OTHER_SUITE)),
    }
}

/// The default mailbox holds 64 messages; a sender that never waits needs the unbounded one.
pub fn spawn_actor<A: Actor<Args = A>>(actor: A) -> ActorRef<A> {
    A::spawn_with_mailbox(actor, kameo::mailbox::unbounded())
}

/// The receiver of fan-in and backlog.
#[derive(Actor)]
struct Counter(Tally);

struct Number(u64);

impl Message<Number> for Counter {
    type Reply = ();

    async fn handle(&mut self, message: Number, _: &mut Context<Self, ()>) {
        self.0.add(message.0);
    }
}

/// Keeps the counter from what is queued behind it until the gate opens.
struct Hold(oneshot::Receiver<()>);

impl Message<Hold> for Counter {
    type Reply = ();

    async fn handle(&mut self, message: Hold, _: &mut Context<Self, ()>) {
        // An error means that the run has failed already.
        let _ = message.0.await;
    }
}

fn fan_in_from_threads(units: u64) -> Result<Outcome> {
    let runtime = start()?;
    let (finish, waiting) = finish::line();
    let count = SENDERS_FEW * units;
    let counter = run_on_worker(&runtime, async move {
        spawn_actor(Counter(Tally::new(count, finish)))
    })?;
    let stopwatch = Stopwatch::default();
    let threads = senders::start(SENDERS_FEW, units, &stopwatch, |_| {
        let counter = counter.clone();
        move |value| counter.tell(Number(value)).try_send().expect(ALIVE)
    });
    let ended = waiting.wait(count, sum_of(SENDERS_FEW, units))?;
    threads.join()?;
    Ok(Outcome::measured(count, stopwatch.seconds_until(ended)?))
}

/// Does something once, when told to.
struct Starter<F>(F);

impl<F: FnMut() + Send + 'static> Actor for Starter<F> {
    type Args = Self;
    type Error = Infallible;

    async fn on_start(starter: Self, _: ActorRef<Self>) -> Result<Self, Infallible> {
        Ok(starter)
    }
}

struct Go;

impl<F: FnMut() + Send + 'static> Message<Go> for Starter<F> {
    type Reply = ();

    async fn handle(&mut self, _: Go, _: &mut Context<Self, ()>) {
        (self.0)();
    }
}

/// Actors that each call their own function, all told to begin once all are there.
fn start_all<F: FnMut() + Send + 'static>(count: u64, make: impl Fn(u64) -> F) {
    let starters: Vec<_> = (0..count)
        .map(|number| spawn_actor(Starter(make(number))))
        .collect();
    for starter in starters {
        starter.tell(Go).try_send().expect(ALIVE);
    }
}

fn fan_in_from_actors(units: u64) -> Result<Outcome> {
    let runtime = start()?;
    let (finish, waiting) = finish::line();
    let count = SENDERS_MANY * units;
    let stopwatch = Stopwatch::default();
    let clock = stopwatch.clone();
    run_on_worker(&runtime, async move {
        let counter = spawn_actor(Counter(Tally::new(count, finish)));
        start_all(SENDERS_MANY, |_| {
            let (counter, clock) = (counter.clone(), clock.clone());
            move || {
                clock.start();
                for value in 0..units {
                    counter.tell(Number(value)).try_send().expect(ALIVE);
                }
            }
        });
    })?;
    let ended = waiting.wait(count, sum_of(SENDERS_MANY, units))?;
    Ok(Outcome::measured(count, stopwatch.seconds_until(ended)?))
}

/// Hands a token on until its hops are used up; a ring of two is ping-pong.
#[derive(Actor)]
struct Node {
    next: Option<ActorRef<Node>>,
    hops: u64,
    finish: Finish,
}

struct Link(ActorRef<Node>);

impl Message<Link> for Node {
    type Reply = ();

    async fn handle(&mut self, message: Link, _: &mut Context<Self, ()>) {
        self.next = Some(message.0);
    }
}

struct Token(u64);

impl Message<Token> for Node {
    type Reply = ();

    async fn handle(&mut self, Token(hops_left): Token, _: &mut Context<Self, ()>) {
        match &self.next {
            Some(next) if hops_left > 1 => {
                next.tell(Token(hops_left - 1)).await.expect(ALIVE);
            }
            _ => self.finish.report(self.hops, 0),
        }
    }
}

fn ring(nodes_count: usize, hops: u64) -> Result<Outcome> {
    let runtime = start()?;
    let (finish, waiting) = finish::line();
    let started = run_on_worker(&runtime, async move {
        let nodes: Vec<ActorRef<Node>> = (0..nodes_count)
            .map(|_| {
                spawn_actor(Node {
                    next: None,
                    hops,
                    finish: finish.clone(),
                })
            })
            .collect();
        for (index, node) in nodes.iter().enumerate() {
            let next = nodes[(index + 1) % nodes_count].clone();
            // A reply means that the link is set, and so that the actor has started.
            node.ask(Link(next)).await.expect(ALIVE);
        }
        let started = Instant::now();
        nodes[0].tell(Token(hops)).await.expect(ALIVE);
        started
    })?;
    let ended = waiting.wait(hops, 0)?;
    Ok(Outcome::measured(
        hops,
        ended.duration_since(started).as_secs_f64(),
    ))
}

#[derive(Actor)]
struct Server;

struct Question(u64);

impl Message<Question> for Server {
    type Reply = u64;

    async fn handle(&mut self, message: Question, _: &mut Context<Self, u64>) -> u64 {
        message.0 + 1
    }
}

fn ask(count: u64) -> Result<Outcome> {
    let runtime = start()?;
    let (finish, waiting) = finish::line();
    let started = run_on_worker(&runtime, async move {
        let server = spawn_actor(Server);
        server.wait_for_startup().await;
        let mut tally = Tally::new(count, finish);
        let started = Instant::now();
        for value in 0..count {
            tally.add(
                server
                    .ask(Question(value))
                    .await
                    .expect("the server replies to all"),
            );
        }
        started
    })?;
    let ended = waiting.wait(count, sum_of(1, count) + count)?;
    Ok(Outcome::measured(
        count,
        ended.duration_since(started).as_secs_f64(),
    ))
}

/// Stops at its first message and counts itself when dropped.
#[derive(Actor)]
struct Step(Countdown);

impl Message<Go> for Step {
    type Reply = ();

    async fn handle(&mut self, _: Go, context: &mut Context<Self, ()>) {
        context.stop();
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.0.one_is_done();
    }
}

fn spawn(count: u64) -> Result<Outcome> {
    let runtime = start()?;
    let (finish, waiting) = finish::line();
    let started = run_on_worker(&runtime, async move {
        let countdown = Countdown::new(count, finish);
        let started = Instant::now();
        for _ in 0..count {
            let step = spawn_actor(Step(countdown.clone()));
            step.tell(Go).try_send().expect(ALIVE);
        }
        started
    })?;
    let ended = waiting.wait(count, 0)?;
    Ok(Outcome::measured(
        count,
        ended.duration_since(started).as_secs_f64(),
    ))
}

/// Counts itself when it has started, and waits for messages that never come.
struct Idle;

impl Actor for Idle {
    type Args = Countdown;
    type Error = Infallible;

    async fn on_start(countdown: Countdown, _: ActorRef<Self>) -> Result<Self, Infallible> {
        countdown.one_is_done();
        Ok(Self)
    }
}

fn idle(count: u64) -> Result<Outcome> {
    let runtime = start()?;
    let (finish, waiting) = finish::line();
    let before = memory::resident_bytes()?;
    let (started, actors) = run_on_worker(&runtime, async move {
        let countdown = Countdown::new(count, finish);
        let started = Instant::now();
        let actors: Vec<ActorRef<Idle>> = (0..count)
            .map(|_| Idle::spawn_with_mailbox(countdown.clone(), kameo::mailbox::unbounded()))
            .collect();
        (started, actors)
    })?;
    let ended = waiting.wait(count, 0)?;
    let bytes_each = memory::bytes_each(before, count)?;
    drop(actors);
    let seconds = ended.duration_since(started).as_secs_f64();
    Ok(Outcome::measured(count, seconds).with_field("bytes_per_actor", bytes_each))
}

fn backlog(count: u64) -> Result<Outcome> {
    let runtime = start()?;
    let (finish, waiting) = finish::line();
    let counter = run_on_worker(&runtime, async move {
        spawn_actor(Counter(Tally::new(count, finish)))
    })?;
    let (release, held) = oneshot::channel();
    counter.tell(Hold(held)).try_send().expect(ALIVE);
    let filling = Instant::now();
    for value in 0..count {
        counter.tell(Number(value)).try_send().expect(ALIVE);
    }
    let fill_seconds = filling.elapsed().as_secs_f64();
    let released = Instant::now();
    let _ = release.send(());
    let ended = waiting.wait(count, sum_of(1, count))?;
    let seconds = ended.duration_since(released).as_secs_f64();
    Ok(Outcome::measured(count, seconds).with_field("fill_seconds", fill_seconds))
}

#[derive(Actor)]
struct LogServer(LogFile);

struct Line(String);

impl Message<Line> for LogServer {
    type Reply = ();

    async fn handle(&mut self, line: Line, _: &mut Context<Self, ()>) {
        self.0.write(&line.0);
    }
}

fn flood(work: Work, scale: Scale) -> Result<Outcome> {
    let runtime = start()?;
    let (log_file, check) = log_file::create(work, scale)?;
    let stopwatch = Stopwatch::default();
    let (clock, units) = (stopwatch.clone(), scale.units(work));
    run_on_worker(&runtime, async move {
        let server = spawn_actor(LogServer(log_file));
        start_all(SENDERS_MANY, |number| {
            let (server, clock) = (server.clone(), clock.clone());
            move || {
                clock.start();
                for value in 0..units {
                    let line = Line(log_file::line(number, value));
                    server.tell(line).try_send().expect(ALIVE);
                }
            }
        });
    })?;
    check.into_outcome(&stopwatch)
}
