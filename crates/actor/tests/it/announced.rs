//! Announced blocking calls: `cx.blocking`.

use crate::common::{Gate, Noter, Notes, eventually, finish, system_of};
use freeboard_actor::{Actor, ActorRef, AsyncHandler, Context, Handler, System};

/// More than this would be a thread for every call, or a good part of it.
const THREADS_FEW: u64 = 24;

/// Announces each blocking call.
struct Caller(Notes<u64>);

/// Passes a gate in an async handler.
struct Later(Gate);

impl Actor for Caller {}

impl Handler<u64> for Caller {
    type Reply = u64;
    fn handle(&mut self, number: u64, cx: &mut Context<Self>) -> u64 {
        let doubled = cx.blocking(|| number * 2);
        self.0.push(doubled);
        doubled
    }
}

impl Handler<Gate> for Caller {
    type Reply = ();
    fn handle(&mut self, gate: Gate, cx: &mut Context<Self>) {
        cx.blocking(|| gate.pass());
    }
}

impl AsyncHandler<Later> for Caller {
    type Reply = ();
    async fn handle(&mut self, later: Later, cx: &mut Context<Self>) {
        cx.blocking(|| later.0.pass());
        self.0.push(0);
    }
}

fn callers(system: &System, count: usize) -> (Vec<ActorRef<Caller>>, Notes<u64>) {
    let notes = Notes::default();
    let callers = (0..count)
        .map(|_| system.spawn(Caller(notes.clone())))
        .collect();
    (callers, notes)
}

/// So many calls in all, by so many actors.
fn check_calls(workers: usize, actors: usize, calls: u64) {
    let system = system_of(workers);
    let (callers, notes) = callers(&system, actors);
    let mut threads_max = 0;
    for number in 0..calls {
        let caller = &callers[number as usize % actors];
        caller.tell(number).expect("alive");
        threads_max = threads_max.max(system.scheduler_snapshot().threads);
    }
    eventually("all calls return", || {
        threads_max = threads_max.max(system.scheduler_snapshot().threads);
        notes.len() as u64 >= calls
    });
    let mut seen = notes.all();
    seen.sort_unstable();
    assert!(seen.into_iter().eq((0..calls).map(|number| number * 2)));
    let scheduler = system.scheduler_snapshot();
    assert_eq!(scheduler.blocking_calls, calls);
    assert_eq!(scheduler.spares_exhausted, 0);
    assert!(threads_max <= THREADS_FEW, "{threads_max} threads");
    eventually("no thread is displaced", || {
        system.scheduler_snapshot().threads_displaced == 0
    });
    finish(&system);
}

#[test]
fn ten_thousand_calls_of_one_actor_need_few_threads() {
    check_calls(1, 1, 10_000);
    check_calls(2, 1, 10_000);
}

#[test]
fn ten_thousand_calls_of_many_actors_need_few_threads() {
    check_calls(1, 100, 10_000);
    check_calls(2, 100, 10_000);
}

#[test]
fn others_go_on_while_announced_calls_block() {
    let system = system_of(2);
    let gate = Gate::default();
    let (callers, _) = callers(&system, 20);
    for caller in &callers {
        caller.tell(gate.clone()).expect("alive");
    }
    gate.wait_arrived(20);
    let noter = system.spawn(Noter::default());
    assert_eq!(noter.ask(5_u64).wait().expect("a reply"), 5);
    let seen = system.scheduler_snapshot();
    assert_eq!(seen.blocking_calls, 20);
    assert!(seen.threads >= 22, "{seen:?}");
    gate.open();
    eventually("no thread is displaced", || {
        system.scheduler_snapshot().threads_displaced == 0
    });
    finish(&system);
}

#[test]
fn without_a_spare_the_call_is_made_all_the_same() {
    let system = System::builder()
        .workers(1)
        .threads_max(1)
        .build()
        .expect("valid settings");
    let (callers, notes) = callers(&system, 3);
    for number in 0..300 {
        callers[number as usize % 3].tell(number).expect("alive");
    }
    notes.wait_len(300);
    let seen = system.scheduler_snapshot();
    assert_eq!((seen.blocking_calls, seen.threads), (300, 1));
    // And one for each time that the only worker was displaced for long.
    assert!(seen.spares_exhausted >= 300, "{seen:?}");
    finish(&system);
}

#[test]
fn an_async_handler_may_announce_too() {
    let system = system_of(1);
    let gate = Gate::default();
    let (callers, notes) = callers(&system, 3);
    for caller in &callers {
        caller.tell(Later(gate.clone())).expect("alive");
    }
    gate.wait_arrived(3);
    gate.open();
    notes.wait_len(3);
    assert_eq!(system.scheduler_snapshot().blocking_calls, 3);
    finish(&system);
}

/// Panics in the call.
struct Bomb;

impl Handler<Bomb> for Caller {
    type Reply = ();
    fn handle(&mut self, _bomb: Bomb, cx: &mut Context<Self>) {
        cx.blocking(|| panic!("on purpose"));
    }
}

#[test]
fn a_call_that_panics_fails_its_actor_alone() {
    let system = system_of(1);
    let (callers, notes) = callers(&system, 2);
    callers[0].tell(Bomb).expect("alive");
    crate::common::ended(&callers[0]);
    callers[1].tell(4_u64).expect("alive");
    assert_eq!(notes.wait_len(1), [8]);
    assert_eq!(system.scheduler_snapshot().blocking_calls, 2);
    finish(&system);
}
