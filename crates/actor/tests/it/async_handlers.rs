//! Async handlers hold their mailbox while they wait; piping does not.

use std::time::Duration;

use crate::common::{
    LIMIT, Notes, check_balance, count_of, ended, eventually, finish, lane, system,
};
use freeboard_actor::{
    Actor, ActorRef, AskError, AsyncHandler, Context, ExitReason, Handler, NoRuntime, SpawnOptions,
    System,
};
use freeboard_flow::LaneConfig;
use tokio::sync::oneshot;

#[derive(Default)]
struct Waiter {
    notes: Notes<u64>,
}

/// Waits for the channel, then notes the number.
struct Await(u64, oneshot::Receiver<()>);

/// Sleeps on tokio's clock, then answers.
struct Nap(u64);

/// Pipes the channel's value, then notes it.
struct Pipe(oneshot::Receiver<u64>);

struct PipePanic;

impl Actor for Waiter {}

impl Handler<u64> for Waiter {
    type Reply = ();
    fn handle(&mut self, number: u64, _cx: &mut Context<Self>) {
        self.notes.push(number);
    }
}

impl AsyncHandler<Await> for Waiter {
    type Reply = u64;
    async fn handle(&mut self, msg: Await, cx: &mut Context<Self>) -> u64 {
        let id = cx.id();
        let _ = msg.1.await;
        assert_eq!(cx.id(), id, "the context is there after the await");
        cx.actor_ref().try_tell(msg.0 + 1_000).expect("room");
        self.notes.push(msg.0);
        msg.0
    }
}

impl AsyncHandler<Nap> for Waiter {
    type Reply = u64;
    async fn handle(&mut self, nap: Nap, _cx: &mut Context<Self>) -> u64 {
        let duration = Duration::from_millis(1);
        let napped = tokio::time::timeout(duration, std::future::pending::<()>()).await;
        assert!(napped.is_err());
        self.notes.push(nap.0);
        nap.0
    }
}

impl Handler<Pipe> for Waiter {
    type Reply = Result<(), NoRuntime>;
    fn handle(&mut self, pipe: Pipe, cx: &mut Context<Self>) -> Result<(), NoRuntime> {
        cx.pipe(pipe.0, |value| value.expect("a value"))
    }
}

impl Handler<PipePanic> for Waiter {
    type Reply = Result<(), NoRuntime>;
    fn handle(&mut self, _pipe: PipePanic, cx: &mut Context<Self>) -> Result<(), NoRuntime> {
        cx.pipe(async { panic!("on purpose") }, |number: u64| number)
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .expect("a runtime")
}

fn attached(runtime: &tokio::runtime::Runtime) -> System {
    System::builder()
        .workers(2)
        .tokio(runtime.handle().clone())
        .build()
        .expect("valid settings")
}

fn spawn(system: &System) -> (ActorRef<Waiter>, Notes<u64>) {
    let waiter = Waiter::default();
    let notes = waiter.notes.clone();
    (system.spawn(waiter), notes)
}

fn wait_held(actor: &ActorRef<Waiter>) {
    eventually("it waits", || actor.snapshot().state == "suspended");
}

#[test]
fn no_message_overtakes_a_waiting_handler() {
    let system = system();
    let (actor, notes) = spawn(&system);
    let (sender, receiver) = oneshot::channel();
    actor.tell(1_u64).expect("alive");
    actor.tell(Await(2, receiver)).expect("alive");
    actor.tell(3_u64).expect("alive");
    wait_held(&actor);
    assert_eq!(notes.all(), [1]);
    sender.send(()).expect("it waits");
    assert_eq!(notes.wait_len(4), [1, 2, 3, 1_002]);
    finish(&system);
    check_balance(&lane(&actor, 0));
    assert_eq!(lane(&actor, 0).handled, 4);
}

#[test]
fn an_async_handler_answers() {
    let system = system();
    let (actor, _) = spawn(&system);
    for number in 0..200 {
        let (sender, receiver) = oneshot::channel();
        let asking = std::thread::spawn({
            let actor = actor.clone();
            move || actor.ask(Await(number, receiver)).timeout(LIMIT).wait()
        });
        let _ = sender.send(());
        assert_eq!(asking.join().expect("no panic").expect("a reply"), number);
    }
    finish(&system);
    check_balance(&lane(&actor, 0));
}

#[test]
fn a_stop_drops_the_waiting_future() {
    let system = system();
    let (actor, notes) = spawn(&system);
    let (sender, receiver) = oneshot::channel();
    let asking = std::thread::spawn({
        let actor = actor.clone();
        move || actor.ask(Await(1, receiver)).wait()
    });
    wait_held(&actor);
    actor.tell(2_u64).expect("alive");
    actor.stop();
    assert_eq!(ended(&actor).reason, ExitReason::Stopped);
    assert!(matches!(
        asking.join().expect("no panic"),
        Err(AskError::Shed)
    ));
    assert!(sender.send(()).is_err(), "its receiver was dropped");
    assert_eq!(notes.len(), 0);
    check_balance(&lane(&actor, 0));
    finish(&system);
}

#[test]
fn draining_waits_for_the_future() {
    let runtime = runtime();
    let system = attached(&runtime);
    let (actor, notes) = spawn(&system);
    actor.tell(Nap(1)).expect("alive");
    actor.tell(Nap(2)).expect("alive");
    actor.stop_gracefully();
    assert_eq!(ended(&actor).reason, ExitReason::Drained);
    assert_eq!(notes.all(), [1, 2]);
    finish(&system);
}

#[test]
fn tokios_clock_works_in_an_attached_system() {
    let runtime = runtime();
    let system = attached(&runtime);
    let (actor, notes) = spawn(&system);
    for number in 0..10 {
        assert_eq!(
            actor.ask(Nap(number)).wait().expect("the clock is there"),
            number
        );
    }
    assert!(notes.all().into_iter().eq(0..10));
    finish(&system);
}

#[test]
fn a_system_built_inside_a_runtime_is_attached() {
    let runtime = runtime();
    let system = runtime.block_on(async { crate::common::system() });
    let (actor, _) = spawn(&system);
    assert_eq!(actor.ask(Nap(5)).wait().expect("a reply"), 5);
    finish(&system);
}

#[test]
fn a_pipe_needs_a_runtime() {
    let system = system();
    let (actor, _) = spawn(&system);
    let (_sender, receiver) = oneshot::channel();
    let piped = actor.ask(Pipe(receiver)).wait().expect("a reply");
    assert_eq!(piped, Err(NoRuntime));
    finish(&system);
}

#[test]
fn messages_are_handled_while_a_pipe_waits() {
    let runtime = runtime();
    let system = attached(&runtime);
    let (actor, notes) = spawn(&system);
    let (sender, receiver) = oneshot::channel();
    actor
        .ask(Pipe(receiver))
        .wait()
        .expect("a reply")
        .expect("a runtime");
    actor.ask(1_u64).wait().expect("a reply");
    sender.send(2).expect("it waits");
    assert_eq!(notes.wait_len(2), [1, 2]);
    finish(&system);
    assert_eq!(lane(&actor, 0).handled, 3);
}

#[test]
fn a_pipe_waits_for_room() {
    let runtime = runtime();
    let system = attached(&runtime);
    let notes = Notes::default();
    let made = notes.clone();
    let options = SpawnOptions::new().lane(LaneConfig::bounded(1));
    let actor = system
        .spawn_with(options, move || Waiter {
            notes: made.clone(),
        })
        .expect("valid options");
    let senders: Vec<_> = (0..50)
        .map(|_| {
            let (sender, receiver) = oneshot::channel();
            let piped = actor.ask(Pipe(receiver)).wait().expect("a reply");
            piped.expect("a runtime");
            sender
        })
        .collect();
    for (number, sender) in senders.into_iter().enumerate() {
        sender.send(number as u64).expect("it waits");
    }
    let mut numbers = notes.wait_len(50);
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..50));
    finish(&system);
}

