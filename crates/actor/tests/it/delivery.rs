//! Accepted messages are delivered: a message told with `Ok` arrives also after its sender has terminated, for any
//! reason; a shutdown reports each message that it could not deliver.

use crate::common::*;

const TOLD: u64 = 10;

/// A held receiver with a lane of two, and a watcher.
struct Scene {
    system: TestSystem,
    receiver: ActorRef<Probe>,
    gate: Gate,
    notes: Notes<u64>,
    watcher: ActorRef<Probe>,
    ends: Notes<Terminated>,
}

fn scene() -> Scene {
    let system = system();
    let (receiver, gate, notes) = held(&system, bounded(2));
    let watcher = Probe::default();
    let ends = watcher.ends.clone();
    let watcher = system.spawn(watcher);
    Scene {
        system,
        receiver,
        gate,
        notes,
        watcher,
        ends,
    }
}

impl Scene {
    /// Tells the receiver [`TOLD`] numbers.
    fn teller(&self) -> impl FnOnce() + Send + 'static {
        let receiver = self.receiver.clone();
        move || tell_all(&receiver, 0..TOLD)
    }

    /// A sender in this system that has told its numbers, and then terminated.
    fn terminated_sender(&self, system: &System) -> ActorRef<Probe> {
        let (sender, tell) = (probe(system).0, self.teller());
        act(&sender, move |cx| {
            tell();
            cx.stop();
        });
        ended(&sender);
        sender
    }

    /// A sender in this system that has told its numbers, and is muted.
    fn muted_sender(&self, system: &System) -> ActorRef<Probe> {
        let (sender, _) = probe(system);
        act_tell(&sender, &self.receiver, 0..TOLD);
        suspended(&sender);
        sender
    }

    /// The sender's termination is visible while its messages still wait; then all arrive, in order.
    #[track_caller]
    fn check_delivered(self, sender: &ActorRef<Probe>, reason: ExitReason) {
        assert_eq!(ended(sender).reason, reason);
        assert!(!sender.is_alive());
        assert_eq!(self.ends.wait_len(1)[0].actor, sender.id());
        eventually("the receiver and the watcher are left", || {
            self.system.actors_alive() == 2
        });
        assert_eq!(self.notes.len(), 0, "the gate is closed");
        self.gate.open();
        assert!(self.notes.wait_len(TOLD as usize).into_iter().eq(0..TOLD));
        finish(&self.system);
        assert_eq!(self.notes.len(), TOLD as usize);
        let lane = lane(&self.receiver, 0);
        assert!(lane.shed.is_empty(), "{lane:?}");
        assert!(lane.high_water <= 2, "{lane:?}");
        assert_eq!((lane.accepted, lane.handled), (TOLD + 1, TOLD + 1));
    }

    /// The receiver gets all that were told, in order, and some from others.
    #[track_caller]
    fn check_arrived(&self) {
        assert!(self.notes.wait_len(TOLD as usize).into_iter().eq(0..TOLD));
    }

    /// Messages that the receiver's lane did not accept, of those that it was told.
    fn unaccepted(&self) -> u64 {
        TOLD - (lane(&self.receiver, 0).accepted - 1)
    }
}

fn watch(watcher: &ActorRef<Probe>, watched: &ActorRef<Probe>) {
    let watched = watched.clone();
    let watch = Act(Box::new(move |cx| cx.watch(&watched)));
    watcher.ask(watch).wait().expect("a reply");
}

#[test]
fn messages_of_an_actor_arrive_after_any_end_of_it() {
    let last_restart = Supervision::restart().limit(0, Duration::from_secs(60));
    type End = fn(&mut Context<Probe>);
    let ends: [(_, ExitReason, End); 4] = [
        (None, ExitReason::Stopped, |cx| cx.stop()),
        (None, ExitReason::Stopped, |cx| cx.actor_ref().stop()),
        (None, ExitReason::Panicked, |_| panic!("on purpose")),
        (Some(last_restart), ExitReason::RestartLimit, |_| {
            panic!("on purpose")
        }),
    ];
    for (supervision, reason, end) in ends {
        let scene = scene();
        let options = SpawnOptions::new().supervision(supervision.unwrap_or_default());
        let (sender, _) = probe_with(&scene.system, options);
        watch(&scene.watcher, &sender);
        let tell = scene.teller();
        act(&sender, move |cx| {
            tell();
            end(cx);
        });
        scene.check_delivered(&sender, reason);
    }
}

