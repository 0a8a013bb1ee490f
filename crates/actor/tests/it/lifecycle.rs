//! The life cycle: hooks, ways to stop an actor, and children.

use crate::common::{
    Gate, Ledger, Noter, Notes, check_balance, ended, eventually, finish, lane, shed, soon, system,
};
use freeboard_actor::{Actor, ActorRef, Context, ExitReason, Handler, TellError};

/// Notes what happens to it.
struct Chronicler {
    name: &'static str,
    notes: Notes<String>,
    gate: Gate,
}

/// An order to a chronicler.
enum Do {
    Note(u64),
    Wait,
    StopNow,
    StopWhenDrained,
}

impl Chronicler {
    fn new(name: &'static str, notes: &Notes<String>) -> Self {
        Self {
            name,
            notes: notes.clone(),
            gate: Gate::default(),
        }
    }

    fn note(&self, what: &str) {
        self.notes.push(format!("{} {what}", self.name));
    }
}

impl Actor for Chronicler {
    fn started(&mut self, _cx: &mut Context<Self>) {
        self.note("started");
    }

    fn stopped(&mut self, _cx: &mut Context<Self>) {
        self.note("stopped");
    }
}

impl Drop for Chronicler {
    fn drop(&mut self) {
        self.note("dropped");
    }
}

impl Handler<Do> for Chronicler {
    type Reply = ();
    fn handle(&mut self, order: Do, cx: &mut Context<Self>) {
        match order {
            Do::Note(number) => self.note(&number.to_string()),
            Do::Wait => self.gate.pass(),
            Do::StopNow => cx.stop(),
            Do::StopWhenDrained => cx.stop_gracefully(),
        }
    }
}

struct TheGate;

impl Handler<TheGate> for Chronicler {
    type Reply = Gate;
    fn handle(&mut self, _the_gate: TheGate, _cx: &mut Context<Self>) -> Gate {
        self.gate.clone()
    }
}

