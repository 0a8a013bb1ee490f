//! Panics of user code stop neither a worker nor the timer thread.

use std::{panic::panic_any, time::Duration};

use crate::common::{
    Gate, Noter, Notes, block_on, check_balance, ended, finish, lane, shed, system_of,
};
use freeboard_actor::{
    Actor, ActorRef, AskError, AsyncHandler, Context, ExitReason, Failure, Handler, SpawnOptions,
    Supervision, System,
};
use freeboard_flow::{LaneConfig, Overload};

/// Where a [`Bomb`] of an actor goes off.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Place {
    Nowhere,
    Started,
    Stopped,
    Drop,
}

struct Bomb(Place);

/// A value whose drop panics, unless it is already being unwound.
struct BadDrop;

impl Drop for BadDrop {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("a drop, on purpose");
        }
    }
}

impl Actor for Bomb {
    fn started(&mut self, _cx: &mut Context<Self>) {
        assert_ne!(self.0, Place::Started, "on purpose");
    }

    fn stopped(&mut self, _cx: &mut Context<Self>) {
        assert_ne!(self.0, Place::Stopped, "on purpose");
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        assert_ne!(self.0, Place::Drop, "on purpose");
    }
}

struct Stop;

impl Handler<Stop> for Bomb {
    type Reply = ();
    fn handle(&mut self, _stop: Stop, cx: &mut Context<Self>) {
        cx.stop();
    }
}

impl Handler<BadDrop> for Bomb {
    type Reply = BadDrop;
    fn handle(&mut self, bad: BadDrop, _cx: &mut Context<Self>) -> BadDrop {
        bad
    }
}

/// Panics with a payload whose own drop panics.
struct BadPayload;

impl Handler<BadPayload> for Bomb {
    type Reply = ();
    fn handle(&mut self, _bad: BadPayload, _cx: &mut Context<Self>) {
        panic_any(BadDrop);
    }
}

impl Handler<Gate> for Bomb {
    type Reply = ();
    fn handle(&mut self, gate: Gate, _cx: &mut Context<Self>) {
        gate.pass();
    }
}

/// A system of one worker: if that goes down, nothing else runs.
fn one_worker() -> (System, Notes<Failure>) {
    let failures = Notes::default();
    let noted = failures.clone();
    let system = System::builder()
        .workers(1)
        .on_failure(move |failure: &Failure| noted.push(failure.clone()))
        .build()
        .expect("valid settings");
    (system, failures)
}

/// The worker lives: it answers, and shuts down in order.
#[track_caller]
fn check_alive(system: &System) {
    let noter = system.spawn(Noter::default());
    let reply = noter.ask(7_u64).timeout(crate::common::LIMIT).wait();
    assert_eq!(reply.expect("the worker lives"), 7);
    finish(system);
}

#[test]
fn a_panic_in_started_ends_the_actor() {
    let (system, failures) = one_worker();
    let bomb = system.spawn(Bomb(Place::Started));
    assert_eq!(ended(&bomb).reason, ExitReason::Panicked);
    assert_eq!(failures.all()[0].message_type, None);
    check_alive(&system);
}

#[test]
fn a_panic_in_stopped_changes_no_count() {
    let (system, failures) = one_worker();
    let bomb = system.spawn(Bomb(Place::Stopped));
    bomb.tell(Stop).expect("alive");
    assert_eq!(ended(&bomb).reason, ExitReason::Stopped);
    assert_eq!(failures.len(), 1);
    assert_eq!(failures.all()[0].message_type, None);
    let lane = lane(&bomb, 0);
    assert_eq!((lane.accepted, lane.handled), (1, 1));
    assert_eq!(shed(&bomb, "handler_panicked"), 0);
    check_alive(&system);
}

#[test]
fn a_panic_in_an_actors_drop_ends_it_all_the_same() {
    let (system, _) = one_worker();
    let bomb = system.spawn(Bomb(Place::Drop));
    bomb.stop();
    ended(&bomb);
    drop(bomb);
    check_alive(&system);
}