#[test]
fn messages_of_a_child_arrive_after_it_escalated() {
    let scene = scene();
    let (parent, _) = probe(&scene.system);
    let options = SpawnOptions::new().supervision(Supervision::escalate());
    let (sender, _) = child_of(&parent, options);
    watch(&scene.watcher, &sender);
    let tell = scene.teller();
    act(&sender, move |_| {
        tell();
        panic!("on purpose");
    });
    scene.check_delivered(&sender, ExitReason::Escalated);
}

#[test]
fn messages_of_the_handler_of_stopped_and_of_the_drop_arrive_in_this_order() {
    // The numbers of the handler, of `stopped`, and of the drop.
    for [handler, stopped, dropped] in [
        [0..4, 4..7, 7..TOLD],
        [0..0, 0..TOLD, TOLD..TOLD],
        [0..0, 0..0, 0..TOLD],
    ] {
        let scene = scene();
        let to = || scene.receiver.clone();
        let (first, second, third) = (to(), to(), to());
        let sender = scene.system.spawn(Probe {
            on_stopped: Some(Box::new(move |_| tell_all(&second, stopped))),
            on_drop: OnDrop::call(move || tell_all(&third, dropped)),
            ..Probe::default()
        });
        watch(&scene.watcher, &sender);
        act(&sender, move |cx| {
            tell_all(&first, handler);
            cx.stop();
        });
        scene.check_delivered(&sender, ExitReason::Stopped);
    }
}

#[test]
fn the_old_outbox_is_sent_before_the_messages_of_the_new_life() {
    let scene = scene();
    let options = SpawnOptions::new().supervision(at_once());
    let (receiver, lives) = (scene.receiver.clone(), Notes::default());
    let made = lives.clone();
    let sender = scene.system.spawn_with(options, move || {
        let (life, receiver) = (made.len() as u64, receiver.clone());
        made.push(());
        Probe {
            // Ten numbers in each life after the first.
            on_started: Some(Box::new(move |_| {
                tell_all(&receiver, life * 10..life * 20);
            })),
            ..Probe::default()
        }
    });
    let (sender, tell) = (sender.expect("valid options"), scene.teller());
    act(&sender, move |_| {
        tell();
        panic!("on purpose");
    });
    lives.wait_len(2);
    assert_eq!(scene.notes.len(), 0);
    scene.gate.open();
    assert!(scene.notes.wait_len(20).into_iter().eq(0..20));
    finish(&scene.system);
    assert!(lane(&scene.receiver, 0).shed.is_empty());
}

#[test]
fn a_receiver_that_terminates_meanwhile_makes_dead_letters() {
    let scene = scene();
    scene.terminated_sender(&scene.system);
    scene.receiver.stop();
    scene.gate.open();
    ended(&scene.receiver);
    eventually("all are dead letters", || {
        count_of(&scene.system.dead_letters(), "stopped") == TOLD
    });
    assert_eq!(shed(&scene.receiver, "stopped"), TOLD);
    finish(&scene.system);
    assert_eq!(scene.system.dead_letters().len(), 1);
}

#[test]
fn a_shutdown_waits_for_the_delivery() {
    let scene = scene();
    scene.terminated_sender(&scene.system);
    let report = shut_down(&scene.system, LIMIT);
    eventually("the shutdown has begun", || {
        let spawned = scene.system.spawn_once(bounded(1), Probe::default());
        spawned.is_err()
    });
    scene.gate.open();
    let report = report.join().expect("no panic");
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(report.undelivered, 0);
    assert!(scene.notes.all().into_iter().eq(0..TOLD));
}

#[test]
fn a_system_that_is_dropped_makes_dead_letters_of_undelivered_messages() {
    let letters = Notes::default();
    let seen = letters.clone();
    let builder = System::builder().workers(2);
    let system = build(builder.on_dead_letter(move |letter| seen.push(letter.reason)));
    let (receiver, gate, notes) = held(&system, bounded(2));
    let (sender, told) = (probe(&system).0, receiver.clone());
    act(&sender, move |cx| {
        tell_all(&told, 0..TOLD);
        cx.stop();
    });
    ended(&sender);
    system.abandon();
    gate.open();
    ended(&receiver);
    letters.wait_len(TOLD as usize - notes.len());
    assert_eq!(letters.len() + notes.len(), TOLD as usize);
}

