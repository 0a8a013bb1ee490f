//! Handlers that block: others go on, threads stay bounded, nothing is lost.
#![cfg(not(loom))]

mod common;

use std::sync::mpsc;

use common::{Gate, LIMIT, Noter, Notes, Ping, ended, eventually, finish, lane, shed, system};
use freeboard_actor::{Actor, ActorRef, Context, EndReason, Handler, SpawnOptions, System};

fn held(system: &System, gate: &Gate, count: usize) -> Vec<ActorRef<Noter>> {
    let actors: Vec<_> = (0..count).map(|_| system.spawn(Noter::default())).collect();
    for actor in &actors {
        actor.tell(gate.clone()).unwrap();
    }
    gate.wait_arrived(count as u64);
    actors
}

#[test]
fn more_blocked_actors_than_workers_leave_the_others_served() {
    let system = system();
    let gate = Gate::default();
    let blocked = held(&system, &gate, 20);
    let other = system.spawn(Noter::default());
    for _ in 0..100 {
        other.ask(Ping).wait().unwrap();
    }
    let scheduler = system.scheduler_snapshot();
    assert!(scheduler.rescues >= 19, "{scheduler:?}");
    assert!(scheduler.threads <= 24, "{scheduler:?}");
    gate.open();
    eventually("all threads are back", || {
        system.scheduler_snapshot().threads_displaced == 0
    });
    let delay = system.scheduler_snapshot().rescue_delay.unwrap();
    assert!(delay.count >= 19 && delay.min > 0, "{delay:?}");
    eventually("all return", || {
        blocked.iter().all(|actor| lane(actor, 0).handled == 1)
    });
    finish(&system);
}

#[test]
fn at_the_limit_of_threads_workers_keep_their_place_and_nothing_is_lost() {
    let system = System::builder().workers(2).threads_max(4).build().unwrap();
    let gate = Gate::default();
    let blocked = held(&system, &gate, 4);
    let other = system.spawn(Noter::default());
    (0..100_u64).for_each(|number| other.tell(number).unwrap());
    eventually("the lack of spares is counted", || {
        system.scheduler_snapshot().spares_exhausted > 0
    });
    let scheduler = system.scheduler_snapshot();
    assert_eq!((scheduler.threads, scheduler.threads_max), (4, 4));
    eventually("blocked workers are shown", || {
        let workers = system.workers_snapshot();
        workers.iter().all(|it| it.times.blocked_ns > 0)
    });
    assert_eq!(lane(&other, 0).handled, 0);
    gate.open();
    eventually("all is handled", || {
        lane(&other, 0).handled == 100 && blocked.iter().all(|it| lane(it, 0).handled == 1)
    });
    finish(&system);
}

/// Tells its neighbour, then waits for what that one does.
struct Asker {
    neighbour: ActorRef<Noter>,
    is_announced: bool,
}

struct Ask(mpsc::Sender<()>);

impl Actor for Asker {}

impl Handler<Ask> for Asker {
    type Reply = ();

    fn handle(&mut self, ask: Ask, cx: &mut Context<Self>) {
        let asking = self.neighbour.ask(Ping);
        if self.is_announced {
            cx.blocking(|| asking.wait().unwrap());
        } else {
            asking.wait().unwrap();
        }
        ask.0.send(()).unwrap();
    }
}

#[test]
fn what_waits_behind_a_blocked_handler_is_run_by_others() {
    for is_announced in [false, true] {
        // One worker: the neighbour waits in its next slot, behind the very handler that asks it.
        let system = System::builder().workers(1).build().unwrap();
        let neighbour = system.spawn(Noter::default());
        let asker = system.spawn(Asker {
            neighbour,
            is_announced,
        });
        for _ in 0..50 {
            let (sender, receiver) = mpsc::channel();
            asker.tell(Ask(sender)).unwrap();
            receiver.recv_timeout(LIMIT).unwrap();
        }
        let blocking_calls = system.scheduler_snapshot().blocking_calls;
        assert_eq!(blocking_calls, if is_announced { 50 } else { 0 });
        finish(&system);
    }
}

/// Announces a call that blocks for an instant.
struct Caller;

struct Call;

impl Actor for Caller {}

impl Handler<Call> for Caller {
    type Reply = ();

    fn handle(&mut self, _: Call, cx: &mut Context<Self>) {
        cx.blocking(std::thread::yield_now);
    }
}

#[test]
fn ten_thousand_blocking_calls_in_a_row_need_few_threads() {
    const CALLS: u64 = 10_000;
    for callers in [1, 10] {
        let system = system();
        let actors: Vec<_> = (0..callers).map(|_| system.spawn(Caller)).collect();
        for _ in 0..CALLS / callers {
            for actor in &actors {
                actor.tell(Call).unwrap();
            }
        }
        let handled = || -> u64 { actors.iter().map(|actor| lane(actor, 0).handled).sum() };
        eventually("all calls are made", || handled() == CALLS);
        let scheduler = system.scheduler_snapshot();
        assert_eq!(scheduler.blocking_calls, CALLS);
        // Some may be on their way back while the next call is announced.
        assert!(scheduler.threads < 64, "{scheduler:?}");
        finish(&system);
    }
}

#[test]
fn an_actor_stopped_while_it_blocks_ends_when_it_returns() {
    let system = system();
    let gate = Gate::default();
    let notes = Notes::default();
    let actor = system
        .spawn_once(
            SpawnOptions::new(),
            Noter {
                gate: gate.clone(),
                notes: notes.clone(),
            },
        )
        .unwrap();
    actor.tell(gate.clone()).unwrap();
    gate.wait_arrived(1);
    (0..10_u64).for_each(|number| actor.tell(number).unwrap());
    eventually("its place is given away", || {
        system.scheduler_snapshot().rescues > 0
    });
    actor.stop();
    let other = system.spawn(Noter::default());
    other.ask(Ping).wait().unwrap();
    gate.open();
    assert_eq!(ended(&actor).reason, EndReason::Stopped);
    let handled = notes.len() as u64;
    assert_eq!(handled + shed(&actor, "stopped"), 10);
    finish(&system);
}

#[test]
fn a_shutdown_names_the_actor_that_still_blocks() {
    let system = system();
    let gate = Gate::default();
    let blocked = held(&system, &gate, 1);
    let report = system.shutdown(std::time::Duration::from_millis(1));
    assert_eq!(report.unfinished.len(), 1);
    assert_eq!(report.unfinished[0].actor, blocked[0].id());
    assert_eq!(report.stuck_workers.len(), 1);
    gate.open();
}