#[test]
fn a_factory_that_panics_is_tried_again() {
    let (system, failures) = one_worker();
    let mut left = 3;
    let supervision = Supervision::restart().backoff(Duration::ZERO, Duration::ZERO);
    let options = SpawnOptions::new().supervision(supervision);
    let noter = system
        .spawn_with(options, move || {
            if left > 0 {
                left -= 1;
                panic!("on purpose");
            }
            Noter::default()
        })
        .expect("valid options");
    assert_eq!(noter.ask(1_u64).wait().expect("a reply"), 1);
    assert_eq!(failures.len(), 3);
    assert_eq!(noter.snapshot().restarts, 3);
    check_alive(&system);
}

#[test]
fn a_factory_that_always_panics_reaches_its_limit() {
    let (system, _) = one_worker();
    let supervision = Supervision::restart()
        .backoff(Duration::ZERO, Duration::ZERO)
        .limit(5, Duration::from_secs(3_600));
    let options = SpawnOptions::new().supervision(supervision);
    let factory = || -> Noter { panic!("on purpose") };
    let noter = system.spawn_with(options, factory).expect("valid options");
    assert_eq!(ended(&noter).reason, ExitReason::RestartLimit);
    check_alive(&system);
}

#[test]
fn a_factory_whose_drop_panics_is_let_go() {
    let (system, _) = one_worker();
    let bad = BadDrop;
    let noter = system
        .spawn_with(SpawnOptions::new(), move || {
            let _kept = &bad;
            Noter::default()
        })
        .expect("valid options");
    noter.stop();
    ended(&noter);
    check_alive(&system);
}

#[test]
fn a_payload_whose_drop_panics_is_let_go() {
    let (system, failures) = one_worker();
    let bomb = system.spawn(Bomb(Place::Nowhere));
    bomb.tell(BadPayload).expect("alive");
    assert_eq!(ended(&bomb).reason, ExitReason::Panicked);
    assert_eq!(failures.all()[0].panic, "a panic without text");
    check_alive(&system);
}

#[test]
fn a_reply_whose_drop_panics_is_the_handlers_panic() {
    let (system, _) = one_worker();
    let bomb = system.spawn(Bomb(Place::Nowhere));
    bomb.tell(BadDrop).expect("alive");
    assert_eq!(ended(&bomb).reason, ExitReason::Panicked);
    check_balance(&lane(&bomb, 0));
    check_alive(&system);
}

#[test]
fn messages_whose_drop_panics_are_shed() {
    let (system, _) = one_worker();
    let options = SpawnOptions::new().lane(LaneConfig::bounded(8).overload(Overload::DropOldest));
    let bomb = system
        .spawn_with(options, || Bomb(Place::Nowhere))
        .expect("valid options");
    let gate = Gate::default();
    bomb.tell(gate.clone()).expect("alive");
    gate.wait_arrived(1);
    for _ in 0..20 {
        bomb.tell(BadDrop).expect("evicts");
    }
    bomb.stop();
    gate.open();
    assert_eq!(ended(&bomb).reason, ExitReason::Stopped);
    check_balance(&lane(&bomb, 0));
    check_alive(&system);
}

/// Panics in the middle of waiting, or when its future is dropped.
enum Later {
    Panic,
    BadDrop,
}

impl AsyncHandler<Later> for Bomb {
    type Reply = ();
    async fn handle(&mut self, later: Later, _cx: &mut Context<Self>) {
        let mut is_first = true;
        let turn = std::future::poll_fn(|context| {
            context.waker().wake_by_ref();
            if std::mem::take(&mut is_first) {
                std::task::Poll::Pending
            } else {
                std::task::Poll::Ready(())
            }
        });
        turn.await;
        match later {
            Later::Panic => panic!("on purpose"),
            Later::BadDrop => {
                let _bad = BadDrop;
                std::future::pending::<()>().await;
            }
        }
    }
}

#[test]
fn an_async_handler_that_panics_is_shed_and_not_handled() {
    let (system, failures) = one_worker();
    let bomb = system.spawn(Bomb(Place::Nowhere));
    let reply = bomb.ask(Later::Panic).wait();
    assert!(matches!(reply, Err(AskError::Shed)));
    assert_eq!(ended(&bomb).reason, ExitReason::Panicked);
    let message_type = failures.all()[0].message_type;
    assert_eq!(message_type, Some(std::any::type_name::<Later>()));
    assert_eq!(shed(&bomb, "handler_panicked"), 1);
    assert_eq!(lane(&bomb, 0).handled, 0);
    check_balance(&lane(&bomb, 0));
    check_alive(&system);
}