struct SpawnChild(&'static str);

impl Handler<SpawnChild> for Chronicler {
    type Reply = ActorRef<Chronicler>;
    fn handle(&mut self, child: SpawnChild, cx: &mut Context<Self>) -> ActorRef<Chronicler> {
        cx.spawn(Self::new(child.0, &self.notes))
    }
}

#[test]
fn hooks_come_in_order() {
    let (system, notes) = (system(), Notes::default());
    let actor = system.spawn(Chronicler::new("a", &notes));
    actor.tell(Do::Note(1)).expect("alive");
    actor.tell(Do::Note(2)).expect("alive");
    actor.stop_gracefully();
    assert_eq!(ended(&actor).reason, ExitReason::Drained);
    let expected = ["a started", "a 1", "a 2", "a stopped", "a dropped"];
    assert_eq!(notes.all(), expected);
    finish(&system);
}

/// A chronicler at its gate with two orders behind it; the test gives further ones.
#[track_caller]
fn check_end(
    further: impl FnOnce(&ActorRef<Chronicler>),
    reason: ExitReason,
    handled: &[&str],
    stopped_count: u64,
) {
    let (system, notes) = (system(), Notes::default());
    let chronicler = Chronicler::new("a", &notes);
    let gate = chronicler.gate.clone();
    let actor = system.spawn(chronicler);
    actor.tell(Do::Wait).expect("alive");
    gate.wait_arrived(1);
    actor.tell(Do::Note(1)).expect("alive");
    further(&actor);
    let _ = actor.tell(Do::Note(2));
    gate.open();
    let end = ended(&actor);
    assert_eq!((end.reason, end.actor), (reason, actor.id()));
    assert!(!actor.is_alive());
    let expected: Vec<_> = ["a started"]
        .iter()
        .chain(handled)
        .chain(&["a stopped", "a dropped"])
        .map(ToString::to_string)
        .collect();
    assert_eq!(notes.all(), expected);
    assert!(matches!(
        actor.tell(Do::Note(3)),
        Err(TellError::Closed(Do::Note(3)))
    ));
    assert_eq!(shed(&actor, "stopped"), stopped_count);
    check_balance(&lane(&actor, 0));
    finish(&system);
}

#[test]
fn stop_sheds_what_is_queued() {
    check_end(ActorRef::stop, ExitReason::Stopped, &[], 2);
}

#[test]
fn stop_when_drained_handles_what_is_queued_and_takes_no_more() {
    check_end(ActorRef::stop_gracefully, ExitReason::Drained, &["a 1"], 0);
}

#[test]
fn an_actor_stops_itself_at_once() {
    let stop = |actor: &ActorRef<_>| actor.tell(Do::StopNow).expect("alive");
    check_end(stop, ExitReason::Stopped, &["a 1"], 1);
}

#[test]
fn an_actor_stops_itself_when_drained() {
    let stop = |actor: &ActorRef<_>| actor.tell(Do::StopWhenDrained).expect("alive");
    check_end(stop, ExitReason::Drained, &["a 1", "a 2"], 0);
}

#[test]
fn stop_overrules_draining() {
    let stop = |actor: &ActorRef<_>| {
        actor.stop_gracefully();
        actor.stop();
    };
    check_end(stop, ExitReason::Stopped, &[], 1);
}

#[test]
fn stopping_twice_ends_once() {
    let (system, notes) = (system(), Notes::default());
    for round in 0..200 {
        let actor = system.spawn(Chronicler::new("a", &notes));
        // Started, and each one before it has dropped and stopped.
        notes.wait_len(3 * round + 1);
        std::thread::scope(|scope| {
            scope.spawn(|| actor.stop());
            scope.spawn(|| actor.stop_gracefully());
        });
        ended(&actor);
    }
    let count = |what: &str| notes.all().iter().filter(|note| *note == what).count();
    assert_eq!(count("a stopped"), 200);
    assert_eq!(count("a dropped"), 200);
    finish(&system);
}

#[test]
fn children_end_before_their_parent() {
    let (system, notes) = (system(), Notes::default());
    let parent = system.spawn(Chronicler::new("parent", &notes));
    let child = parent.ask(SpawnChild("child")).wait().expect("a child");
    let grandchild = child
        .ask(SpawnChild("grandchild"))
        .wait()
        .expect("a grandchild");
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
    finish(&system);
}

#[test]
fn a_parent_waits_for_a_busy_child() {
    let (system, notes) = (system(), Notes::default());
    let parent = system.spawn(Chronicler::new("parent", &notes));
    let child = parent.ask(SpawnChild("child")).wait().expect("a child");
    let gate = child.ask(TheGate).wait().expect("its gate");
    child.tell(Do::Wait).expect("alive");
    gate.wait_arrived(1);
    parent.stop();
    eventually("the parent is closed", || parent.tell(Do::Note(1)).is_err());
    assert!(parent.is_alive(), "its child has not ended");
    assert!(!notes.all().contains(&"parent stopped".to_owned()));
    gate.open();
    ended(&parent);
    finish(&system);
}

#[test]
fn an_ended_child_is_forgotten() {
    let (system, notes) = (system(), Notes::default());
    let parent = system.spawn(Chronicler::new("parent", &notes));
    let child = parent.ask(SpawnChild("child")).wait().expect("a child");
    child.stop();
    ended(&child);
    let weak = child.downgrade();
    drop(child);
    eventually("its cell is freed", || weak.upgrade().is_none());
    assert!(parent.is_alive());
    finish(&system);
}

/// Spawns a child when it is over.
struct LateParent(Notes<String>, Notes<ActorRef<Chronicler>>);

impl Actor for LateParent {
    fn stopped(&mut self, cx: &mut Context<Self>) {
        self.1.push(cx.spawn(Chronicler::new("late", &self.0)));
    }
}

#[test]
fn a_child_spawned_in_stopped_ends_too() {
    let (system, children) = (system(), Notes::default());
    let parent = system.spawn(LateParent(Notes::default(), children.clone()));
    // Drained rather than stopped at once: it starts in any case.
    parent.stop_gracefully();
    ended(&parent);
    ended(&children.all()[0]);
    finish(&system);
}

#[test]
fn threads_wait_for_the_end() {
    let (system, ledger) = (system(), Ledger::default());
    let noter = system.spawn(Noter::default());
    noter.tell(ledger.token()).expect("alive");
    assert_eq!(noter.wait_ended_until(std::time::Instant::now()), None);
    let waiters: Vec<_> = (0..4)
        .map(|_| {
            let noter = noter.clone();
            std::thread::spawn(move || noter.join())
        })
        .collect();
    noter.stop_gracefully();
    for waiter in waiters {
        let end = waiter.join().expect("no panic");
        assert_eq!(end.reason, ExitReason::Drained);
    }
    assert_eq!(noter.join().actor, noter.id());
    assert!(noter.wait_ended_until(soon()).is_some());
    ledger.settle(1);
    finish(&system);
}
