//! Shutting a system down: in order, with a deadline, and with a report. `delivery.rs` has the messages in outboxes.

use crate::common::*;

const TOLD: u64 = 10;

#[test]
fn the_last_spawned_ends_first() {
    let (system, notes, ledger) = (system(), Notes::default(), Ledger::default());
    for number in 0..1_000 {
        let (notes, token) = (notes.clone(), ledger.token());
        system.spawn(Probe {
            on_stopped: Some(Box::new(move |_| notes.push(number))),
            on_drop: OnDrop::call(move || drop(token)),
            ..Probe::default()
        });
    }
    finish(&system);
    assert!(notes.all().into_iter().eq((0..1_000).rev()));
    ledger.settle(1_000);
    let snapshot = system.snapshot();
    assert_eq!((snapshot.actors_ended, snapshot.actors_alive), (1_000, 0));
}

#[test]
fn queued_messages_are_handled_first() {
    let system = system();
    let (actor, gate, notes) = held(&system, SpawnOptions::new());
    tell_all(&actor, 0..10_000);
    gate.open();
    finish(&system);
    assert!(notes.all().into_iter().eq(0..10_000));
    assert_eq!(ended(&actor).reason, ExitReason::Drained);
}

#[test]
fn queued_messages_of_children_are_handled_first() {
    let system = system();
    let (root, _) = probe(&system);
    let (child, notes) = child_of(&root, SpawnOptions::new());
    let gate = hold(&child);
    tell_all(&child, 0..1_000);
    let report = shut_down(&system, LIMIT);
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
    let stopped = count_of(&system.dead_letters(), "stopped");
    assert_eq!((notes.len(), stopped), (1_000, 0));
}

/// Passes its gate, then forwards the number.
struct Relay(Gate, ActorRef<Probe>);

impl Actor for Relay {}

impl Handler<u64> for Relay {
    type Reply = ();
    fn handle(&mut self, number: u64, _: &mut Context<Self>) {
        self.0.pass();
        self.1.tell(number).expect("it is ended after this one");
    }
}

#[test]
fn senders_drain_before_their_receivers() {
    let system = system();
    let (actor, notes) = probe(&system);
    let open = Gate::default();
    open.open();
    let relay = system.spawn(Relay(open, actor));
    tell_all(&relay, 0..10_000);
    finish(&system);
    assert_eq!(notes.len(), 10_000);
}

#[test]
fn an_actor_stuck_in_a_handler_is_reported() {
    let (system, ledger) = (system(), Ledger::default());
    let (stuck, gate, _) = held(&system, SpawnOptions::new().name("stuck"));
    for _ in 0..3 {
        stuck.tell(ledger.token()).expect("alive");
    }
    let asked = stuck.clone();
    let asker = thread::spawn(move || asked.ask(Ping).wait());
    eventually("the ask is queued", || lane(&stuck, 0).accepted == 5);
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
    let (actor, gate, notes) = held(&system, SpawnOptions::new());
    tell_all(&actor, 0..10);
    let started = Instant::now();
    let report = shut_down(&system, Duration::from_millis(20));
    eventually("the deadline", || {
        started.elapsed() > Duration::from_millis(30)
    });
    gate.open();
    let report = report.join().expect("no panic");
    assert_eq!(ended(&actor).actor, actor.id());
    // Either the deadline's stop came in time to shed them, or the drain was quicker than it.
    let stopped = shed(&actor, "stopped");
    assert!(
        report.stopped_at_deadline == 1 || stopped == 0,
        "{report:?}"
    );
    assert_eq!(notes.len() as u64 + stopped, 10);
}

#[test]
fn a_slow_actor_that_makes_progress_is_waited_for() {
    let system = system();
    let (receiver, gate, notes) = held(&system, SpawnOptions::new());
    let (sender, passed) = (probe(&system).0, Gate::default());
    let (to, at) = (receiver.clone(), passed.clone());
    act(&sender, move |_| {
        at.pass();
        to.tell(7_u64).expect("it is waited for");
    });
    passed.wait_arrived(1);
    let report = shut_down(&system, LIMIT);
    eventually("the sender is closed", || sender.try_tell(1_u64).is_err());
    passed.open();
    gate.open();
    let report = report.join().expect("no panic");
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(notes.all(), [7]);
}

#[test]
fn nothing_is_spawned_during_and_after_a_shutdown() {
    let (system, ledger) = (system(), Ledger::default());
    finish(&system);
    let token = ledger.token();
    let late = system.spawn(Probe {
        on_drop: OnDrop::call(move || drop(token)),
        ..Probe::default()
    });
    assert!(late.tell(Ping).is_err());
    assert!(matches!(late.ask(Ping).wait(), Err(AskError::Closed(_))));
    let spawned = system.spawn_with(SpawnOptions::new(), Probe::default);
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
fn actors_spawned_during_a_shutdown_end_with_it() {
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
        probe(&system);
    }
    for shutting in [(); 2].map(|()| shut_down(&system, LIMIT)) {
        let report = shutting.join().expect("no panic");
        assert!(report.unfinished.is_empty(), "{report:?}");
    }
    finish(&system);
}

