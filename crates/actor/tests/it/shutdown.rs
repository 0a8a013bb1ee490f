//! Shutting a system down: in order, with a deadline, and with a report of unfinished actors.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::common::{
    Gate, Hold, LIMIT, Ledger, Noter, Notes, Puppet, Token, act, ended, eventually, finish, lane,
    system, system_of,
};
use freeboard_actor::{
    Actor, ActorRef, AskError, Context, ExitReason, Handler, SpawnError, SpawnOptions,
};
use freeboard_flow::LaneConfig;

/// Records the order of terminations.
struct Member(
    u64,
    Notes<u64>,
    #[expect(dead_code, reason = "only dropped")] Token,
);

impl Actor for Member {
    fn stopped(&mut self, _cx: &mut Context<Self>) {
        self.1.push(self.0);
    }
}

impl Handler<Hold> for Member {
    type Reply = ();
    fn handle(&mut self, _hold: Hold, _cx: &mut Context<Self>) {}
}

#[test]
fn the_last_spawned_ends_first() {
    let (system, notes, ledger) = (system(), Notes::default(), Ledger::default());
    for number in 0..1_000 {
        system.spawn(Member(number, notes.clone(), ledger.token()));
    }
    finish(&system);
    assert!(notes.all().into_iter().eq((0..1_000).rev()));
    ledger.settle(1_000);
    let snapshot = system.snapshot();
    assert_eq!(snapshot.actors_ended, 1_000);
    assert_eq!(snapshot.actors_alive, 0);
}

#[test]
fn what_is_queued_is_handled_first() {
    let system = system();
    let noter = Noter::default();
    let (gate, notes) = (noter.gate.clone(), noter.notes.clone());
    let noter = system.spawn(noter);
    noter.tell(Hold).expect("alive");
    for number in 0..10_000_u64 {
        noter.tell(number).expect("alive");
    }
    gate.open();
    finish(&system);
    assert!(notes.all().into_iter().eq(0..10_000));
    assert_eq!(ended(&noter).reason, ExitReason::Drained);
}

/// Gives each message to its child.
struct Parent(ActorRef<Noter>);

impl Actor for Parent {}

impl Handler<u64> for Parent {
    type Reply = ();
    fn handle(&mut self, number: u64, _cx: &mut Context<Self>) {
        self.0.tell(number).expect("alive");
    }
}

struct Root(Gate, Notes<u64>);

impl Actor for Root {
    fn started(&mut self, cx: &mut Context<Self>) {
        let noter = cx.spawn(Noter {
            gate: self.0.clone(),
            notes: self.1.clone(),
        });
        noter.tell(Hold).expect("alive");
        for number in 0..1_000_u64 {
            noter.tell(number).expect("alive");
        }
    }
}

#[test]
fn a_clean_shutdown_handles_what_children_have_queued() {
    let (system, gate, notes) = (system(), Gate::default(), Notes::default());
    system.spawn(Root(gate.clone(), notes.clone()));
    gate.wait_arrived(1);
    let shutting = system.clone();
    let report = thread::spawn(move || shutting.shutdown(LIMIT));
    eventually("the root is closed", || {
        system
            .snapshot()
            .actors
            .first()
            .is_none_or(|root| root.state == "suspended")
    });
    gate.open();
    let report = report.join().expect("no panic");
    assert!(report.is_clean(), "{report:?}");
    let stopped = crate::common::count_of(&system.dead_letters(), "stopped");
    assert_eq!((notes.len(), stopped), (1_000, 0));
}

#[test]
fn senders_drain_before_their_receivers() {
    let system = system();
    let noter = Noter::default();
    let notes = noter.notes.clone();
    let noter = system.spawn(noter);
    let parent = system.spawn(Parent(noter));
    for number in 0..10_000 {
        parent.tell(number).expect("alive");
    }
    finish(&system);
    assert_eq!(notes.len(), 10_000);
}

