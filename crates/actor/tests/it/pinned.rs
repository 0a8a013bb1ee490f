//! Actors on threads of their own: rings, priorities, wait strategies.

use std::{sync::mpsc, thread};

use crate::common::{Gate, LIMIT, Noter, Notes, Ping, ended, eventually, finish, lane, system};
use freeboard_actor::{
    Actor, ActorRef, Blocking, BusySpin, Context, Dispatcher, ExitReason, Handler, Idle,
    PINNED_BOUND_DEFAULT, Sleeping, SpawnError, SpawnOptions, Supervision, System, TellError,
    WaitStrategy, Yielding,
};
use freeboard_flow::LaneConfig;

fn pinned(wait: impl WaitStrategy) -> SpawnOptions {
    SpawnOptions::new().dispatcher(Dispatcher::pinned(wait))
}

fn spawn(system: &System, options: SpawnOptions) -> (ActorRef<Noter>, Notes<u64>) {
    let notes = Notes::default();
    let noter = Noter {
        gate: Gate::default(),
        notes: notes.clone(),
    };
    (system.spawn_once(options, noter).unwrap(), notes)
}

#[test]
fn every_strategy_handles_all_in_order() {
    let strategies = [
        Dispatcher::pinned(Blocking::default()),
        Dispatcher::pinned(Sleeping::default()),
        Dispatcher::pinned(Yielding::default()),
        Dispatcher::pinned(BusySpin),
    ];
    for dispatcher in strategies {
        let system = system();
        let options = SpawnOptions::new()
            .lane(LaneConfig::bounded(64))
            .dispatcher(dispatcher);
        let (actor, notes) = spawn(&system, options);
        let teller = actor.clone();
        let telling = thread::spawn(move || {
            (0..5_000).for_each(|number: u64| teller.tell_blocking(number).unwrap());
        });
        telling.join().unwrap();
        // After a pause in which the strategy may have parked.
        actor.ask(Ping).wait().unwrap();
        assert_eq!(notes.all(), (0..5_000).collect::<Vec<_>>());
        actor.tell(7_u64).unwrap();
        assert_eq!(*notes.wait_len(5_001).last().unwrap(), 7);
        finish(&system);
    }
}

#[test]
fn a_full_ring_refuses_and_gives_the_message_back() {
    let system = system();
    let (actor, notes) = spawn(&system, pinned(Blocking::default()));
    let gate = Gate::default();
    actor.tell(gate.clone()).unwrap();
    gate.wait_arrived(1);
    let mut accepted = 0_u64;
    let refused = loop {
        match actor.try_tell(accepted) {
            Ok(()) => accepted += 1,
            Err(TellError::Full(message)) => break message,
            Err(other) => panic!("{other:?}"),
        }
    };
    assert_eq!(refused, accepted);
    let bound = PINNED_BOUND_DEFAULT as u64;
    assert!((bound - 1..=bound).contains(&accepted), "{accepted}");
    let waiting = {
        let actor = actor.clone();
        thread::spawn(move || actor.tell_blocking(u64::MAX).unwrap())
    };
    gate.open();
    waiting.join().unwrap();
    assert_eq!(
        *notes.wait_len(accepted as usize + 1).last().unwrap(),
        u64::MAX
    );
    finish(&system);
}

#[test]
fn a_bound_that_is_no_power_of_two_is_kept_as_asked() {
    let system = system();
    let options = pinned(Blocking::default()).lane(LaneConfig::bounded(300));
    let (actor, _) = spawn(&system, options);
    let gate = Gate::default();
    actor.tell(gate.clone()).unwrap();
    gate.wait_arrived(1);
    let accepted = (0..1_000_u64).filter(|&it| actor.try_tell(it).is_ok());
    let accepted = accepted.count();
    assert!((299..=300).contains(&accepted), "{accepted}");
    gate.open();
    finish(&system);
}

/// Records its messages by lane: urgent ones are even.
struct Weigher {
    gate: Gate,
    order: Notes<u64>,
}

struct Wait;

impl Actor for Weigher {}

impl Handler<Wait> for Weigher {
    type Reply = ();

    fn handle(&mut self, _: Wait, _: &mut Context<Self>) {
        self.gate.pass();
    }
}

impl Handler<u64> for Weigher {
    type Reply = ();

    fn handle(&mut self, number: u64, _: &mut Context<Self>) {
        self.order.push(number);
    }
}

#[test]
fn priorities_are_drained_in_weighted_rounds() {
    let system = system();
    let (gate, order) = (Gate::default(), Notes::default());
    let lanes = [4, 1].map(|batch| LaneConfig::bounded(1_024).batch(batch));
    let options = pinned(Sleeping::default()).lanes(lanes);
    let weigher = Weigher {
        gate: gate.clone(),
        order: order.clone(),
    };
    let actor = system.spawn_once(options, weigher).unwrap();
    actor.tell(Wait).unwrap();
    gate.wait_arrived(1);
    for number in 0..40_u64 {
        let lane = number as usize % 2;
        actor.tell_blocking_lane(lane, number).unwrap();
    }
    gate.open();
    let order = order.wait_len(40);
    // The message that waited was the first of the urgent lane's batch.
    let urgent: Vec<bool> = order[..13].iter().map(|number| number % 2 == 0).collect();
    let round = [true, true, true, true, false];
    let wanted: Vec<bool> = round[1..]
        .iter()
        .chain(&round)
        .chain(&round)
        .copied()
        .collect();
    assert_eq!(urgent, wanted[..13]);
    for parity in 0..2 {
        let lane: Vec<_> = order.iter().filter(|&&it| it % 2 == parity).collect();
        assert!(lane.is_sorted(), "{lane:?}");
    }
    finish(&system);
}