#[test]
fn a_shutdown_races_with_senders_and_loses_nothing() {
    for _ in 0..20 {
        let system = system();
        let actors: Vec<_> = (0..10).map(|_| probe(&system)).collect();
        let told: u64 = thread::scope(|scope| {
            let tell = |actor: &ActorRef<Probe>| {
                let told = (0..100_000).take_while(|it| actor.tell(*it).is_ok());
                told.count() as u64
            };
            let tellers: Vec<_> = actors
                .iter()
                .map(|(actor, _)| scope.spawn(move || tell(actor)))
                .collect();
            eventually("messages come", || lane(&actors[9].0, 0).handled > 10);
            finish(&system);
            let counts = tellers.into_iter().map(|it| it.join().expect("no panic"));
            counts.sum()
        });
        let lanes: Vec<_> = actors.iter().map(|(actor, _)| lane(actor, 0)).collect();
        let noted: u64 = actors.iter().map(|(_, notes)| notes.len() as u64).sum();
        let handled: u64 = lanes.iter().map(|lane| lane.handled).sum();
        assert_eq!((told, told), (noted, handled), "{lanes:?}");
    }
}

/// A sender that is muted for a stalled actor, and a watcher that the shutdown ends meanwhile.
#[track_caller]
fn check_left_open(
    system: &System,
    tell: impl FnOnce() + Send + 'static,
    open: impl FnOnce(),
    notes: &[Notes<u64>],
) {
    let (watcher, sender) = (probe(system).0, probe(system).0);
    act(&sender, move |_| tell());
    suspended(&sender);
    let report = shut_down(system, Duration::from_secs(8));
    ended(&watcher);
    open();
    let report = report.join().expect("no panic");
    assert!(report.is_clean(), "{report:?}");
    for notes in notes {
        assert!(notes.all().into_iter().eq(0..TOLD));
    }
}

fn relay(system: &System, to: &ActorRef<Probe>) -> (ActorRef<Relay>, Gate) {
    let gate = Gate::default();
    let relay = system.spawn_once(bounded(2), Relay(gate.clone(), to.clone()));
    (relay.expect("valid options"), gate)
}

#[test]
fn an_actor_is_left_open_to_a_slow_one_that_sends_to_it() {
    let system = system();
    let (last, notes) = probe(&system);
    let (relay, gate) = relay(&system, &last);
    let tell = move || (0..TOLD).for_each(|number| relay.tell(number).expect("accepted"));
    let arrived = gate.clone();
    let open = move || {
        arrived.wait_arrived(1);
        arrived.open();
    };
    check_left_open(&system, tell, open, &[notes]);
}

#[test]
fn a_receiver_is_left_open_to_a_sender_that_waits_for_another_one() {
    let system = system();
    let (second, second_notes) = probe_with(&system, bounded(2));
    let (relay, second_gate) = relay(&system, &second);
    let (first, gate, notes) = held(&system, bounded(2));
    let tell = move || {
        for number in 0..TOLD {
            first.tell(number).expect("accepted");
            relay.tell(number).expect("accepted");
        }
    };
    let relayed = second_notes.clone();
    let open = move || {
        // The relay goes on, and still nobody lets the sender in.
        second_gate.open();
        eventually("the relay handles", || relayed.len() > 0);
        gate.open();
    };
    check_left_open(&system, tell, open, &[notes, second_notes]);
}

#[test]
fn a_stalled_child_is_left_open_to_a_muted_sender() {
    let system = system();
    let (parent, _) = probe(&system);
    let (child, notes) = child_of(&parent, bounded(2));
    let gate = hold(&child);
    let tell = move || tell_all(&child, 0..TOLD);
    check_left_open(&system, tell, || gate.open(), &[notes]);
}

/// Tells itself the next number for each one.
struct Ticker;

impl Actor for Ticker {}

impl Handler<u64> for Ticker {
    type Reply = ();
    fn handle(&mut self, number: u64, cx: &mut Context<Self>) {
        cx.actor_ref().tell(number + 1).unwrap();
    }
}

#[test]
fn actors_that_tell_themselves_do_not_panic_at_shutdown() {
    // With capacity, and each through its full lane.
    for options in [SpawnOptions::new(), bounded(1)] {
        const TICKERS: u64 = 50;
        let system = system();
        let spawn = |_| {
            system
                .spawn_once(options.clone(), Ticker)
                .expect("valid options")
        };
        let tickers: Vec<_> = (0..TICKERS).map(spawn).collect();
        for ticker in &tickers {
            ticker.tell(0).expect("alive");
        }
        eventually("all tick", || {
            tickers.iter().all(|ticker| lane(ticker, 0).handled > 2)
        });
        let report = system.shutdown(LIMIT);
        assert!(report.is_clean(), "{report:?}");
        assert_eq!((report.panics, report.failures.len()), (0, 0), "{report:?}");
        let dead = system.dead_letters();
        // The last tick of each.
        assert_eq!(count_of(&dead, "stopped"), TICKERS, "{dead:?}");
        for ticker in tickers {
            assert_eq!(ended(&ticker).reason, ExitReason::Drained);
        }
    }
}

