//! The life cycle: hooks, ways to stop an actor, and children.

use crate::common::*;

/// Notes its start, its stop and its drop.
fn chronicler(name: &'static str, notes: &Notes<String>) -> Probe {
    let [started, stopped, dropped] = [(); 3].map(|()| notes.clone());
    Probe {
        on_started: Some(Box::new(move |_| started.push(format!("{name} started")))),
        on_stopped: Some(Box::new(move |_| stopped.push(format!("{name} stopped")))),
        on_drop: OnDrop::call(move || dropped.push(format!("{name} dropped"))),
        ..Probe::default()
    }
}

fn tell_note(actor: &ActorRef<Probe>, note: &'static str, notes: &Notes<String>) {
    let notes = notes.clone();
    let note = Act(Box::new(move |_| notes.push(note.to_owned())));
    // It may be closed.
    let _ = actor.tell(note);
}

fn spawn_child(
    parent: &ActorRef<Probe>,
    name: &'static str,
    notes: &Notes<String>,
) -> ActorRef<Probe> {
    let child = chronicler(name, notes);
    within(parent, move |cx| cx.spawn(child))
}

#[test]
fn an_actor_ends_in_each_way_with_its_hooks_in_order() {
    type End = fn(&ActorRef<Probe>);
    // The notes that are handled, and the messages that are shed.
    let ends: [(End, ExitReason, &[&str], u64); 5] = [
        (ActorRef::stop, ExitReason::Stopped, &[], 2),
        (ActorRef::stop_gracefully, ExitReason::Drained, &["a 1"], 0),
        (
            |actor| act(actor, |cx| cx.stop()),
            ExitReason::Stopped,
            &["a 1"],
            1,
        ),
        (
            |actor| act(actor, |cx| cx.stop_gracefully()),
            ExitReason::Drained,
            &["a 1", "a 2"],
            0,
        ),
        // Stop overrules draining.
        (
            |actor| {
                actor.stop_gracefully();
                actor.stop();
            },
            ExitReason::Stopped,
            &[],
            1,
        ),
    ];
    for (end, reason, handled, shed_count) in ends {
        let (system, notes) = (system(), Notes::default());
        let actor = system.spawn(chronicler("a", &notes));
        let gate = hold(&actor);
        tell_note(&actor, "a 1", &notes);
        end(&actor);
        tell_note(&actor, "a 2", &notes);
        gate.open();
        let ended = ended(&actor);
        assert_eq!((ended.reason, ended.actor), (reason, actor.id()));
        assert!(!actor.is_alive());
        let expected = ["a started"].iter().chain(handled);
        let expected: Vec<_> = expected.chain(&["a stopped", "a dropped"]).collect();
        assert_eq!(notes.all().iter().collect::<Vec<_>>(), expected);
        assert_eq!(actor.tell(3_u64), Err(TellError::Closed(3)));
        assert_eq!(shed(&actor, "stopped"), shed_count);
        check_balance(&lane(&actor, 0));
    }
}

#[test]
fn stopping_twice_ends_once() {
    let (system, notes) = (system(), Notes::default());
    for round in 0..200 {
        let actor = system.spawn(chronicler("a", &notes));
        // Started, and each one before it has dropped and stopped.
        notes.wait_len(3 * round + 1);
        thread::scope(|scope| {
            scope.spawn(|| actor.stop());
            scope.spawn(|| actor.stop_gracefully());
        });
        ended(&actor);
    }
    let count = |what: &str| notes.all().iter().filter(|note| *note == what).count();
    assert_eq!((count("a stopped"), count("a dropped")), (200, 200));
}

#[test]
fn children_end_before_their_parent() {
    let (system, notes) = (system(), Notes::default());
    let parent = system.spawn(chronicler("parent", &notes));
    let child = spawn_child(&parent, "child", &notes);
    let grandchild = spawn_child(&child, "grandchild", &notes);
    // An actor that is stopped before its first run never starts, and has nothing to stop.
    notes.wait_len(3);
    parent.stop();
    ended(&parent);
    assert!(!child.is_alive() && !grandchild.is_alive());
    let expected = [
        "parent started",
        "child started",
        "grandchild started",
        "grandchild stopped",
        "grandchild dropped",
        "child stopped",
        "child dropped",
        "parent stopped",
        "parent dropped",
    ];
    assert_eq!(notes.wait_len(expected.len()), expected);
}

#[test]
fn a_parent_waits_for_a_busy_child() {
    let (system, notes) = (system(), Notes::default());
    let parent = system.spawn(chronicler("parent", &notes));
    let gate = hold(&spawn_child(&parent, "child", &notes));
    parent.stop();
    eventually("the parent is closed", || parent.tell(1_u64).is_err());
    assert!(parent.is_alive(), "its child has not ended");
    assert!(!notes.all().contains(&"parent stopped".to_owned()));
    gate.open();
    ended(&parent);
}

#[test]
fn a_terminated_child_is_forgotten() {
    let system = system();
    let (parent, _) = probe(&system);
    let (child, _) = child_of(&parent, SpawnOptions::new());
    child.stop();
    ended(&child);
    let weak = child.downgrade();
    drop(child);
    eventually("its cell is freed", || weak.upgrade().is_none());
    assert!(parent.is_alive());
}

#[test]
fn a_child_spawned_in_stopped_ends_too() {
    let (system, children) = (system(), Notes::default());
    let known = children.clone();
    let parent = system.spawn(Probe {
        on_stopped: Some(Box::new(move |cx| known.push(cx.spawn(Probe::default())))),
        ..Probe::default()
    });
    // Drained rather than stopped at once: it starts in any case.
    parent.stop_gracefully();
    ended(&parent);
    ended(&children.all()[0]);
}

#[test]
fn threads_wait_for_the_end() {
    let (system, ledger) = (system(), Ledger::default());
    let (actor, _) = probe(&system);
    actor.tell(ledger.token()).expect("alive");
    assert_eq!(actor.wait_ended_until(Instant::now()), None);
    let waiters = [(); 4].map(|()| {
        let actor = actor.clone();
        thread::spawn(move || actor.join())
    });
    actor.stop_gracefully();
    for waiter in waiters {
        let end = waiter.join().expect("no panic");
        assert_eq!(end.reason, ExitReason::Drained);
    }
    assert_eq!(actor.join().actor, actor.id());
    assert!(actor.wait_ended_until(soon()).is_some());
    ledger.settle(1);
}