#[test]
fn ten_thousand_terminated_actors_deliver_to_one_receiver() {
    const SENDERS: u64 = 10_000;
    let scene = scene();
    let senders: Vec<_> = (0..SENDERS)
        .map(|sender| {
            let (receiver, (actor, _)) = (scene.receiver.clone(), probe(&scene.system));
            act(&actor, move |cx| {
                tell_all(&receiver, sender * 3..sender * 3 + 3);
                cx.stop();
            });
            actor
        })
        .collect();
    senders.iter().for_each(|sender| drop(ended(sender)));
    eventually("they are gone", || scene.system.actors_alive() == 2);
    scene.gate.open();
    finish(&scene.system);
    let notes = scene.notes.all();
    assert_eq!(notes.len() as u64, SENDERS * 3);
    let mut next: Vec<u64> = vec![0; SENDERS as usize];
    for note in notes {
        let next = &mut next[note as usize / 3];
        assert_eq!(note % 3, *next, "in order per sender");
        *next += 1;
    }
    assert!(scene.system.dead_letters().is_empty());
    assert!(lane(&scene.receiver, 0).high_water <= 2);
}

#[test]
fn messages_for_several_receivers_all_arrive() {
    let system = system();
    let others: Vec<_> = (0..20).map(|_| held(&system, bounded(2))).collect();
    let (sender, _) = probe(&system);
    let receivers: Vec<_> = others.iter().map(|other| other.0.clone()).collect();
    act(&sender, move |cx| {
        for number in 0..TOLD {
            for receiver in &receivers {
                receiver.tell(number).expect("accepted");
            }
        }
        cx.stop();
    });
    ended(&sender);
    for (_, gate, notes) in &others {
        gate.open();
        assert!(notes.wait_len(TOLD as usize).into_iter().eq(0..TOLD));
    }
}

#[test]
fn a_stop_sheds_the_mailbox_and_not_the_outbox() {
    let scene = scene();
    let (sender, tell) = (probe(&scene.system).0, scene.teller());
    let stop = Gate::default();
    let passed = stop.clone();
    act(&sender, move |_| {
        tell();
        passed.pass();
    });
    stop.wait_arrived(1);
    act(&sender, |_| panic!("never run"));
    sender.stop();
    stop.open();
    assert_eq!(ended(&sender).reason, ExitReason::Stopped);
    scene.gate.open();
    scene.check_arrived();
    assert_eq!(shed(&sender, "stopped"), 1);
}

#[test]
fn a_receiver_of_another_system_gets_the_messages_of_a_terminated_sender() {
    let (scene, senders_system) = (scene(), system());
    scene.terminated_sender(&senders_system);
    scene.gate.open();
    finish(&senders_system);
    scene.check_arrived();
}

#[test]
fn a_receiver_whose_system_is_dropped_lets_senders_of_others_go() {
    let (scene, senders_system) = (scene(), system());
    let sender = scene.muted_sender(&senders_system);
    scene.system.abandon();
    scene.gate.open();
    ended(&scene.receiver);
    sender.ask(1_u64).wait().expect("it goes on");
}

#[test]
fn a_sender_whose_system_is_dropped_leaves_the_waiters_of_its_receiver() {
    let (scene, senders_system) = (scene(), system());
    let sender = scene.muted_sender(&senders_system);
    senders_system.abandon();
    ended(&sender);
    let receiver = scene.receiver.clone();
    let other = thread::spawn(move || tell_all(&receiver, 100..150));
    scene.gate.open();
    other.join().expect("no panic");
    finish(&scene.system);
    let dead = count_of(&scene.system.dead_letters(), "sender_stopped");
    let (told, others): (Vec<_>, Vec<_>) = scene.notes.all().into_iter().partition(|it| *it < TOLD);
    assert_eq!(told.len() as u64 + dead, TOLD);
    assert!(others.into_iter().eq(100..150));
}