#[test]
fn an_actor_stuck_in_a_handler_is_reported() {
    let (system, ledger) = (system(), Ledger::default());
    let gate = Gate::default();
    let made = gate.clone();
    let stuck = system
        .spawn_with(SpawnOptions::new().name("stuck"), move || Noter {
            gate: made.clone(),
            ..Noter::default()
        })
        .expect("free");
    stuck.tell(Hold).expect("alive");
    gate.wait_arrived(1);
    for _ in 0..3 {
        stuck.tell(ledger.token()).expect("alive");
    }
    let asked = stuck.clone();
    let asker = thread::spawn(move || asked.ask(crate::common::Ping).wait());
    eventually("the question is queued", || lane(&stuck, 0).accepted == 5);
    let report = system.shutdown(Duration::from_millis(20));
    assert!(!report.is_clean());
    assert_eq!(report.stopped_at_deadline, 1);
    // On a busy machine one that is idle may be as late.
    assert!(!report.stuck_workers.is_empty(), "{report:?}");
    let [unfinished] = &report.unfinished[..] else {
        panic!("{report:?}");
    };
    assert_eq!(unfinished.actor, stuck.id());
    assert_eq!(unfinished.name.as_deref(), Some("stuck"));
    assert_eq!(unfinished.state, "running");
    assert!((4..=5).contains(&unfinished.queued), "{report:?}");
    gate.open();
    assert_eq!(ended(&stuck).reason, ExitReason::Stopped);
    ledger.settle(3);
    let reply = asker.join().expect("no panic");
    assert!(matches!(reply, Err(AskError::Shed)), "{reply:?}");
}

#[test]
fn a_slow_actor_is_stopped_at_the_deadline() {
    let system = system();
    let noter = Noter::default();
    let (gate, notes) = (noter.gate.clone(), noter.notes.clone());
    let noter = system.spawn(noter);
    noter.tell(Hold).expect("alive");
    gate.wait_arrived(1);
    for number in 0..10_u64 {
        noter.tell(number).expect("alive");
    }
    let shutting = system.clone();
    let started = Instant::now();
    let report = thread::spawn(move || shutting.shutdown(Duration::from_millis(20)));
    eventually("the deadline", || {
        started.elapsed() > Duration::from_millis(30)
    });
    gate.open();
    let report = report.join().expect("no panic");
    assert_eq!(ended(&noter).actor, noter.id());
    // Either the deadline's stop came in time to shed them, or the drain was quicker than it.
    let stopped = crate::common::shed(&noter, "stopped");
    assert!(
        report.stopped_at_deadline == 1 || stopped == 0,
        "{report:?}"
    );
    assert_eq!(notes.len() as u64 + stopped, 10);
}

#[test]
fn nothing_is_spawned_during_and_after_shutdown() {
    let (system, ledger) = (system(), Ledger::default());
    finish(&system);
    let late = system.spawn(Member(1, Notes::default(), ledger.token()));
    assert!(late.tell(Hold).is_err());
    assert!(matches!(late.ask(Hold).wait(), Err(AskError::Closed(_))));
    let spawned = system.spawn_with(SpawnOptions::new(), Noter::default);
    assert!(matches!(spawned, Err(SpawnError::ShuttingDown)));
    ended(&late);
    ledger.settle(1);
    assert_eq!(system.actors_alive(), 0);
}

/// Spawns another of its kind when it stops.
struct Hydra(u64);

impl Actor for Hydra {
    fn stopped(&mut self, cx: &mut Context<Self>) {
        if self.0 > 0 {
            cx.system().spawn(Self(self.0 - 1));
        }
    }
}

#[test]
fn actors_spawned_during_shutdown_end_with_it() {
    let system = system();
    for _ in 0..20 {
        system.spawn(Hydra(3));
    }
    let report = system.shutdown(LIMIT);
    assert!(report.unfinished.is_empty(), "{report:?}");
    assert_eq!(system.actors_alive(), 0);
}

#[test]
fn shutting_down_twice_is_harmless() {
    let system = system();
    for _ in 0..100 {
        system.spawn(Noter::default());
    }
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let system = system.clone();
            thread::spawn(move || system.shutdown(LIMIT))
        })
        .collect();
    for thread in threads {
        let report = thread.join().expect("no panic");
        assert!(report.unfinished.is_empty(), "{report:?}");
    }
    finish(&system);
}

#[test]
fn shutdown_races_with_senders_and_loses_nothing() {
    for _ in 0..20 {
        let system = system_of(2);
        let notes = Notes::<u64>::default();
        let noter = || Noter {
            notes: notes.clone(),
            ..Noter::default()
        };
        let noters: Vec<_> = (0..10).map(|_| system.spawn(noter())).collect();
        let told: u64 = thread::scope(|scope| {
            let tellers: Vec<_> = noters
                .iter()
                .map(|noter| {
                    scope.spawn(|| {
                        (0..100_000)
                            .take_while(|it| noter.tell(*it).is_ok())
                            .count()
                    })
                })
                .collect();
            eventually("messages come", || lane(&noters[9], 0).handled > 10);
            finish(&system);
            let counts = tellers.into_iter().map(|it| it.join().expect("no panic"));
            counts.map(|count| count as u64).sum()
        });
        let handled: u64 = noters.iter().map(|noter| lane(noter, 0).handled).sum();
        let lanes = || {
            noters
                .iter()
                .map(|noter| lane(noter, 0))
                .collect::<Vec<_>>()
        };
        assert_eq!(told, notes.len() as u64, "{:?}", lanes());
        assert_eq!(told, handled, "{:?}", lanes());
    }
}

