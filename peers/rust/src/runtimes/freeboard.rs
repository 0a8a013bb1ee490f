//! Freeboard itself, measured like every other peer.
//!
//! Beside the works that all have, the floods report more, where the suite looks for it: see
//! `freeboard_flood`.

use std::time::{Duration, Instant};

use anyhow::Result;
use freeboard::{
    Actor, ActorRef, AsyncHandler, Context, Handler, SpawnOptions, System, flow::LaneConfig,
};

use crate::countdown::Countdown;
use crate::finish::{self, Finish};
use crate::memory;
use crate::outcome::Outcome;
use crate::senders;
use crate::stopwatch::Stopwatch;
use crate::tally::{Tally, sum_of};
use crate::work::{
    DEADLINE, FULL_CAPACITY, RING_NODES, SENDERS_FEW, SENDERS_FULL, SENDERS_MANY, Scale,
    WAITING_CAPACITY, Work,
};

use super::{OTHER_SUITE, freeboard_bank, freeboard_flood};

pub const ALIVE: &str = "the actor is alive and its lane has room";
const WORKERS_COUNT: usize = 2;
/// Large enough for every backlog; the other peers' mailboxes have no bound at all.
const BOUND: usize = 1 << 24;

pub fn run(work: Work, scale: Scale) -> Result<Outcome> {
    let units = scale.units(work);
    match work {
        Work::FanInFew => fan_in_from_threads(SENDERS_FEW, units, BOUND, tells),
        Work::FanInFull => fan_in_from_threads(SENDERS_FULL, units, FULL_CAPACITY, tells),
        Work::FanInMany => fan_in_from_actors(units, tells),
        Work::PingPong => ring(2, units),
        Work::Ring => ring(RING_NODES, units),
        Work::Ask => ask(units, None),
        Work::AskDeadline => ask(units, Some(DEADLINE)),
        Work::Bank => freeboard_bank::run(units),
        Work::Waiting1K | Work::Waiting10K | Work::Waiting100K | Work::Waiting1M => waiting(units),
        Work::Spawn => spawn(units),
        Work::Idle => idle(units),
        Work::Backlog1K | Work::Backlog64K | Work::Backlog1M | Work::Backlog8M => backlog(units),
        _ => freeboard_flood::run(work, scale),
    }
}

pub fn start() -> Result<System> {
    Ok(System::builder().workers(WORKERS_COUNT).build()?)
}

/// An actor whose mailbox holds what the works queue.
pub fn spawn_deep<A: Actor>(system: &System, actor: A) -> Result<ActorRef<A>> {
    Ok(system.spawn_once(deep(), actor)?)
}

/// A lane that holds what the works queue.
pub fn deep() -> SpawnOptions {
    SpawnOptions::new().lane(LaneConfig::bounded(BOUND))
}

/// The receiver of fan-in and backlog.
struct Counter(Tally);

impl Actor for Counter {}

struct Number(u64);

impl Handler<Number> for Counter {
    type Reply = ();

    fn handle(&mut self, message: Number, _: &mut Context<Self>) {
        self.0.add(message.0);
    }
}

/// Keeps an actor from what is queued behind it until the gate opens.
pub struct Hold(pub tokio::sync::oneshot::Receiver<()>);

impl AsyncHandler<Hold> for Counter {
    type Reply = ();

    async fn handle(&mut self, message: Hold, _: &mut Context<Self>) {
        // An error means that the run has failed already.
        let _ = message.0.await;
    }
}

/// The fan-ins with a `Producer` for each sender. Their rings have as many places in all as the mailbox has.
pub fn run_producers(work: Work, scale: Scale) -> Result<Outcome> {
    let units = scale.units(work);
    match work {
        Work::FanInFew => fan_in_from_threads(SENDERS_FEW, units, BOUND, |counter| {
            tells_by_ring(counter, BOUND / SENDERS_FEW as usize)
        }),
        Work::FanInFull => fan_in_from_threads(SENDERS_FULL, units, FULL_CAPACITY, |counter| {
            tells_by_ring(counter, FULL_CAPACITY / SENDERS_FULL as usize)
        }),
        // A handler does not wait at a full ring: each one holds all that its actor sends.
        Work::FanInMany => {
            fan_in_from_actors(units, |counter| tells_by_ring(counter, units as usize))
        }
        _ => Ok(Outcome::Skipped(OTHER_SUITE)),
    }
}

fn tells(counter: &ActorRef<Counter>) -> impl FnMut(u64) + Send + use<> {
    let counter = counter.clone();
    move |value| counter.tell(Number(value)).expect(ALIVE)
}

fn tells_by_ring(counter: &ActorRef<Counter>, bound: usize) -> impl FnMut(u64) + Send + use<> {
    let mut producer = counter.producer(bound);
    move |value| producer.tell(Number(value)).expect(ALIVE)
}

