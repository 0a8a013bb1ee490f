//! Actors on threads of their own: rings and wait strategies. `lanes.rs` and `pausing.rs` have their lanes.

use crate::common::*;

fn pinned(wait: impl WaitStrategy) -> SpawnOptions {
    SpawnOptions::new().dispatcher(Dispatcher::pinned(wait))
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
        let (actor, notes) = probe_with(&system, options);
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
    }
}

#[test]
fn a_full_ring_refuses_and_gives_the_message_back() {
    let system = system();
    let (actor, gate, notes) = held(&system, pinned(Blocking::default()));
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
}

#[test]
fn a_bound_that_is_no_power_of_two_is_kept_as_asked() {
    let system = system();
    let options = pinned(Blocking::default()).lane(LaneConfig::bounded(300));
    let (actor, gate, _) = held(&system, options);
    let accepted = (0..1_000_u64).filter(|&it| actor.try_tell(it).is_ok());
    let accepted = accepted.count();
    assert!((299..=300).contains(&accepted), "{accepted}");
    gate.open();
}

#[derive(Debug)]
struct Panicky;

impl WaitStrategy for Panicky {
    fn idle(&self, polls: u32) -> Idle {
        assert!(polls < 10, "on purpose");
        Idle::Poll
    }
}

#[test]
fn a_strategy_that_panics_leaves_the_actor_at_work() {
    let system = system();
    let (actor, notes) = probe_with(&system, pinned(Panicky));
    for number in 0..100_u64 {
        actor.ask(Ping).wait().unwrap();
        actor.tell(number).unwrap();
    }
    assert_eq!(notes.wait_len(100), (0..100).collect::<Vec<_>>());
}

#[test]
fn its_thread_ends_with_the_actor_or_the_system() {
    let system = system();
    let (stopped, _) = probe_with(&system, pinned(BusySpin));
    stopped.stop();
    assert_eq!(ended(&stopped).reason, ExitReason::Stopped);
    let (_idle, _) = probe_with(&system, pinned(Blocking::default()));
    let (_spinning, _) = probe_with(&system, pinned(Yielding::default()));
    let report = system.shutdown(LIMIT);
    assert!(report.is_clean(), "{report:?}");
}

#[test]
fn a_restarted_actor_keeps_its_thread_and_its_messages() {
    let system = system();
    let options = pinned(Sleeping::default()).supervision(Supervision::restart());
    let (actor, notes) = probe_with(&system, options);
    tell_all(&actor, 0..3);
    act(&actor, |_| panic!("on purpose"));
    tell_all(&actor, 3..6);
    assert!(notes.wait_len(6).into_iter().eq(0..6));
}

#[test]
fn a_core_that_is_not_there_is_an_error() {
    let system = system();
    let dispatcher = Dispatcher::pinned(BusySpin).affinity(100_000);
    let options = SpawnOptions::new().dispatcher(dispatcher);
    match system.spawn_once(options, Probe::default()) {
        Err(SpawnError::Thread(text)) => assert!(text.contains("100000"), "{text}"),
        other => panic!("{other:?}"),
    }
    // Which cores there are is not for a test to say: the first that this process may use.
    let bound = |core| Dispatcher::pinned(Blocking::default()).affinity(core);
    let spawn = |core| {
        let options = SpawnOptions::new().dispatcher(bound(core));
        system.spawn_once(options, Probe::default()).ok()
    };
    let actor = (0..1_024).find_map(spawn).unwrap();
    actor.ask(Ping).wait().unwrap();
}

/// Passes a message to and fro.
fn hop(at: &ActorRef<Probe>, next: ActorRef<Probe>, left: u64, done: Notes<()>) {
    let here = at.clone();
    act(at, move |_| match left {
        0 => done.push(()),
        _ => hop(&next, here, left - 1, done),
    });
}

#[test]
fn pinned_and_shared_actors_tell_each_other_in_a_circle() {
    let system = system();
    let (pinned, _) = probe_with(&system, pinned(Blocking::default()));
    let (shared, done) = (probe(&system).0, Notes::default());
    hop(&pinned, shared.clone(), 2_000, done.clone());
    done.wait_len(1);
    eventually("both rest", || {
        lane(&pinned, 0).depth == 0 && lane(&shared, 0).depth == 0
    });
    for actor in [pinned, shared] {
        actor.stop();
        ended(&actor);
    }
}

#[test]
fn a_bound_that_no_ring_can_have_is_an_error_and_leaves_the_name_free() {
    let system = system();
    for bound in [(1 << 30) + 1, usize::MAX] {
        let lanes = [LaneConfig::bounded(8), LaneConfig::bounded(bound)];
        let options = pinned(Blocking::default()).name("large").lanes(lanes);
        let refused = system.spawn_once(options, Probe::default());
        assert!(
            matches!(refused, Err(SpawnError::Options(_))),
            "{refused:?}"
        );
        assert_eq!(system.whereis::<Probe>("large"), None);
    }
    let options = pinned(Blocking::default()).name("large");
    let (actor, _) = probe_with(&system, options);
    assert_eq!(system.whereis::<Probe>("large"), Some(actor.clone()));
    actor.ask(Ping).wait().unwrap();
}