#[test]
fn a_pipe_into_an_ended_actor_is_a_dead_letter() {
    let runtime = runtime();
    let system = attached(&runtime);
    let (actor, _) = spawn(&system);
    let (sender, receiver) = oneshot::channel();
    actor
        .ask(Pipe(receiver))
        .wait()
        .expect("a reply")
        .expect("a runtime");
    actor.stop();
    ended(&actor);
    sender.send(2).expect("it waits");
    eventually("a dead letter", || {
        count_of(&system.dead_letters(), "stopped") == 1
    });
    finish(&system);
}

#[test]
fn a_piped_future_that_panics_is_a_dead_letter() {
    let runtime = runtime();
    let system = attached(&runtime);
    let (actor, notes) = spawn(&system);
    actor
        .ask(PipePanic)
        .wait()
        .expect("a reply")
        .expect("a runtime");
    eventually("a dead letter", || {
        count_of(&system.dead_letters(), "handler_panicked") == 1
    });
    actor.ask(1_u64).wait().expect("it lives");
    assert_eq!(notes.all(), [1]);
    finish(&system);
}

/// Tells, then sends, to a full lane, within one async handler.
struct Speaker(ActorRef<crate::common::Noter>);

impl Actor for Speaker {}

impl AsyncHandler<u64> for Speaker {
    type Reply = ();
    async fn handle(&mut self, rounds: u64, _cx: &mut Context<Self>) {
        for round in 0..rounds {
            self.0.tell(2 * round).expect("alive");
            self.0.send(2 * round + 1).await.expect("alive");
        }
    }
}

#[test]
fn a_send_does_not_overtake_a_tell_of_the_same_actor() {
    let (system, notes) = (system(), Notes::default());
    let gate = crate::common::Gate::default();
    let made = (gate.clone(), notes.clone());
    let options = SpawnOptions::new().lane(LaneConfig::bounded(1));
    let noter = system
        .spawn_with(options, move || crate::common::Noter {
            gate: made.0.clone(),
            notes: made.1.clone(),
        })
        .expect("valid options");
    noter.tell(crate::common::Hold).expect("alive");
    gate.wait_arrived(1);
    let speaker = system.spawn(Speaker(noter.clone()));
    speaker.tell(200).expect("alive");
    eventually("it speaks", || speaker.snapshot().state == "suspended");
    gate.open();
    let told = notes.wait_len(400);
    assert!(told.iter().copied().eq(0..400), "{told:?}");
    finish(&system);
}