/// `open` gives each thread its own way to send one value.
fn fan_in_from_threads<S: FnMut(u64) + Send + 'static>(
    senders_count: u64,
    units: u64,
    bound: usize,
    open: impl Fn(&ActorRef<Counter>) -> S,
) -> Result<Outcome> {
    let system = start()?;
    let (finish, waiting) = finish::line();
    let count = senders_count * units;
    let options = SpawnOptions::new().lane(LaneConfig::bounded(bound));
    let counter = system.spawn_once(options, Counter(Tally::new(count, finish)))?;
    let stopwatch = Stopwatch::default();
    let threads = senders::start(senders_count, units, &stopwatch, |_| open(&counter));
    let ended = waiting.wait(count, sum_of(senders_count, units))?;
    threads.join()?;
    Ok(Outcome::measured(count, stopwatch.seconds_until(ended)?))
}

/// Does something once, when told to.
struct Starter<F>(F);

impl<F: FnMut() + Send + 'static> Actor for Starter<F> {}

struct Go;

impl<F: FnMut() + Send + 'static> Handler<Go> for Starter<F> {
    type Reply = ();

    fn handle(&mut self, _: Go, _: &mut Context<Self>) {
        (self.0)();
    }
}

/// Actors that each call their own function, all told to begin once all are there.
pub fn start_all<F: FnMut() + Send + 'static>(
    system: &System,
    count: u64,
    make: impl Fn(u64) -> F,
) {
    let starters: Vec<_> = (0..count)
        .map(|number| system.spawn(Starter(make(number))))
        .collect();
    for starter in starters {
        starter.tell(Go).expect(ALIVE);
    }
}

/// As [`fan_in_from_threads`], from actors to a deep lane.
fn fan_in_from_actors<S: FnMut(u64) + Send + 'static>(
    units: u64,
    open: impl Fn(&ActorRef<Counter>) -> S,
) -> Result<Outcome> {
    let system = start()?;
    let (finish, waiting) = finish::line();
    let count = SENDERS_MANY * units;
    let stopwatch = Stopwatch::default();
    let counter = spawn_deep(&system, Counter(Tally::new(count, finish)))?;
    start_all(&system, SENDERS_MANY, |_| {
        let (mut send, clock) = (open(&counter), stopwatch.clone());
        move || {
            clock.start();
            for value in 0..units {
                send(value);
            }
        }
    });
    let ended = waiting.wait(count, sum_of(SENDERS_MANY, units))?;
    Ok(Outcome::measured(count, stopwatch.seconds_until(ended)?))
}

/// Hands a token on until its hops are used up; a ring of two is ping-pong.
struct Node {
    next: Option<ActorRef<Node>>,
    hops: u64,
    finish: Finish,
}

impl Actor for Node {}

struct Link(ActorRef<Node>);

impl Handler<Link> for Node {
    type Reply = ();

    fn handle(&mut self, message: Link, _: &mut Context<Self>) {
        self.next = Some(message.0);
    }
}

struct Token(u64);

impl Handler<Token> for Node {
    type Reply = ();

    fn handle(&mut self, Token(hops_left): Token, _: &mut Context<Self>) {
        match &self.next {
            Some(next) if hops_left > 1 => next.tell(Token(hops_left - 1)).expect(ALIVE),
            _ => self.finish.report(self.hops, 0),
        }
    }
}

fn ring(nodes_count: usize, hops: u64) -> Result<Outcome> {
    let system = start()?;
    let (finish, waiting) = finish::line();
    let nodes: Vec<ActorRef<Node>> = (0..nodes_count)
        .map(|_| {
            system.spawn(Node {
                next: None,
                hops,
                finish: finish.clone(),
            })
        })
        .collect();
    for (index, node) in nodes.iter().enumerate() {
        let next = nodes[(index + 1) % nodes_count].clone();
        // A reply means that the link is set, and so that the actor has started.
        node.ask(Link(next)).wait().expect(ALIVE);
    }
    let started = Instant::now();
    nodes[0].tell(Token(hops)).expect(ALIVE);
    let ended = waiting.wait(hops, 0)?;
    Ok(Outcome::measured(
        hops,
        ended.duration_since(started).as_secs_f64(),
    ))
}

struct Server;

impl Actor for Server {}

struct Question(u64);

impl Handler<Question> for Server {
    type Reply = u64;

    fn handle(&mut self, message: Question, _: &mut Context<Self>) -> u64 {
        message.0 + 1
    }
}

/// Asks the server, one question after the other.
struct Asker {
    server: ActorRef<Server>,
    tally: Tally,
    count: u64,
    timeout: Option<Duration>,
}

impl Actor for Asker {}

impl AsyncHandler<Go> for Asker {
    type Reply = ();

    async fn handle(&mut self, _: Go, _: &mut Context<Self>) {
        for value in 0..self.count {
            let ask = self.server.ask(Question(value));
            let answer = match self.timeout {
                None => ask.await,
                Some(timeout) => ask.timeout(timeout).await,
            };
            self.tally.add(answer.expect("the server replies to all"));
        }
    }
}