#[derive(Debug)]
struct Panicky;

impl WaitStrategy for Panicky {
    fn idle(&self, looks: u32) -> Idle {
        assert!(looks < 10, "on purpose");
        Idle::Poll
    }
}

#[test]
fn a_strategy_that_panics_leaves_the_actor_at_work() {
    let system = system();
    let (actor, notes) = spawn(&system, pinned(Panicky));
    for number in 0..100_u64 {
        actor.ask(Ping).wait().unwrap();
        actor.tell(number).unwrap();
    }
    assert_eq!(notes.wait_len(100), (0..100).collect::<Vec<_>>());
    finish(&system);
}

#[test]
fn its_thread_ends_with_the_actor_or_the_system() {
    let system = system();
    let (stopped, _) = spawn(&system, pinned(BusySpin));
    stopped.stop();
    assert_eq!(ended(&stopped).reason, ExitReason::Stopped);
    let (_idle, _) = spawn(&system, pinned(Blocking::default()));
    let (_spinning, _) = spawn(&system, pinned(Yielding::default()));
    let report = system.shutdown(LIMIT);
    assert!(report.is_clean(), "{report:?}");
}

#[test]
fn a_restarted_actor_keeps_its_thread_and_its_messages() {
    struct Fragile(mpsc::Sender<u64>);
    impl Actor for Fragile {}
    impl Handler<u64> for Fragile {
        type Reply = ();
        fn handle(&mut self, number: u64, _: &mut Context<Self>) {
            assert!(number != 3, "on purpose");
            self.0.send(number).unwrap();
        }
    }
    let system = system();
    let (sender, receiver) = mpsc::channel();
    let options = pinned(Sleeping::default()).supervision(Supervision::restart());
    let actor = system
        .spawn_with(options, move || Fragile(sender.clone()))
        .unwrap();
    (0..6_u64).for_each(|number| actor.tell(number).unwrap());
    for wanted in [0, 1, 2, 4, 5] {
        assert_eq!(receiver.recv_timeout(LIMIT).unwrap(), wanted);
    }
    finish(&system);
}

#[test]
fn a_core_that_is_not_there_is_an_error() {
    let system = system();
    let dispatcher = Dispatcher::pinned(BusySpin).affinity(100_000);
    let options = SpawnOptions::new().dispatcher(dispatcher);
    match system.spawn_once(options, Noter::default()) {
        Err(SpawnError::Thread(text)) => assert!(text.contains("100000"), "{text}"),
        other => panic!("{other:?}"),
    }
    // Which cores there are is not for a test to say: the first that this process may use.
    let bound = |core| Dispatcher::pinned(Blocking::default()).affinity(core);
    let spawn = |core| {
        let options = SpawnOptions::new().dispatcher(bound(core));
        system.spawn_once(options, Noter::default()).ok()
    };
    let actor = (0..1_024).find_map(spawn).unwrap();
    actor.ask(Ping).wait().unwrap();
    finish(&system);
}

#[test]
fn pinned_and_shared_actors_tell_each_other_in_a_circle() {
    struct Hop {
        next: Option<ActorRef<Hop>>,
        done: mpsc::Sender<()>,
    }
    struct Join(ActorRef<Hop>);
    impl Actor for Hop {}
    impl Handler<Join> for Hop {
        type Reply = ();
        fn handle(&mut self, join: Join, _: &mut Context<Self>) {
            self.next = Some(join.0);
        }
    }
    impl Handler<u64> for Hop {
        type Reply = ();
        fn handle(&mut self, left: u64, _: &mut Context<Self>) {
            match left {
                0 => self.done.send(()).unwrap(),
                left => self.next.as_ref().unwrap().tell(left - 1).unwrap(),
            }
        }
    }
    let system = system();
    let (done, is_done) = mpsc::channel();
    let hop = |options| {
        let hop = Hop {
            next: None,
            done: done.clone(),
        };
        system.spawn_once(options, hop).unwrap()
    };
    let pinned = hop(pinned(Blocking::default()));
    let shared = hop(SpawnOptions::new());
    pinned.tell(Join(shared.clone())).unwrap();
    shared.tell(Join(pinned.clone())).unwrap();
    pinned.tell(2_000_u64).unwrap();
    is_done.recv_timeout(LIMIT).unwrap();
    eventually("both rest", || {
        lane(&pinned, 0).depth == 0 && lane(&shared, 0).depth == 0
    });
    for actor in [pinned, shared] {
        actor.stop();
        ended(&actor);
    }
    finish(&system);
}

#[test]
fn a_bound_that_no_ring_can_have_is_an_error_and_leaves_the_name_free() {
    let system = system();
    for bound in [(1 << 30) + 1, usize::MAX] {
        let lanes = [LaneConfig::bounded(8), LaneConfig::bounded(bound)];
        let options = pinned(Blocking::default()).name("large").lanes(lanes);
        let refused = system.spawn_once(options, Noter::default());
        assert!(
            matches!(refused, Err(SpawnError::Options(_))),
            "{refused:?}"
        );
        assert_eq!(system.whereis::<Noter>("large"), None);
    }
    let options = pinned(Blocking::default()).name("large");
    let (actor, _) = spawn(&system, options);
    assert_eq!(system.whereis::<Noter>("large"), Some(actor.clone()));
    actor.ask(Ping).wait().unwrap();
    finish(&system);
}