#[test]
fn others_get_their_message_back_from_an_actor_that_stops() {
    let system = system();
    let (closing, gate, _) = held(&system, SpawnOptions::new());
    closing.stop_gracefully();
    let told = within(&probe(&system).0, move |_| closing.tell(1_u64));
    assert_eq!(told, Err(TellError::Closed(1)));
    gate.open();
}

#[test]
fn panics_during_a_shutdown_are_in_its_report() {
    let system = system();
    let (early, _) = probe(&system);
    act(&early, |_| panic!("before the shutdown"));
    ended(&early);
    for number in 0..20 {
        system.spawn(Probe {
            on_stopped: Some(Box::new(move |_| panic!("in stopped {number}"))),
            ..Probe::default()
        });
    }
    let report = system.shutdown(LIMIT);
    assert_eq!(
        (report.panics, report.actors_failed),
        (20, 20),
        "{report:?}"
    );
    assert!(!report.is_clean());
    assert_eq!(report.failures.len(), 16, "the first of them");
    for failure in &report.failures {
        assert!(failure.reason.starts_with("in stopped"), "{failure:?}");
    }
}

#[test]
fn a_restart_during_a_shutdown_is_a_panic_and_no_failed_actor() {
    let system = system();
    let options = SpawnOptions::new().supervision(at_once());
    let (actor, _) = probe_with(&system, options);
    let gate = Gate::default();
    let passed = gate.clone();
    act(&actor, move |_| {
        passed.pass();
        panic!("on purpose");
    });
    actor.tell(1_u64).expect("alive");
    gate.wait_arrived(1);
    let report = shut_down(&system, LIMIT);
    eventually("it is closed", || actor.try_tell(2_u64).is_err());
    gate.open();
    let report = report.join().expect("no panic");
    assert_eq!((report.panics, report.actors_failed), (1, 0), "{report:?}");
    assert!(report.is_clean(), "{report:?}");
    assert!(
        lane(&actor, 0).handled > 0,
        "its life after that handles what is queued"
    );
}

/// Unrelated actors terminate by themselves, long before the deadline that the stuck ones use up.
#[track_caller]
fn shut_down_beside(
    system: &System,
    unrelated: &[ActorRef<Probe>],
    stuck: &[ActorRef<Probe>],
) -> ShutdownReport {
    let report = shut_down(system, Duration::from_secs(4));
    for actor in unrelated {
        assert_eq!(ended(actor).reason, ExitReason::Drained);
    }
    assert!(stuck.iter().all(ActorRef::is_alive), "before the deadline");
    let report = report.join().expect("no panic");
    assert!(!report.is_clean(), "{report:?}");
    stuck.iter().for_each(|stuck| drop(ended(stuck)));
    report
}

/// Awaits for ever.
fn stuck(system: &System, options: SpawnOptions) -> ActorRef<Probe> {
    let (stuck, _) = probe_with(system, options);
    act_async(&stuck, |_| Box::pin(pending()));
    suspended(&stuck);
    stuck
}

fn check_stuck(stuck_count: usize) -> bool {
    const UNRELATED: usize = 81;
    let system = system();
    let (mut unrelated, mut stuck_ones) = (Vec::new(), Vec::new());
    for index in 0..UNRELATED {
        // All but the first half are spawned before a stuck one, and so are to end after it.
        if index * 2 >= UNRELATED && stuck_ones.len() < stuck_count {
            stuck_ones.push(stuck(&system, SpawnOptions::new()));
        }
        let (actor, _) = probe(&system);
        tell_all(&actor, 0..10);
        unrelated.push(actor);
    }
    let report = shut_down_beside(&system, &unrelated, &stuck_ones);
    assert_eq!(report.stopped_at_deadline, stuck_count, "{report:?}");
    for stuck in stuck_ones {
        assert_eq!(ended(&stuck).reason, ExitReason::Stopped);
    }
    let dead: u64 = system.dead_letters().iter().map(|it| it.count).sum();
    assert_eq!(dead, stuck_count as u64);
    report.unfinished.is_empty()
}

#[test]
fn actors_that_await_for_ever_do_not_delay_unrelated_ones() {
    once_in_three("one is stuck", || check_stuck(1));
    once_in_three("eight are stuck", || check_stuck(8));
}

#[test]
fn an_actor_that_is_muted_for_ever_does_not_delay_unrelated_ones() {
    once_in_three("all have terminated", || {
        let system = system();
        let unrelated = probes(&system, 81);
        let receiver = stuck(&system, bounded(1));
        while receiver.try_tell(0_u64).is_ok() {}
        let (muted, _) = probe(&system);
        act_tell(&muted, &receiver, 1..2);
        suspended(&muted);
        let report = shut_down_beside(&system, &unrelated, &[receiver]);
        ended(&muted);
        report.unfinished.is_empty()
    });
}