#[test]
fn a_future_whose_drop_panics_is_let_go() {
    let (system, _) = one_worker();
    let bomb = system.spawn(Bomb(Place::Nowhere));
    bomb.tell(Later::BadDrop).expect("alive");
    crate::common::eventually("it waits", || bomb.snapshot().state == "suspended");
    bomb.stop();
    ended(&bomb);
    check_alive(&system);
}

/// A message whose clone panics, for timers that repeat.
struct BadClone;

impl Clone for BadClone {
    fn clone(&self) -> Self {
        panic!("a clone, on purpose");
    }
}

struct Clocked(Notes<u64>);

impl Actor for Clocked {}

impl Handler<BadClone> for Clocked {
    type Reply = ();
    fn handle(&mut self, bad: BadClone, cx: &mut Context<Self>) {
        cx.every(Duration::from_micros(10), bad).expect("a timer");
    }
}

impl Handler<u64> for Clocked {
    type Reply = ();
    fn handle(&mut self, number: u64, cx: &mut Context<Self>) {
        self.0.push(number);
        if number > 0 {
            cx.send_after(Duration::from_millis(1), number - 1)
                .expect("a timer");
        }
    }
}

struct After(BadDrop);

impl Handler<After> for Clocked {
    type Reply = ();
    fn handle(&mut self, after: After, cx: &mut Context<Self>) {
        cx.send_after(Duration::from_secs(3_600), after)
            .expect("a timer");
    }
}

#[test]
fn a_clone_that_panics_leaves_the_other_timers() {
    let (system, _) = one_worker();
    let notes = Notes::default();
    let clocked = system.spawn(Clocked(notes.clone()));
    clocked.tell(BadClone).expect("alive");
    clocked.tell(10_u64).expect("alive");
    assert!(notes.wait_len(11).into_iter().eq((0..=10).rev()));
    check_alive(&system);
}

#[test]
fn a_timers_message_whose_drop_panics_is_let_go() {
    let (system, _) = one_worker();
    let clocked = system.spawn(Clocked(Notes::default()));
    clocked.tell(After(BadDrop)).expect("alive");
    clocked.stop_gracefully();
    ended(&clocked);
    check_alive(&system);
}

#[test]
fn observers_that_panic_are_survived() {
    let system = System::builder()
        .workers(1)
        .on_failure(|_| panic!("an observer, on purpose"))
        .on_dead_letter(|_| panic!("an observer, on purpose"))
        .build()
        .expect("valid settings");
    let bomb: ActorRef<Bomb> = system.spawn(Bomb(Place::Started));
    let _ = bomb.tell(Stop);
    assert_eq!(ended(&bomb).reason, ExitReason::Panicked);
    check_alive(&system);
}

struct BadWake;

impl std::task::Wake for BadWake {
    fn wake(self: std::sync::Arc<Self>) {
        panic!("a waker, on purpose");
    }
}

#[test]
fn a_waker_that_panics_is_survived() {
    let system = system_of(1);
    let options = SpawnOptions::new().lane(LaneConfig::bounded(1));
    let bomb = system
        .spawn_with(options, || Bomb(Place::Nowhere))
        .expect("valid options");
    let gate = Gate::default();
    bomb.tell(gate.clone()).expect("alive");
    gate.wait_arrived(1);
    while bomb.try_tell(gate.clone()).is_ok() {}
    let mut send = bomb.send(gate.clone());
    let waker = std::task::Waker::from(std::sync::Arc::new(BadWake));
    let mut context = std::task::Context::from_waker(&waker);
    assert!(std::future::Future::poll(std::pin::Pin::new(&mut send), &mut context).is_pending());
    gate.open();
    crate::common::eventually("it is let go", || bomb.depth() == 0);
    block_on(send).expect("alive");
    check_alive(&system);
}