fn ask(count: u64, timeout: Option<Duration>) -> Result<Outcome> {
    let system = start()?;
    let (finish, waiting) = finish::line();
    let server = system.spawn(Server);
    server.ask(Question(0)).wait().expect(ALIVE);
    let asker = system.spawn(Asker {
        server,
        tally: Tally::new(count, finish),
        count,
        timeout,
    });
    let started = Instant::now();
    asker.tell(Go).expect(ALIVE);
    let ended = waiting.wait(count, sum_of(1, count) + count)?;
    Ok(Outcome::measured(
        count,
        ended.duration_since(started).as_secs_f64(),
    ))
}

/// Tells the receiver one message.
struct Teller(ActorRef<Counter>);

impl Actor for Teller {}

impl Handler<Number> for Teller {
    type Reply = ();

    fn handle(&mut self, message: Number, _: &mut Context<Self>) {
        self.0.tell(message).expect(ALIVE);
    }
}

/// Each of many actors tells one message to a lane of a hundred; all but those wait for capacity.
fn waiting(count: u64) -> Result<Outcome> {
    let system = start()?;
    let (finish, waiting) = finish::line();
    let options = SpawnOptions::new().lane(LaneConfig::bounded(WAITING_CAPACITY));
    let counter = system.spawn_once(options, Counter(Tally::new(count, finish)))?;
    let tellers: Vec<_> = (0..count)
        .map(|_| system.spawn(Teller(counter.clone())))
        .collect();
    let (release, held) = tokio::sync::oneshot::channel();
    counter.tell(Hold(held)).expect(ALIVE);
    for (value, teller) in (0..count).zip(&tellers) {
        teller.tell(Number(value)).expect(ALIVE);
    }
    let is_waiting = |teller: &&ActorRef<Teller>| teller.snapshot().state == "suspended";
    while (tellers.iter().filter(is_waiting).count() as u64)
        < count.saturating_sub(2 * WAITING_CAPACITY as u64)
    {
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

/// Stops at its first message and counts itself when dropped.
struct Step(Countdown);

impl Actor for Step {}

impl Handler<Go> for Step {
    type Reply = ();

    fn handle(&mut self, _: Go, cx: &mut Context<Self>) {
        cx.stop();
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.0.one_is_done();
    }
}

/// Spawns all the others, as a process or a task does at the other peers.
struct Spawner(u64, Countdown);

impl Actor for Spawner {}

impl Handler<Go> for Spawner {
    type Reply = ();

    fn handle(&mut self, _: Go, cx: &mut Context<Self>) {
        let system = cx.system();
        for _ in 0..self.0 {
            let step = system.spawn(Step(self.1.clone()));
            step.tell(Go).expect(ALIVE);
        }
    }
}

fn spawn(count: u64) -> Result<Outcome> {
    let system = start()?;
    let (finish, waiting) = finish::line();
    let spawner = system.spawn(Spawner(count, Countdown::new(count, finish)));
    let started = Instant::now();
    spawner.tell(Go).expect(ALIVE);
    let ended = waiting.wait(count, 0)?;
    Ok(Outcome::measured(
        count,
        ended.duration_since(started).as_secs_f64(),
    ))
}

/// Counts itself when it has started, and waits for messages that never come.
struct Idle(Option<Countdown>);

impl Actor for Idle {
    fn started(&mut self, _: &mut Context<Self>) {
        if let Some(countdown) = self.0.take() {
            countdown.one_is_done();
        }
    }
}

fn idle(count: u64) -> Result<Outcome> {
    let system = start()?;
    let (finish, waiting) = finish::line();
    let before = memory::resident_bytes()?;
    let countdown = Countdown::new(count, finish);
    let started = Instant::now();
    let actors: Vec<ActorRef<Idle>> = (0..count)
        .map(|_| system.spawn(Idle(Some(countdown.clone()))))
        .collect();
    let ended = waiting.wait(count, 0)?;
    let bytes_each = memory::bytes_each(before, count)?;
    drop(actors);
    let seconds = ended.duration_since(started).as_secs_f64();
    Ok(Outcome::measured(count, seconds).with_field("bytes_per_actor", bytes_each))
}

fn backlog(count: u64) -> Result<Outcome> {
    let system = start()?;
    let (finish, waiting) = finish::line();
    let counter = spawn_deep(&system, Counter(Tally::new(count, finish)))?;
    let (release, held) = tokio::sync::oneshot::channel();
    counter.tell(Hold(held)).expect(ALIVE);
    let filling = Instant::now();
    for value in 0..count {
        counter.tell(Number(value)).expect(ALIVE);
    }
    let fill_seconds = filling.elapsed().as_secs_f64();
    let released = Instant::now();
    let _ = release.send(());
    let ended = waiting.wait(count, sum_of(1, count))?;
    let seconds = ended.duration_since(released).as_secs_f64();
    Ok(Outcome::measured(count, seconds).with_field("fill_seconds", fill_seconds))
}