const TOLD: u64 = 10;

/// Forwards its messages to another actor, once its gate is open.
struct Relay {
    to: ActorRef<Noter>,
    gate: Gate,
}

impl Actor for Relay {}

impl Handler<u64> for Relay {
    type Reply = ();
    fn handle(&mut self, number: u64, _: &mut Context<Self>) {
        self.gate.pass();
        self.to.tell(number).expect("it is ended after this one");
    }
}

#[test]
fn what_a_slow_receiver_sends_to_is_ended_after_it() {
    let system = system();
    let last = Noter::default();
    let notes = last.notes.clone();
    let last = system.spawn(last);
    let gate = Gate::default();
    let (to, passed) = (last.clone(), gate.clone());
    let options = SpawnOptions::new().lane(LaneConfig::bounded(2));
    let relay = system
        .spawn_once(options, Relay { to, gate: passed })
        .expect("no name");
    let watcher = system.spawn(Puppet::default());
    let sender = system.spawn(Puppet::default());
    act(&sender, move |_| {
        (0..TOLD).for_each(|number| relay.tell(number).expect("accepted"))
    });
    gate.wait_arrived(1);
    eventually("it is muted", || sender.snapshot().state == "suspended");
    let shutting = system.clone();
    let report = thread::spawn(move || shutting.shutdown(Duration::from_secs(8)));
    ended(&watcher);
    gate.open();
    let report = report.join().expect("no panic");
    assert!(report.is_clean(), "{report:?}");
    assert!(notes.all().into_iter().eq(0..TOLD));
}

#[test]
fn a_receiver_is_left_open_to_a_sender_that_waits_for_another_one() {
    let system = system();
    let [first, second] = [Noter::default(), Noter::default()];
    let notes = [first.notes.clone(), second.notes.clone()];
    let gate = first.gate.clone();
    let options = || SpawnOptions::new().lane(LaneConfig::bounded(2));
    let [first, second] = [first, second].map(|noter| {
        let noter = system.spawn_once(options(), noter);
        noter.expect("no name")
    });
    let second_gate = Gate::default();
    let held = second_gate.clone();
    let options = SpawnOptions::new().lane(LaneConfig::bounded(2));
    let to = second.clone();
    let relay = system.spawn_once(options, Relay { to, gate: held });
    let relay = relay.expect("no name");
    let watcher = system.spawn(Puppet::default());
    let sender = system.spawn(Puppet::default());
    first.tell(Hold).expect("alive");
    gate.wait_arrived(1);
    act(&sender, move |_| {
        for number in 0..TOLD {
            first.tell(number).expect("accepted");
            relay.tell(number).expect("accepted");
        }
    });
    eventually("it is muted", || sender.snapshot().state == "suspended");
    let shutting = system.clone();
    let report = thread::spawn(move || shutting.shutdown(Duration::from_secs(8)));
    ended(&watcher);
    // The relay goes on, and still nobody lets the sender in.
    second_gate.open();
    eventually("the relay handles", || notes[1].len() > 0);
    gate.open();
    let report = report.join().expect("no panic");
    assert!(report.is_clean(), "{report:?}");
    for notes in notes {
        assert!(notes.all().into_iter().eq(0..TOLD));
    }
}

#[test]
fn a_stalled_child_is_left_open_to_a_muted_sender() {
    let system = system();
    let gate = Gate::default();
    let child = Noter {
        gate: gate.clone(),
        ..Noter::default()
    };
    let notes = child.notes.clone();
    let parent = system.spawn(Puppet::default());
    let (tell, child_is) = std::sync::mpsc::channel();
    let options = SpawnOptions::new().lane(LaneConfig::bounded(2));
    act(&parent, move |cx| {
        let child = cx.spawn_once(options, child).expect("no name");
        child.tell(Hold).expect("alive");
        tell.send(child).expect("the test waits");
    });
    let child = child_is.recv().expect("it was spawned");
    gate.wait_arrived(1);
    let watcher = system.spawn(Puppet::default());
    let sender = system.spawn(Puppet::default());
    act(&sender, move |_| {
        (0..TOLD).for_each(|number| child.tell(number).expect("accepted"))
    });
    eventually("it is muted", || sender.snapshot().state == "suspended");
    let shutting = system.clone();
    let report = thread::spawn(move || shutting.shutdown(Duration::from_secs(4)));
    ended(&watcher);
    gate.open();
    let report = report.join().expect("no panic");
    assert!(report.is_clean(), "{report:?}");
    assert!(notes.all().into_iter().eq(0..TOLD));
}
