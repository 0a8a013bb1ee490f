//! ractor on a tokio runtime: messages by `cast`, requests by `call`.

use std::time::Instant;

use anyhow::Result;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
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
use super::{NO_DAM, OTHER_SUITE, ractor_bank};

pub const ALIVE: &str = "the actor is alive";

pub fn run(work: Work, scale: Scale) -> Result<Outcome> {
    let units = scale.units(work);
    match work {
        Work::FanInFew => fan_in_from_threads(units),
        Work::FanInMany => fan_in_from_actors(units),
        Work::PingPong => ring(2, units),
        Work::Ring => ring(RING_NODES, units),
        Work::Ask => ask(units),
        Work::Bank => ractor_bank::run(units),
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

/// An actor whose state is made before it, and which handles its messages in one function.
pub trait Behaviour: Send + Sync + 'static {
    type Message: Send + 'static;

    fn handle(
        &mut self,
        myself: &ActorRef<Self::Message>,
        message: Self::Message,
    ) -> impl Future<Output = ()> + Send;
}

/// ractor keeps an actor and its state apart; all that is needed here is the state.
struct Shell<B>(std::marker::PhantomData<fn() -> B>);

impl<B: Behaviour> Actor for Shell<B>
where
    B::Message: ractor::Message,
{
    type Msg = B::Message;
    type State = B;
    type Arguments = B;

    async fn pre_start(
        &self,
        _: ActorRef<B::Message>,
        behaviour: B,
    ) -> Result<B, ActorProcessingErr> {
        Ok(behaviour)
    }

    async fn handle(
        &self,
        myself: ActorRef<B::Message>,
        message: B::Message,
        behaviour: &mut B,
    ) -> Result<(), ActorProcessingErr> {
        behaviour.handle(&myself, message).await;
        Ok(())
    }
}

pub async fn spawn_actor<B: Behaviour>(behaviour: B) -> ActorRef<B::Message>
where
    B::Message: ractor::Message,
{
    let spawned = Actor::spawn(None, Shell(std::marker::PhantomData), behaviour).await;
    spawned
        .expect("an actor without a name can always be spawned")
        .0
}

pub enum Count {
    Number(u64),
    /// Keeps the counter from what is queued behind it until the gate opens.
    Hold(oneshot::Receiver<()>),
}

impl Behaviour for Tally {
    type Message = Count;

    async fn handle(&mut self, _: &ActorRef<Count>, message: Count) {
        match message {
            Count::Number(value) => {
                self.add(value);
            }
            Count::Hold(opened) => {
                // An error means that the run has failed already.
                let _ = opened.await;
            }
        }
    }
}

fn fan_in_from_threads(units: u64) -> Result<Outcome> {
    let runtime = start()?;
    let (finish, waiting) = finish::line();
    let count = SENDERS_FEW * units;
    let counter = run_on_worker(&runtime, spawn_actor(Tally::new(count, finish)))?;
    let stopwatch = Stopwatch::default();
    let threads = senders::start(SENDERS_FEW, units, &stopwatch, |_| {
        let counter = counter.clone();
        move |value| counter.cast(Count::Number(value)).expect(ALIVE)
    });
    let ended = waiting.wait(count, sum_of(SENDERS_FEW, units))?;
    threads.join()?;
    Ok(Outcome::measured(count, stopwatch.seconds_until(ended)?))
}

/// Sends everything when told to.
struct Sender<F: FnMut() + Send + Sync + 'static>(F);

struct Go;

impl<F: FnMut() + Send + Sync + 'static> Behaviour for Sender<F> {
    type Message = Go;

    async fn handle(&mut self, _: &ActorRef<Go>, _: Go) {
        (self.0)();
    }
}

/// Actors that each call their own function, all told to begin once all are there.
async fn start_all<F>(count: u64, make: impl Fn(u64) -> F)
where
    F: FnMut() + Send + Sync + 'static,
{
    let mut starters = Vec::new();
    for number in 0..count {
        starters.push(spawn_actor(Sender(make(number))).await);
    }
    for starter in starters {
        starter.cast(Go).expect(ALIVE);
    }
}

fn fan_in_from_actors(units: u64) -> Result<Outcome> {
    let runtime = start()?;
    let (finish, waiting) = finish::line();
    let count = SENDERS_MANY * units;
    let stopwatch = Stopwatch::default();
    let clock = stopwatch.clone();
    run_on_worker(&runtime, async move {
        let counter = spawn_actor(Tally::new(count, finish)).await;
        let sender = move |_| {
            let (counter, clock) = (counter.clone(), clock.clone());
            move || {
                clock.start();
                for value in 0..units {
                    counter.cast(Count::Number(value)).expect(ALIVE);
                }
            }
        };
        start_all(SENDERS_MANY, sender).await;
    })?;
    let ended = waiting.wait(count, sum_of(SENDERS_MANY, units))?;
    Ok(Outcome::measured(count, stopwatch.seconds_until(ended)?))
}

/// Hands a token on until its hops are used up; a ring of two is ping-pong.
struct Node {
    next: Option<ActorRef<RingMessage>>,
    hops: u64,
    finish: Finish,
}

enum RingMessage {
    Link(ActorRef<RingMessage>),
    Token(u64),
}

impl Behaviour for Node {
    type Message = RingMessage;