/// A receiver goes on after the report, or once the shutdown has closed it. Returns whether the machine gave the
/// sender a processor within the grace period, so that the report has its messages.
#[track_caller]
fn is_reported(is_muted: bool, goes_on_early: bool) -> bool {
    let scene = scene();
    let sender = if is_muted {
        scene.muted_sender(&scene.system)
    } else {
        scene.terminated_sender(&scene.system)
    };
    let report = shut_down(&scene.system, Duration::from_millis(200));
    if goes_on_early {
        eventually("the receiver is closed", || {
            matches!(scene.receiver.try_tell(99_u64), Err(TellError::Closed(_)))
        });
        scene.gate.open();
    }
    let report = report.join().expect("no panic");
    assert!(!report.is_clean());
    scene.gate.open();
    // The message in hand is noted before it terminates.
    ended(&scene.receiver);
    ended(&sender);
    let dead = || scene.system.dead_letters();
    eventually("each is handled or dead", || {
        let dead = count_of(&dead(), "stopped") + count_of(&dead(), "sender_stopped");
        dead + scene.notes.len() as u64 == TOLD
    });
    let unaccepted = scene.unaccepted();
    let is_reported = report.undelivered == unaccepted;
    // A sender that got no processor within the grace period is in the report itself.
    let was_displaced = !report.unfinished.is_empty() || !report.stuck_workers.is_empty();
    assert!(
        is_reported || was_displaced,
        "{unaccepted}: {report:?} {:?}",
        dead()
    );
    is_reported && count_of(&dead(), "sender_stopped") == unaccepted
}

#[test]
fn messages_that_are_not_delivered_by_the_deadline_are_reported() {
    for is_muted in [false, true] {
        for goes_on_early in [false, true] {
            let what = format!("muted {is_muted}, early {goes_on_early}");
            once_in_three(&what, || is_reported(is_muted, goes_on_early));
        }
    }
}

#[test]
fn messages_of_a_muted_actor_with_an_empty_mailbox_are_reported() {
    let system = system();
    let (receiver, _) = probe_with(&system, bounded(2));
    // It terminates as soon as the shutdown stops it.
    act_async(&receiver, |_| Box::pin(pending()));
    suspended(&receiver);
    let (sender, _) = probe(&system);
    act_tell(&sender, &receiver, 0..TOLD);
    suspended(&sender);
    // The newest one works until the deadline, so that the shutdown comes to no other before.
    let (busy, _) = probe(&system);
    for _ in 0..1_000 {
        act(&busy, |_| {
            let until = Instant::now() + Duration::from_millis(1);
            while Instant::now() < until {
                thread::yield_now();
            }
        });
    }
    let report = system.shutdown(Duration::from_millis(100));
    for actor in [&sender, &receiver, &busy] {
        ended(actor);
    }
    let accepted = lane(&receiver, 0).accepted - 1;
    assert_eq!(report.undelivered, TOLD - accepted, "{report:?}");
}

#[test]
fn an_iterator_that_a_shutdown_cuts_short_is_reported() {
    let scene = scene();
    let (sender, to) = (probe(&scene.system).0, scene.receiver.clone());
    act(&sender, move |cx| {
        cx.send_all(&to, 0..TOLD).expect("accepted");
    });
    suspended(&sender);
    let report = scene.system.shutdown(Duration::from_millis(50));
    assert_eq!(report.undelivered, 1, "{report:?}");
    let stopped: Vec<_> = report.stopped.iter().map(|it| it.actor).collect();
    assert!(
        stopped.contains(&sender.id()) && stopped.contains(&scene.receiver.id()),
        "{report:?}"
    );
    scene.gate.open();
    ended(&scene.receiver);
}

#[test]
fn messages_that_are_not_delivered_to_another_system_are_reported() {
    let (scene, senders_system) = (scene(), system());
    scene.terminated_sender(&senders_system);
    let report = senders_system.shutdown(Duration::from_millis(50));
    assert_eq!(report.undelivered, scene.unaccepted(), "{report:?}");
    assert!(!report.is_clean(), "{report:?}");
    scene.gate.open();
}

#[test]
fn a_shutdown_leaves_a_stalled_receiver_open_to_its_senders() {
    type Send = fn(&mut Context<Probe>, &ActorRef<Probe>);
    let scripts: [Send; 3] = [
        |_, to| tell_all(to, 0..TOLD),
        |cx, to| {
            tell_all(to, 0..TOLD);
            cx.stop();
        },
        |cx, to| cx.send_all(to, 0..TOLD).expect("accepted"),
    ];
    for script in scripts {
        let scene = scene();
        let (sender, to) = (probe(&scene.system).0, scene.receiver.clone());
        act(&sender, move |cx| script(cx, &to));
        eventually("its first messages are there", || {
            lane(&scene.receiver, 0).depth >= 2
        });
        let report = shut_down(&scene.system, Duration::from_secs(4));
        // Others end meanwhile.
        ended(&scene.watcher);
        scene.gate.open();
        let report = report.join().expect("no panic");
        assert!(report.is_clean(), "{report:?}");
        assert!(scene.notes.all().into_iter().eq(0..TOLD));
    }
}