    async fn handle(&mut self, _: &ActorRef<RingMessage>, message: RingMessage) {
        match (message, &self.next) {
            (RingMessage::Link(next), _) => self.next = Some(next),
            (RingMessage::Token(hops_left), Some(next)) if hops_left > 1 => {
                next.cast(RingMessage::Token(hops_left - 1)).expect(ALIVE);
            }
            (RingMessage::Token(_), _) => self.finish.report(self.hops, 0),
        }
    }
}

fn ring(nodes_count: usize, hops: u64) -> Result<Outcome> {
    let runtime = start()?;
    let (finish, waiting) = finish::line();
    let started = run_on_worker(&runtime, async move {
        let mut nodes = Vec::new();
        for _ in 0..nodes_count {
            nodes.push(
                spawn_actor(Node {
                    next: None,
                    hops,
                    finish: finish.clone(),
                })
                .await,
            );
        }
        for (index, node) in nodes.iter().enumerate() {
            let next = nodes[(index + 1) % nodes_count].clone();
            node.cast(RingMessage::Link(next)).expect(ALIVE);
        }
        let started = Instant::now();
        nodes[0].cast(RingMessage::Token(hops)).expect(ALIVE);
        started
    })?;
    let ended = waiting.wait(hops, 0)?;
    Ok(Outcome::measured(
        hops,
        ended.duration_since(started).as_secs_f64(),
    ))
}

struct Server;

struct Question(u64, RpcReplyPort<u64>);

impl Behaviour for Server {
    type Message = Question;

    async fn handle(&mut self, _: &ActorRef<Question>, Question(value, reply_to): Question) {
        // The asker waits for each reply, so it is there.
        let _ = reply_to.send(value + 1);
    }
}

fn ask(count: u64) -> Result<Outcome> {
    let runtime = start()?;
    let (finish, waiting) = finish::line();
    let started = run_on_worker(&runtime, async move {
        let server = spawn_actor(Server).await;
        let mut tally = Tally::new(count, finish);
        let started = Instant::now();
        for value in 0..count {
            let reply = server
                .call(|reply_to| Question(value, reply_to), None)
                .await;
            tally.add(reply.expect(ALIVE).expect("the server replies to all"));
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
struct Step(Countdown);

impl Behaviour for Step {
    type Message = Go;

    async fn handle(&mut self, myself: &ActorRef<Go>, _: Go) {
        myself.stop(None);
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
            spawn_actor(Step(countdown.clone()))
                .await
                .cast(Go)
                .expect(ALIVE);
        }
        started
    })?;
    let ended = waiting.wait(count, 0)?;
    Ok(Outcome::measured(
        count,
        ended.duration_since(started).as_secs_f64(),
    ))
}

struct Idle;

impl Behaviour for Idle {
    type Message = Go;

    async fn handle(&mut self, _: &ActorRef<Go>, _: Go) {}
}

fn idle(count: u64) -> Result<Outcome> {
    let runtime = start()?;
    let before = memory::resident_bytes()?;
    let (seconds, actors) = run_on_worker(&runtime, async move {
        let started = Instant::now();
        let mut actors = Vec::new();
        for _ in 0..count {
            // Comes back when the actor has started.
            actors.push(spawn_actor(Idle).await);
        }
        (started.elapsed().as_secs_f64(), actors)
    })?;
    let bytes_each = memory::bytes_each(before, count)?;
    drop(actors);
    Ok(Outcome::measured(count, seconds).with_field("bytes_per_actor", bytes_each))
}

fn backlog(count: u64) -> Result<Outcome> {
    let runtime = start()?;
    let (finish, waiting) = finish::line();
    let counter = run_on_worker(&runtime, spawn_actor(Tally::new(count, finish)))?;
    let (release, held) = oneshot::channel();
    counter.cast(Count::Hold(held)).expect(ALIVE);
    let filling = Instant::now();
    for value in 0..count {
        counter.cast(Count::Number(value)).expect(ALIVE);
    }
    let fill_seconds = filling.elapsed().as_secs_f64();
    let released = Instant::now();
    let _ = release.send(());
    let ended = waiting.wait(count, sum_of(1, count))?;
    let seconds = ended.duration_since(released).as_secs_f64();
    Ok(Outcome::measured(count, seconds).with_field("fill_seconds", fill_seconds))
}

pub struct Line(String);

impl Behaviour for LogFile {
    type Message = Line;

    async fn handle(&mut self, _: &ActorRef<Line>, line: Line) {
        self.write(&line.0);
    }
}

fn flood(work: Work, scale: Scale) -> Result<Outcome> {
    let runtime = start()?;
    let (log_file, check) = log_file::create(work, scale)?;
    let stopwatch = Stopwatch::default();
    let (clock, units) = (stopwatch.clone(), scale.units(work));
    run_on_worker(&runtime, async move {
        let server = spawn_actor(log_file).await;
        let sender = move |number| {
            let (server, clock) = (server.clone(), clock.clone());
            move || {
                clock.start();
                for value in 0..units {
                    server
                        .cast(Line(log_file::line(number, value)))
                        .expect(ALIVE);
                }
            }
        };
        start_all(SENDERS_MANY, sender).await;
    })?;
    check.into_outcome(&stopwatch)
}
